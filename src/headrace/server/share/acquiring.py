"""Acquiring: which records of a share partition one fetch hands out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headrace.server.share.delivery_throttle import DeliveryThrottle
from headrace.server.share.in_flight_batch import Acquired, InFlightBatch, RecordState
from headrace.server.share.window import ShareWindow

IDLE_MAX: Final = 64
"""Batches in a row of which nothing can be had, after which another fetch looks at what comes behind them."""


class LogBatch(NamedTuple):
    """Where a record batch of the log lies. One that is not `wanted` holds nothing for the group: it is a
    transaction's marker, or was aborted."""

    base_offset: int
    last_offset: int
    wanted: bool = True


class Limits(NamedTuple):
    """What a fetch may acquire: the request's limits, and the group's."""

    records_max: int
    batch_size: int
    is_strict: bool  # not one record more than `records_max`; else whole batches
    lock_until_ms: int
    locks_max: int
    delivery_count_limit: int


class Acquiring:
    """One fetch by a member, and what it has got so far."""

    __slots__ = ("_left", "_limits", "_member_id", "_throttle", "_window", "acquired")

    def __init__(self, window: ShareWindow, member_id: str, limits: Limits) -> None:
        self.acquired: list[Acquired] = []
        self._window = window
        self._member_id = member_id
        self._limits = limits
        self._left = limits.records_max
        self._throttle = DeliveryThrottle(limits.delivery_count_limit)

    def take(self, log_batches: Iterable[LogBatch]) -> list[Acquired]:
        """Hand out records of these batches, which follow each other in the log from `next_fetch_offset`."""
        window, throttle = self._window, self._throttle
        expected, room = window.next_fetch_offset(), None
        for batch in log_batches if window.order is None else self._in_order(log_batches):
            if batch.base_offset > expected:
                self._archive_free(expected, batch.base_offset - 1)  # the log has nothing there
            expected = max(expected, batch.last_offset + 1)
            self._take_known_of(batch)
            is_new = batch.last_offset > window.end_offset
            if throttle.is_full or (throttle.slows and is_new):
                break
            if is_new and self._left > 0:
                room = self._limits.locks_max - window.in_flight() if room is None else room
                if room <= 0 and batch.wanted:
                    break
                room -= self._take_new(batch)
            if self._left <= 0:
                break
        window.advance()
        return self.acquired

    def _in_order(self, log_batches: Iterable[LogBatch]) -> Iterator[LogBatch]:
        """In order by key: what is known, as long as there is something every now and then."""
        left, idle = self._left, 0
        for batch in log_batches:
            if idle > IDLE_MAX or batch.base_offset > self._window.end_offset:
                break
            yield batch._replace(last_offset=min(batch.last_offset, self._window.end_offset))
            left, idle = (left, idle + 1) if self._left == left else (self._left, 0)

    def _take_known_of(self, batch: LogBatch) -> None:
        window = self._window
        for known in window.free_in(batch.base_offset, min(batch.last_offset, window.end_offset)):
            if not batch.wanted:
                self._archive(known)
            elif not self._throttle.is_full and (self._left > 0 or not self._limits.is_strict):
                self._take_known(known)

    def _take_known(self, known: InFlightBatch) -> None:
        most = self._may_take(known)
        if self._limits.is_strict:
            most = min(most, self._left)
        if not most:
            return
        window, acquired = self._window, self.acquired
        if len(known) > most:
            window.split(known, known.first + most)
        before = window.before(known)
        if before is not None and self._continues(before, known.together, known.delivery_count + 1):
            window.remove(known)
            before.grow(known.last)
            acquired[-1] = Acquired(before.first, before.last, before.delivery_count)
        else:
            acquired.append(known.acquire(self._member_id, self._limits.lock_until_ms))
        self._left -= len(known)

    def _may_take(self, known: InFlightBatch) -> int:
        window, together = self._window, known.together

        def counts() -> Iterator[int]:
            siblings = window.overlapping(together.start, together.stop - 1) if together is not None else []
            return (each.delivery_count for each in siblings if each.is_free and each.together == together)

        return self._throttle.take(
            together, known.delivery_count, len(known), counts=counts, has_some=bool(self.acquired)
        )

    def _take_new(self, batch: LogBatch) -> int:
        """Let the window grow over a batch, or over the part of it that is asked for."""
        window, acquired = self._window, self.acquired
        first, last = max(batch.base_offset, window.end_offset + 1), batch.last_offset
        if not batch.wanted:
            window.append(InFlightBatch(first, last, RecordState.ARCHIVED, 0))
            return 0
        if self._limits.is_strict:
            last = min(last, first + self._left - 1)
        new = window.last()
        if new is not None and self._continues(new, None, 1):
            new.grow(last)
            window.end_offset = last
            acquired[-1] = Acquired(new.first, last, 1)
        else:
            new = InFlightBatch(first, last, RecordState.AVAILABLE, 0)
            window.append(new)
            acquired.append(new.acquire(self._member_id, self._limits.lock_until_ms))
        if last < batch.last_offset:  # the window grows by whole batches
            self._append_rest(new, batch.last_offset)
        self._left -= last - first + 1
        return last - first + 1

    def _append_rest(self, taken: InFlightBatch, last: int) -> None:
        assert taken.together is not None
        taken.together = range(taken.together.start, last + 1)
        rest = InFlightBatch(taken.last + 1, last, RecordState.AVAILABLE, 0)
        rest.together = taken.together
        self._window.append(rest)

    def _archive_free(self, first: int, last: int) -> None:
        window = self._window
        for batch in window.free_in(first, min(last, window.end_offset)):
            self._archive(batch)
        window.cover_to(last + 1, RecordState.ARCHIVED)

    def _archive(self, batch: InFlightBatch) -> None:
        batch.state = RecordState.ARCHIVED
        self._window.let_next_go(range(batch.first, batch.last + 1))

    def _continues(self, before: InFlightBatch, together: range | None, delivery_count: int) -> bool:
        """Whether what comes behind a range that was just acquired can become a part of it."""
        acquired = self.acquired
        is_new = bool(acquired) and acquired[-1] == (before.first, before.last, delivery_count)
        is_small = len(before) < self._limits.batch_size
        return is_new and is_small and together in (None, before.together)
