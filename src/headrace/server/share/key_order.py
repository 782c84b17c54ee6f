"""KeyOrder: whose turn it is among records of one key, where a share group wants their order kept.

A record is handed out once all before it with the same key are done with, and that is written; until then it
waits its turn in the window, like one that rests, and keeps nobody waiting but its key. A record without a
key never waits. So the keys of all that is not done with must be known before anything behind it is handed
out: the log is read from the window's start on, and what is beyond `known_to` waits. That is also how a new
leader knows what the last one knew.

Kept of each record with a key are its offset and the hash of its key. Two keys with the same hash wait for
each other, which is no harm. Only so many are kept; then nothing new is looked at until some are done with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from headrace.server.share.in_flight_batch import TERMINAL, UNTIL_ITS_TURN, InFlightBatch, RecordState

if TYPE_CHECKING:
    from headrace.server.share.window import ShareWindow


class KeyedBatch(NamedTuple):
    """The records of a record batch that are there for the group: their offsets, and the hashes of their
    keys; None where there is no key."""

    base_offset: int
    last_offset: int
    offsets: list[int]
    keys: list[int | None]


class KeyOrder:
    """The records of each key that are not done with, in order: the first one's turn it is."""

    __slots__ = ("_keys", "_queues", "known_to", "records_max")

    def __init__(self, start_offset: int, records_max: int) -> None:
        self.known_to = start_offset
        self.records_max = records_max
        self._keys: dict[int, int] = {}
        self._queues: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def has_room(self) -> bool:
        return len(self._keys) < self.records_max

    def add(self, offset: int, key: int | None) -> bool:
        """Whether it is the record's turn. They are added in the log's order."""
        if key is None:
            return True
        self._keys[offset] = key
        queue = self._queues.setdefault(key, [])
        queue.append(offset)
        return len(queue) == 1

    def is_its_turn(self, offset: int) -> bool:
        key = self._keys.get(offset)
        return offset < self.known_to and (key is None or self._queues[key][0] == offset)

    def done(self, offset: int) -> int | None:
        """A record is done with: the one whose turn it is now."""
        key = self._keys.pop(offset, None)
        if key is None:
            return None
        queue = self._queues[key]
        was_first = queue[0] == offset
        queue.remove(offset)
        if not queue:
            del self._queues[key]
            return None
        return queue[0] if was_first else None

    def before(self, offset: int) -> list[int]:
        """What is known before this offset."""
        return list(takewhile(lambda each: each < offset, self._keys))


class _Verdict(IntEnum):
    WAITS = 0
    MAY_GO = 1
    IS_GONE = 2


_Run = tuple[int, int, _Verdict]


def learn_keys(
    window: ShareWindow, order: KeyOrder, log_batches: Iterable[KeyedBatch], *, records: int, locks_max: int
) -> None:
    """Look at batches of the log, which follow each other from `known_to`, until there are records enough
    whose turn it is, or as many keys are known as may be."""
    room = window.room_for_keys(locks_max)
    wanted = min(room, records - sum(len(batch) for batch in window if batch.is_free))
    if wanted <= 0 or not order.has_room:
        return
    for batch in log_batches:
        wanted -= _learn(window, order, batch)
        if wanted <= 0 or not order.has_room:
            break
    window.join()
    window.advance()


def _learn(window: ShareWindow, order: KeyOrder, batch: KeyedBatch) -> int:
    """How many records there are now whose turn it is."""
    first, last, found = order.known_to, batch.last_offset, 0
    if last < first:
        return 0
    if last > window.end_offset:
        new = InFlightBatch(window.end_offset + 1, last, RecordState.AVAILABLE, 0)
        new.not_before_ms = UNTIL_ITS_TURN
        window.append(new)
    order.known_to = last + 1
    for held in window.overlapping(first, last):
        if held.state in TERMINAL:
            continue
        runs = _runs(order, batch, max(first, held.first), min(last, held.last))
        if held.waits_its_turn:  # else somebody has it, and it is known now who waits for that
            for run in runs:
                found += _apply(window, run)
    return found


def _apply(window: ShareWindow, run: _Run) -> int:
    first, last, verdict = run
    if verdict is not _Verdict.WAITS:
        for each in window.cut(first, last):
            each.not_before_ms = 0
            if verdict is _Verdict.IS_GONE:
                each.state = RecordState.ARCHIVED
    return last - first + 1 if verdict is _Verdict.MAY_GO else 0


def _runs(order: KeyOrder, batch: KeyedBatch, first: int, last: int) -> list[_Run]:
    """What becomes of the offsets from first to last."""
    runs: list[_Run] = []

    def put(begin: int, end: int, verdict: _Verdict) -> None:
        if runs and runs[-1][2] is verdict:
            runs[-1] = (runs[-1][0], end, verdict)
        else:
            runs.append((begin, end, verdict))

    begin, end = bisect_left(batch.offsets, first), bisect_right(batch.offsets, last)
    expected = first
    for offset, key in zip(batch.offsets[begin:end], batch.keys[begin:end], strict=True):
        if offset > expected:
            put(expected, offset - 1, _Verdict.IS_GONE)
        put(offset, offset, _Verdict.MAY_GO if order.add(offset, key) else _Verdict.WAITS)
        expected = offset + 1
    if expected <= last:
        put(expected, last, _Verdict.IS_GONE)
    return runs
