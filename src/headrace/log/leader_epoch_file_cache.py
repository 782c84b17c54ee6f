"""Which leader epoch wrote which offsets (KIP-101), kept in `leader-epoch-checkpoint`.

A list of (epoch, first offset), both rising. Followers ask where an epoch ends and truncate there, never by
high watermark. The table changes in memory at once, and `version` counts the changes: the file may be behind.
The file is written with every flush, before the recovery point moves on: what a crash takes is found again in
the batches behind the recovery point.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from headrace.base.ids import NO_EPOCH

NO_OFFSET: Final = -1


class LeaderEpochFileCache:
    """A partition's epochs, oldest first."""

    __slots__ = ("_epochs", "_starts", "version")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries or ()]
        self._starts = [start for _, start in entries or ()]
        self.version = 0

    def __repr__(self) -> str:
        return f"LeaderEpochFileCache({self.entries()})"

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> int:
        """The latest epoch, or -1."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on this epoch writes. Entries that contradict it go: the log is the truth."""
        assert epoch >= 0
        assert start_offset >= 0
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.version += 1

    def note(self, epoch: int, start_offset: int) -> None:
        """A batch of this epoch starts here; the batches are told in order. Later epochs that are known
        already had nothing to write: this replica was to lead in them when it was behind."""
        if NO_EPOCH != epoch < self.latest_epoch:
            keep = bisect_right(self._epochs, epoch)
            del self._epochs[keep:], self._starts[keep:]
            self.version += 1
        if epoch > self.latest_epoch:
            self.assign(epoch, start_offset)

    def take_over(self, other: "LeaderEpochFileCache") -> None:
        """Have what the original of a copied log has: also an epoch in which nothing was written yet."""
        if (self._epochs, self._starts) != (other._epochs, other._starts):
            self._epochs, self._starts = list(other._epochs), list(other._starts)
            self.version += 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, where it ends); (-1, -1) where that cannot be told
        (KIP-279)."""
        if epoch == NO_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        # An epoch before all that are known ends where the first of them starts.
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote this offset, or -1."""
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else NO_EPOCH

    def start_of(self, epoch: int) -> int:
        """The first offset of an epoch, or -1."""
        number = bisect_left(self._epochs, epoch)
        found = number < len(self._epochs) and self._epochs[number] == epoch
        return self._starts[number] if found else NO_OFFSET

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.version += 1

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: the epoch it lies in starts there too."""
        number = bisect_right(self._starts, start_offset) - 1
        if number >= 0 and (number or self._starts[0] < start_offset):
            del self._epochs[:number], self._starts[:number]
            self._starts[0] = start_offset
            self.version += 1

    def reach_back_to(self, start_offset: int) -> None:
        """The first epoch began there, if not before: its first batches were compacted away, or its file
        was damaged. Else nobody would know whose a log's first offsets are."""
        if self._starts and self._starts[0] > start_offset:
            self._starts[0] = start_offset
            self.version += 1

    def clear(self) -> None:
        if self._epochs:
            del self._epochs[:], self._starts[:]
            self.version += 1
