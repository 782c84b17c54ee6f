"""KeyOrder: whose turn it is among records of one key, where a share group wants their order kept.

A record is handed out once all before it with the same key are done with, and that is written; until then it
waits its turn in the window, like one that rests, and keeps nobody waiting but its key. A record without a
key never waits. So the keys of all that is not done with must be known before anything behind it is handed
out: the log is read from the window's start on, and what is beyond `known_to` waits. That is also how a new
leader knows what the last one knew. Records with a delivery time are found in the same way, and rest until
then.

Kept of each record with a key are its offset and the hash of its key. Two keys with the same hash wait for
each other, which is no harm. Only so many are kept; then nothing new is looked at until some are done with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.server.share.in_flight_batch import TERMINAL, UNTIL_ITS_TURN, InFlightBatch, RecordState

if TYPE_CHECKING:
    from headrace.server.share.window import ShareWindow

NO_TIMES: Final[Mapping[int, int]] = {}
IS_GONE: Final = -1


class KeyedBatch(NamedTuple):
    """The records of a record batch that are there for the group: their offsets, the hashes of their keys,
    None where there is no key, and before when those that have a delivery time must not be handed out."""

    base_offset: int
    last_offset: int
    offsets: list[int]
    keys: list[int | None]
    times_ms: Mapping[int, int] = NO_TIMES


class LooksFor(NamedTuple):
    """What is looked for in a group's records before they are handed out."""

    keys: bool = True
    times: bool = False


IN_ORDER: Final = LooksFor()


class KeyOrder:
    """The records of each key that are not done with, in order: the first one's turn it is."""

    __slots__ = ("_keys", "_queues", "_times_ms", "known_to", "looks", "records_max")

    def __init__(self, start_offset: int, records_max: int, looks: LooksFor = IN_ORDER) -> None:
        self.looks = looks
        self._times_ms: dict[int, int] = {}
        self.known_to = start_offset
        self.records_max = records_max
        self._keys: dict[int, int] = {}
        self._queues: dict[int, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def has_room(self) -> bool:
        return len(self._keys) < self.records_max

    def add(self, offset: int, key: int | None, not_before_ms: int = 0) -> int:
        """Before when the record must not be handed out. They are added in the log's order."""
        if key is None:
            return not_before_ms
        self._keys[offset] = key
        queue = self._queues.setdefault(key, deque())
        queue.append(offset)
        if len(queue) == 1:
            return not_before_ms
        if not_before_ms:
            self._times_ms[offset] = not_before_ms
        return UNTIL_ITS_TURN

    def time_of(self, offset: int) -> int:
        """The same of one whose turn it is now."""
        return self._times_ms.pop(offset, 0)

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
        self._times_ms.pop(offset, None)
        queue.remove(offset)  # which begins with the first, and that is the one as a rule
        if not queue:
            del self._queues[key]
            return None
        return queue[0] if was_first else None

    def before(self, offset: int) -> list[int]:
        """What is known before this offset."""
        return list(takewhile(lambda each: each < offset, self._keys))


_Run = tuple[int, int, int]
"""Offsets, and before when they must not be handed out."""


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
    first, last, not_before_ms = run
    if not_before_ms != UNTIL_ITS_TURN:
        for each in window.cut(first, last):
            each.not_before_ms = max(not_before_ms, 0)
            if not_before_ms == IS_GONE:
                each.state = RecordState.ARCHIVED
    return last - first + 1 if not_before_ms == 0 else 0


def _runs(order: KeyOrder, batch: KeyedBatch, first: int, last: int) -> list[_Run]:
    """What becomes of the offsets from first to last."""
    runs: list[_Run] = []

    def put(begin: int, end: int, not_before_ms: int) -> None:
        if runs and runs[-1][2] == not_before_ms:
            runs[-1] = (runs[-1][0], end, not_before_ms)
        else:
            runs.append((begin, end, not_before_ms))

    begin, end = bisect_left(batch.offsets, first), bisect_right(batch.offsets, last)
    expected = first
    for offset, key in zip(batch.offsets[begin:end], batch.keys[begin:end], strict=True):
        if offset > expected:
            put(expected, offset - 1, IS_GONE)
        put(offset, offset, order.add(offset, key, batch.times_ms.get(offset, 0)))
        expected = offset + 1
    if expected <= last:
        put(expected, last, IS_GONE)
    return runs
