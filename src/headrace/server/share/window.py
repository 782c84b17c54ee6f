"""ShareWindow: the ranges of a share partition, from its start offset to its end offset without a hole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from headrace.server.share.in_flight_batch import TERMINAL, InFlightBatch, RecordState

RANGES_MAX: Final = 20_000
"""What a window may be cut into: records that rest do not count as handed out, and could be any number. It is
walked through by each fetch, which takes a millisecond then."""


class ShareWindow:
    """A sorted list of ranges, which are cut and joined as what becomes of their records differs or not."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self._batches: list[InFlightBatch] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def next_fetch_offset(self) -> int:
        """The first record that can be handed out, be it an old one or the next of the log."""
        for batch in self._batches:
            if batch.is_free:
                return batch.first
        return self.end_offset + 1

    def may_acquire(self, locks_max: int) -> bool:
        if self.next_fetch_offset() <= self.end_offset:
            return True
        return self.in_flight() < locks_max and len(self._batches) < RANGES_MAX

    def in_flight(self) -> int:
        """How many records are handed out or wait to be handed out again; what rests is not among them."""
        return sum(
            len(batch) for batch in self._batches if batch.state not in TERMINAL and not batch.is_paused
        )

    def append(self, batch: InFlightBatch) -> None:
        assert batch.first == self.end_offset + 1, f"{batch} leaves a hole behind {self.end_offset}"
        self._batches.append(batch)
        self.end_offset = batch.last

    def cover_to(self, offset: int, state: RecordState) -> None:
        """Let the window reach up to this offset."""
        if self.end_offset + 1 < offset:
            self.append(InFlightBatch(self.end_offset + 1, offset - 1, state, 0))

    def last(self) -> InFlightBatch | None:
        return self._batches[-1] if self._batches else None

    def before(self, batch: InFlightBatch) -> InFlightBatch | None:
        at = bisect_left(self._batches, batch.first, key=_first)
        return self._batches[at - 1] if at else None

    def remove(self, batch: InFlightBatch) -> None:
        """What comes before it has grown over it."""
        self._batches.remove(batch)

    def forget_before(self, offset: int) -> None:
        """Drop what lies before this offset."""
        del self._batches[: bisect_left(self._batches, offset, key=_last)]
        if self._batches and self._batches[0].first < offset:
            self._batches[0].first = offset

    def overlapping(self, first: int, last: int) -> list[InFlightBatch]:
        begin = bisect_left(self._batches, first, key=_last)
        end = bisect_right(self._batches, last, key=_first)
        return self._batches[begin:end]

    def free_in(self, first: int, last: int) -> list[InFlightBatch]:
        """The free ranges from first to last, cut at these."""
        if first > last:
            return []
        free = [batch for batch in self.overlapping(first, last) if batch.is_free]
        return [self.cut_one(batch, first, last) for batch in free]

    def cut(self, first: int, last: int) -> list[InFlightBatch]:
        """The ranges from first to last, cut at these."""
        return [self.cut_one(batch, first, last) for batch in self.overlapping(first, last)]

    def cut_one(self, batch: InFlightBatch, first: int, last: int) -> InFlightBatch:
        if batch.first < first:
            batch = self.split(batch, first)
        if batch.last > last:
            self.split(batch, last + 1)
        return batch

    def split(self, batch: InFlightBatch, at: int) -> InFlightBatch:
        """Cut a range in two; the second one is returned."""
        rest = InFlightBatch(at, batch.last, batch.state, batch.delivery_count)
        rest.member_id, rest.deadline_ms = batch.member_id, batch.deadline_ms
        rest.together, rest.was_rejected = batch.together, batch.was_rejected
        rest.not_before_ms = batch.not_before_ms
        batch.last = at - 1
        self._batches.insert(bisect_right(self._batches, batch.first, key=_first), rest)
        return rest

    def join(self) -> None:
        """Neighbours that say the same become one."""
        joined: list[InFlightBatch] = []
        for batch in self._batches:
            if joined and joined[-1].says_same(batch):
                joined[-1].last = batch.last
            else:
                joined.append(batch)
        self._batches = joined

    def advance(self) -> None:
        """Leave behind what is done at the window's start."""
        done = 0
        for batch in self._batches:
            if batch.state not in TERMINAL or batch.next_state is not None:
                break
            done += 1
        del self._batches[:done]
        self.start_offset = self._batches[0].first if self._batches else self.end_offset + 1


def _first(batch: InFlightBatch) -> int:
    return batch.first


def _last(batch: InFlightBatch) -> int:
    return batch.last
