"""A process's descriptors: connections may have most of them, and a reserve is kept for files.

A process that has used up its descriptors can open no segment, write no checkpoint and reach no other node.
So connections are refused before that, and those that are quietest are closed. How many are used needs no
counting: the system gives the lowest number that is free, so that a new descriptor's number says that all
below it are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

RESERVE_MAX: Final = 5120
"""Enough for 4,096 open segments and what else needs files."""


class Descriptors:
    """The limit of this process. `lowest_free` gives the number that the next descriptor would have, or the
    limit where none is left."""

    def __init__(self, limit: int, lowest_free: Callable[[], int]) -> None:
        self.limit = limit
        self.lowest_free = lowest_free
        self.reserve = min(limit // 2, RESERVE_MAX)
        self.open_files: Callable[[], int] = lambda: 0
        """How many files of logs are open now, out of the reserve."""

    @property
    def kept(self) -> int:
        """How many must stay free for files that are not open now."""
        return self.reserve - min(self.open_files(), self.open_files_max)

    def may_serve(self, descriptor: int, *, needed: bool) -> bool:
        """Whether a new connection may keep its descriptor; those that a cluster needs may have half of what
        is kept for files."""
        return descriptor < self.limit - (self.kept // 2 if needed else self.kept)

    @property
    def open_files_max(self) -> int:
        """How many files of logs may be open at once: they are opened again when needed, and checkpoints,
        snapshots and other nodes need some as well."""
        return max(self.reserve * 4 // 5, 1)

    @property
    def missing(self) -> int:
        """How many of those that must stay free are taken, at least."""
        return max(self.lowest_free() - self.limit + self.kept, 0)
