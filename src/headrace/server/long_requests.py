"""Work that is done in slices: what handlers whose cost grows with what is stored are made of.

A handler that may take long is a generator: it yields after some of its work and returns its response, or a
future of one. The connection that asked goes on with it when it is its turn (`transport/serving_turns.py`),
and sends nothing else meanwhile. What it looks at can change between two slices, so it takes what it walks
over before it begins, and looks up the rest as it is by then.
"""

from __future__ import annotations

from asyncio import isfuture
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeVar

from headrace.wire.plan import fields_of

T = TypeVar("T")
U = TypeVar("U")

Slices = Generator[Any, None, T]
"""Yields between slices; what it yields is awaited where that is a future."""

SLICE_ITEMS: Final = 64
"""Looked at between two looks at the time: about half a millisecond of the usual work."""

SHORT_ITEMS: Final = 256
"""Up to so many are done at once: slices cost more than they help."""

_FREED_AT_ONCE: Final = 2048


def in_slices(items: Iterable[T], function: Callable[[T], U]) -> Slices[list[U]]:
    """The function of each item, in order."""
    results: list[U] = []
    for number, item in enumerate(items, 1):
        results.append(function(item))
        if not number % SLICE_ITEMS:
            yield
    return results


def at_once(slices: Slices[T]) -> T:
    """The result of work that is known to be short."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def unless_short(items: int, slices: Slices[T]) -> T | Slices[T]:
    """What a handler gives that has to look at so many items."""
    return at_once(slices) if items <= SHORT_ITEMS else slices


def awaited(result: Any) -> Slices[Any]:
    """What a handler gave, once it is there: the connection goes on with nothing else meanwhile."""
    if not isfuture(result):
        return result
    if not result.done():
        yield result
    return result.result()


def let_go(message: Any) -> Slices[None]:
    """Free a long message in slices: a million objects that go at once take a tenth of a second."""
    if not hasattr(type(message), "__field_defaults__"):
        return
    for spec in fields_of(type(message)):
        items = getattr(message, spec.name)
        if spec.is_array and items:
            while len(items) > _FREED_AT_ONCE:
                del items[-_FREED_AT_ONCE:]
                yield
            for number, item in enumerate(items if spec.struct is not None else (), 1):
                yield from let_go(item)
                if not number % SLICE_ITEMS:
                    yield
