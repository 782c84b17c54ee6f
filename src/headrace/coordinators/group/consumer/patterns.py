"""Subscriptions by pattern, with RE2's rules: linear in the length of a name whatever the pattern is.

Python's own `re` backtracks, so one member could stop the node with a pattern; it must not be used here. RE2
is loaded with the first pattern, since most nodes never see one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

# Groups use few patterns; each compiled one takes some kilobytes.
COMPILED_MAX: Final = 256


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the pattern matches from end to end."""
    matches = _compiled(pattern)
    return frozenset(name for name in names if matches(name))


def check_pattern(pattern: str) -> None:
    """ApiError with INVALID_REGULAR_EXPRESSION where RE2 cannot read it."""
    _compiled(pattern)


@lru_cache(COMPILED_MAX)
def _compiled(pattern: str) -> Callable[[str], object]:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Any = re2.compile(pattern, options=options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else ""
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is not a pattern that RE2 reads: {reason}"
        ) from None
    matches: Callable[[str], object] = compiled.fullmatch
    return matches
