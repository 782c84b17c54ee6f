"""ShareWindow: the ranges of a share partition, from its start offset to its end offset without a hole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.server.share.in_flight_batch import TERMINAL, UNTIL_ITS_TURN, InFlightBatch, RecordState
from headrace.server.share.key_order import IN_ORDER, KeyOrder, LooksFor

RANGES_MAX: Final = 20_000
"""What a window may be cut into: records that rest do not count as handed out, and could be any number. It is
walked through by each fetch, which takes a millisecond then."""


class ShareWindow:
    """A sorted list of ranges, which are cut and joined as what becomes of their records differs or not."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self.order: KeyOrder | None = None
        self._batches: list[InFlightBatch] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def next_fetch_offset(self) -> int:
        """The first record that can be handed out, be it an old one or the next of the log. In order by key
        the next may be one whose key is not known yet."""
        for batch in self._batches:
            if batch.is_free:
                return batch.first
        return self.end_offset + 1 if self.order is None else self.order.known_to

    @property
    def has_free(self) -> bool:
        return any(batch.is_free for batch in self._batches)

    def may_acquire(self, locks_max: int) -> bool:
        if self.next_fetch_offset() <= self.end_offset:
            return True
        return self.in_flight() < locks_max and len(self._batches) < RANGES_MAX

    def in_flight(self) -> int:
        """How many records are handed out or wait to be handed out again; what rests is not among them."""
        return sum(
            len(batch) for batch in self._batches if batch.state not in TERMINAL and not batch.is_paused
        )

    # --- order by key ---

    def order_by_key(self, records_max: int, looks: LooksFor = IN_ORDER) -> None:
        """Begin to keep the order of so many records and to wait for their times, or go on, or end it: 0.
        What somebody holds already stays with him."""
        if not records_max:
            self.order = None
            for batch in self._batches:
                if batch.is_paused:
                    batch.not_before_ms = 0
        elif self.order is None or self.order.looks != looks:
            self.order = KeyOrder(self.start_offset, records_max, looks)
            for batch in self._batches:
                if batch.state is RecordState.AVAILABLE:
                    batch.not_before_ms = UNTIL_ITS_TURN
        else:
            self.order.records_max = records_max

    def room_for_keys(self, locks_max: int) -> int:
        """How many records more may be handed out before others are answered for."""
        if self.order is not None and self.order.known_to <= self.end_offset:
            return locks_max  # the window was there before its keys were known
        return locks_max - self.in_flight() if len(self._batches) < RANGES_MAX else 0

    def let_next_go(self, offsets: Iterable[int]) -> None:
        """These are done with: it is the turn of others."""
        order = self.order
        if order is None:
            return
        for offset in offsets:
            following = order.done(offset)
            if following is not None:
                for batch in self.overlapping(following, following):
                    if batch.waits_its_turn:
                        first = self.cut_one(batch, following, following)
                        first.not_before_ms = order.time_of(following)

    def keep_order(self, first: int, last: int) -> None:
        """What came back waits where it is not its turn: it was handed out before order was kept."""
        order = self.order
        if order is not None:
            for offset in range(first, last + 1):
                if not order.is_its_turn(offset):
                    for batch in self.cut(offset, offset):
                        batch.not_before_ms = UNTIL_ITS_TURN

    # --- ranges ---

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
        if self.order is not None:
            self.let_next_go(self.order.before(offset))
            self.order.known_to = max(self.order.known_to, offset)
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
