"""One file as the page cache has it, and enough memory of the past to say what a power cut would leave.

`data` is what every reader sees. Each change since the last sync is remembered by what it overwrote, so the
state on the platter can be had by undoing them; for a log, which only appends, that memory is a few numbers
per write. At a power cut the seed then decides the fate of every unsynced change: whole, torn, or never
written.

A sync that failed makes things worse, as on Linux: the pages count as clean, so a later sync that succeeds
does not bring them to the platter.
"""

import random
from collections.abc import Sequence
from typing import Final

from headrace.base.chunks import Buffer

SECTOR_BYTES: Final = 512

# A kernel writes dirty pages back by itself in the end; so do we, oldest first, to bound the memory of
# changes.
UNSYNCED_CHANGES_MAX: Final = 4096


class _Change:
    """A write or a truncation, by what it replaced: `before` stood from `start`, and the file had
    `size_before`.
    """

    __slots__ = ("before", "durable", "end", "size_after", "size_before", "start", "sync_failed")

    def __init__(self, start: int, end: int, before: bytes, size_before: int, size_after: int) -> None:
        self.start = start
        self.end = end
        self.before = before
        self.size_before = size_before
        self.size_after = size_after
        self.sync_failed = False
        self.durable = False

    @property
    def shrinks(self) -> bool:
        return self.size_after < self.size_before

    def undo(self, data: bytearray) -> bytes:
        """Take the change back; returns the bytes it had written."""
        written = bytes(data[self.start : self.end])
        del data[self.size_before :]
        data[self.start : self.start + len(self.before)] = self.before
        return written

    def redo(self, data: bytearray, written: bytes) -> None:
        """Let the change, or the part of it that is in `written`, reach the platter."""
        if self.shrinks:
            del data[self.size_after :]
        else:
            put(data, self.start, written)


class FileContent:
    """The bytes of a file, cached and durable."""

    __slots__ = ("_unsynced", "data", "linked", "modified_ms")

    def __init__(self, data: bytes = b"", *, modified_ms: int = 0) -> None:
        self.data = bytearray(data)
        self.linked = True
        self.modified_ms = modified_ms
        self._unsynced: list[_Change] = []

    def write(self, position: int, chunks: Sequence[Buffer]) -> None:
        """A gap before `position` reads as zeros, as in a sparse file."""
        joined = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        size, end = len(self.data), position + len(joined)
        start = min(position, size)
        before = bytes(self.data[start:end])
        self._remember(_Change(start, end, before, size, max(size, end)))
        put(self.data, position, joined)

    def truncate(self, size: int) -> None:
        before_size = len(self.data)
        before = bytes(self.data[size:])
        self._remember(_Change(min(size, before_size), size, before, before_size, size))
        if size < before_size:
            del self.data[size:]
        else:
            self.data.extend(bytes(size - before_size))

    def _remember(self, change: _Change) -> None:
        self._unsynced.append(change)
        if len(self._unsynced) > UNSYNCED_CHANGES_MAX:
            del self._unsynced[: UNSYNCED_CHANGES_MAX // 2]

    def sync(self) -> None:
        if not any(change.sync_failed for change in self._unsynced):
            self._unsynced.clear()
            return
        for change in self._unsynced:
            change.durable = not change.sync_failed

    def fail_sync(self) -> None:
        for change in self._unsynced:
            change.sync_failed = not change.durable

    @property
    def unsynced_changes(self) -> int:
        return sum(not change.durable for change in self._unsynced)

    def cut_power(self, rng: random.Random) -> None:
        """Become what the platter holds: all that was synced, and what the seed lets survive of the rest."""
        changes, self._unsynced = self._unsynced, []
        if not changes:
            return
        written = [change.undo(self.data) for change in reversed(changes)][::-1]
        fates = _fates(rng, len(changes))
        for change, data, fate in zip(changes, written, fates, strict=True):
            if change.durable or fate == "whole":
                change.redo(self.data, data)
            elif fate == "torn" and not change.shrinks:
                change.redo(self.data, _torn(rng, data, change.before))


def put(data: bytearray, position: int, piece: Buffer) -> None:
    """Overwrite from `position`, extending with zeros where the file is shorter."""
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(piece)] = piece


def _fates(rng: random.Random, count: int) -> list[str]:
    """What becomes of each unsynced change, in order. Half the time in order, as journals and luck have
    it.
    """
    luck = rng.random()
    if luck < 0.25:
        return ["lost"] * count
    if luck < 0.40:
        return ["whole"] * count
    if luck < 0.75:
        survivors = rng.randrange(count)
        return (["whole"] * survivors + ["torn"] + ["lost"] * count)[:count]
    return rng.choices(["whole", "torn", "lost"], weights=[3, 1, 2], k=count)


def _torn(rng: random.Random, written: bytes, before: bytes) -> bytes:
    """Part of a write: cut at a byte or a sector, with zeros after it, or with sectors missing inside.

    What it did not get to overwrite is as it was: disks write a sector whole or not at all.
    """
    if not written:
        return written
    cut = rng.randrange(len(written))
    style = rng.randrange(4)
    if style == 0:
        return written[:cut]
    if style == 1:
        return written[: cut - cut % SECTOR_BYTES]
    if style == 2:
        return written[:cut] + before[cut : len(written)].ljust(len(written) - cut, b"\0")
    torn = bytearray(before[: len(written)].ljust(len(written), b"\0"))
    for at in range(0, len(written), SECTOR_BYTES):
        if rng.random() < 0.5:
            torn[at : at + SECTOR_BYTES] = written[at : at + SECTOR_BYTES]
    return bytes(torn)
