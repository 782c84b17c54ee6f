"""Rows of a long table, of which a page that knows most gets those that have changed.

Ten thousand topics are more than a megabyte, and a page asks every few seconds. The first answer has all rows
and a version; who asks again with the version gets what has changed since, and the names that are gone. A
version of another console, or one that is too old, is answered with all rows.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final

GONE_MAX: Final = 5_000
"""Names that are remembered for those who still show them."""

Row = dict[str, Any]


class RowChanges:
    """One table as one identity sees it. `name` is the column that tells rows apart."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._life = secrets.token_hex(4)
        self._version = 0
        self._oldest = 0
        self._source: object = None
        self._rows: dict[str, tuple[int, Row]] = {}
        self._gone: dict[str, int] = {}

    def since(
        self, given: str, source: object, rows: Callable[[], Iterable[Row]]
    ) -> tuple[str, bool, list[Row], list[str]]:
        """Version, whether these are all rows, the rows, and who is gone. Rows are made once of a source."""
        if source is not self._source:
            self._source = source
            self._take({row[self._name]: row for row in rows()})
        version = f"{self._life}.{self._version}"
        life, _, number = given.partition(".")
        known = int(number) if life == self._life and number.isdecimal() else -1
        if not self._oldest <= known <= self._version:
            return version, True, [row for _, row in self._rows.values()], []
        changed = [row for at, row in self._rows.values() if at > known]
        return version, False, changed, [name for name, at in self._gone.items() if at > known]

    def _take(self, rows: dict[str, Row]) -> None:
        self._version += 1
        kept: dict[str, tuple[int, Row]] = {}
        for name, row in rows.items():
            before = self._rows.get(name)
            kept[name] = before if before is not None and before[1] == row else (self._version, row)
            self._gone.pop(name, None)
        self._gone |= dict.fromkeys((name for name in self._rows if name not in kept), self._version)
        if len(self._gone) > GONE_MAX:
            self._gone.clear()
            self._oldest = self._version
        self._rows = kept
