"""SharePartition: what the leader of a partition knows of its records in one share group (KIP-932).

    start offset                                      end offset
         │                                                │
    ─────┼──────────┬───────────┬──────────┬──────────────┼────────
    done │ acquired │ available │ archived │   acquired   │ never handed out
    ─────┴──────────┴───────────┴──────────┴──────────────┴────────

The window between the two offsets is covered by ranges without a hole. A range is Available, Acquired by a
member until its lock ends, Acknowledged, or Archived (given up). The start moves on as soon as what stands
there is one of the last two. Record batches are not opened: whoever reads the log says where they begin and
end, and a range is split where somebody answers for a part of it.

An answer takes effect in two steps, since it must be written before it counts: `acknowledge` says what shall
become of the ranges, `commit` makes it so, `roll_back` leaves them as they were. In between nobody else can
have them.

A synchronous machine: the time is an argument, and what is to be written a result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey, StateToWrite
from headrace.coordinators.share.state_batches import StateBatch
from headrace.server.share.delivery_throttle import DeliveryThrottle
from headrace.wire.schemas.share_fetch import AcknowledgeType


class RecordState(IntEnum):
    """The numbers are those of the state records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


TERMINAL: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
NOBODY: Final = ""

_NOT_ACQUIRED: Final = (
    "The batch cannot be acknowledged. The batch is not in the acquired state.",
    "The offset cannot be acknowledged. The offset is not acquired.",
)
"""Kafka's words for a range, and for a single record."""


class LogBatch(NamedTuple):
    """Where a record batch of the log lies. One that is not `wanted` holds nothing for the group: it is a
    transaction's marker, or was aborted."""

    base_offset: int
    last_offset: int
    wanted: bool = True


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A member's answer for a range: one type for all of it, or one for each offset."""

    first_offset: int
    last_offset: int
    types: list[int]


class Limits(NamedTuple):
    """What a fetch may acquire: the request's limits, and the group's."""

    records_max: int
    batch_size: int
    is_strict: bool  # not one record more than `records_max`; else whole batches
    lock_until_ms: int
    locks_max: int
    delivery_count_limit: int


class InFlightBatch:
    """A range of offsets in one state; `next_state` while that is being written. `together` is what it was a
    part of when it was first handed out."""

    __slots__ = (
        "deadline_ms",
        "delivery_count",
        "first",
        "last",
        "member_id",
        "next_state",
        "state",
        "together",
    )

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = NOBODY
        self.deadline_ms = 0
        self.next_state: RecordState | None = None
        self.together: range | None = None

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} x{self.delivery_count} {self.member_id}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.next_state is None

    @property
    def state_to_be(self) -> RecordState:
        return self.state if self.next_state is None else self.next_state

    def acquire(self, member_id: str, deadline_ms: int) -> Acquired:
        self.state, self.member_id, self.deadline_ms = RecordState.ACQUIRED, member_id, deadline_ms
        self.delivery_count += 1
        self.together = self.together or range(self.first, self.last + 1)
        return Acquired(self.first, self.last, self.delivery_count)

    def grow(self, last: int) -> None:
        """Hand out more with it."""
        assert self.together is not None
        self.last = last
        self.together = range(self.together.start, max(self.together.stop, last + 1))

    def end_lock(self, state: RecordState) -> None:
        self.state, self.next_state, self.member_id = state, None, NOBODY

    def says_same(self, other: InFlightBatch) -> bool:
        """Whether the two could be one: nobody holds them, and they are alike."""
        return (
            self.next_state is None
            and other.next_state is None
            and self.state is other.state is not RecordState.ACQUIRED
            and (self.state in TERMINAL or self._came_back_as(other))
        )

    def _came_back_as(self, other: InFlightBatch) -> bool:
        return (self.delivery_count, self.together) == (other.delivery_count, other.together)


Transition = list[InFlightBatch]
"""Ranges with a next state."""


class SharePartition:
    """The window of one share partition. `delivery_count_limit` is asked for where it matters, since a
    group's settings change."""

    def __init__(
        self,
        key: SharePartitionKey,
        *,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self._batches: list[InFlightBatch] = []
        for each in batches:
            self._cover_to(each.first_offset, RecordState.AVAILABLE)
            state = RecordState(each.delivery_state)
            batch = InFlightBatch(each.first_offset, each.last_offset, state, each.delivery_count)
            batch.together = range(batch.first, batch.last + 1)
            self._append(batch)
        self._advance()

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    # --- handing out ---

    def next_fetch_offset(self) -> int:
        """The first record that can be handed out, be it an old one or the next of the log."""
        for batch in self._batches:
            if batch.is_free:
                return batch.first
        return self.end_offset + 1

    def may_acquire(self, locks_max: int) -> bool:
        return self.next_fetch_offset() <= self.end_offset or self.in_flight() < locks_max

    def in_flight(self) -> int:
        """How many records are handed out or wait to be handed out again."""
        return sum(len(batch) for batch in self._batches if batch.state not in TERMINAL)

    def acquire(self, member_id: str, log_batches: Iterable[LogBatch], limits: Limits) -> list[Acquired]:
        """Hand out records of these batches, which follow each other in the log from `next_fetch_offset`."""
        acquired: list[Acquired] = []
        expected, left, room = self.next_fetch_offset(), limits.records_max, None
        throttle = DeliveryThrottle(limits.delivery_count_limit)
        for batch in log_batches:
            if batch.base_offset > expected:
                self._archive_free(expected, batch.base_offset - 1)  # the log has nothing there
            expected = max(expected, batch.last_offset + 1)
            for known in self._free_in(batch.base_offset, min(batch.last_offset, self.end_offset)):
                if not batch.wanted:
                    known.state = RecordState.ARCHIVED
                elif not throttle.is_full and (left > 0 or not limits.is_strict):
                    left -= self._take_known(member_id, known, left, throttle, limits, acquired)
            if throttle.is_full or (throttle.slows and batch.last_offset > self.end_offset):
                break
            if batch.last_offset > self.end_offset and left > 0:
                room = limits.locks_max - self.in_flight() if room is None else room
                if room <= 0 and batch.wanted:
                    break
                taken = self._take_new(member_id, batch, left, limits, acquired)
                left -= taken
                room -= taken
            if left <= 0:
                break
        self._advance()
        return acquired

    def _take_known(
        self,
        member_id: str,
        known: InFlightBatch,
        left: int,
        throttle: DeliveryThrottle,
        limits: Limits,
        acquired: list[Acquired],
    ) -> int:
        most = self._may_take(known, throttle, bool(acquired))
        if limits.is_strict:
            most = min(most, left)
        if not most:
            return 0
        if len(known) > most:
            self._split(known, known.first + most)
        before = self._before(known)
        if before is not None and _continues(
            before, known.together, acquired, known.delivery_count + 1, limits
        ):
            self._batches.remove(known)
            before.grow(known.last)
            acquired[-1] = Acquired(before.first, before.last, before.delivery_count)
        else:
            acquired.append(known.acquire(member_id, limits.lock_until_ms))
        return len(known)

    def _may_take(self, known: InFlightBatch, throttle: DeliveryThrottle, has_some: bool) -> int:
        together = known.together

        def counts() -> Iterator[int]:
            siblings = self._overlapping(together.start, together.stop - 1) if together is not None else []
            return (each.delivery_count for each in siblings if each.is_free and each.together == together)

        return throttle.take(together, known.delivery_count, len(known), counts=counts, has_some=has_some)

    def _before(self, batch: InFlightBatch) -> InFlightBatch | None:
        at = bisect_left(self._batches, batch.first, key=_first)
        return self._batches[at - 1] if at else None

    def _take_new(
        self, member_id: str, batch: LogBatch, left: int, limits: Limits, acquired: list[Acquired]
    ) -> int:
        """Let the window grow over a batch, or over the part of it that is asked for."""
        first, last = max(batch.base_offset, self.end_offset + 1), batch.last_offset
        if not batch.wanted:
            self._append(InFlightBatch(first, last, RecordState.ARCHIVED, 0))
            return 0
        if limits.is_strict:
            last = min(last, first + left - 1)
        new = self._batches[-1] if self._batches else None
        if new is not None and _continues(new, None, acquired, 1, limits):
            new.grow(last)
            self.end_offset = last
            acquired[-1] = Acquired(new.first, last, 1)
        else:
            new = InFlightBatch(first, last, RecordState.AVAILABLE, 0)
            self._append(new)
            acquired.append(new.acquire(member_id, limits.lock_until_ms))
        if last < batch.last_offset:  # the window grows by whole batches
            self._append_rest(new, batch.last_offset)
        return last - first + 1

    def _append_rest(self, taken: InFlightBatch, last: int) -> None:
        assert taken.together is not None
        taken.together = range(taken.together.start, last + 1)
        rest = InFlightBatch(taken.last + 1, last, RecordState.AVAILABLE, 0)
        rest.together = taken.together
        self._append(rest)

    def _archive_free(self, first: int, last: int) -> None:
        for batch in self._free_in(first, min(last, self.end_offset)):
            batch.state = RecordState.ARCHIVED
        self._cover_to(last + 1, RecordState.ARCHIVED)

    # --- answers ---

    def acknowledge(
        self,
        member_id: str,
        answers: Iterable[Acknowledgement],
        *,
        delivery_count_limit: int,
        renew_until_ms: int | None,
    ) -> Transition:
        """What a member's answers make of its records; ApiError where one of them is not its to answer for,
        and then nothing changes. `renew_until_ms` is None where nobody may renew."""
        transition: Transition = []
        try:
            for answer in answers:
                self._check_found(answer)
                for first, last, kind in _runs(answer):
                    self._answer(
                        member_id, first, last, kind, delivery_count_limit, renew_until_ms, transition
                    )
        except ApiError:
            self.roll_back(transition)
            raise
        return transition

    def _answer(
        self,
        member_id: str,
        first: int,
        last: int,
        kind: AcknowledgeType,
        delivery_count_limit: int,
        renew_until_ms: int | None,
        transition: Transition,
    ) -> None:
        if last < self.start_offset:
            return  # the log's start has passed them
        first = max(first, self.start_offset)
        self._check_owned(member_id, first, last)
        if kind is AcknowledgeType.RENEW:
            if renew_until_ms is None:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "Renewing acquisition locks is not enabled for the group.",
                )
            for batch in self._cut(first, last):
                batch.deadline_ms = renew_until_ms
            return
        for batch in self._cut(first, last):
            batch.next_state = _state_after(kind, batch.delivery_count, delivery_count_limit)
            transition.append(batch)

    def _check_found(self, answer: Acknowledgement) -> None:
        """That the window has all of it comes before whose it is."""
        if answer.last_offset < self.start_offset:
            return  # the log's start has passed them
        if not self._batches:
            raise ApiError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if answer.last_offset > self.end_offset:
            which = "first" if answer.first_offset > self.end_offset else "last"
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Batch record not found. The {which} offset in request is past acquired records.",
            )

    def _check_owned(self, member_id: str, first: int, last: int) -> None:
        for batch in self._overlapping(first, last):
            if batch.state is RecordState.ACQUIRED and batch.member_id != member_id:
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")
            if batch.state is not RecordState.ACQUIRED or batch.next_state is not None:
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED[len(batch) == 1])

    def commit(self, transition: Transition) -> None:
        """The ranges are what they were to become."""
        for batch in transition:
            if batch.next_state is not None:
                batch.end_lock(batch.next_state)
        self._join()
        self._advance()

    def roll_back(self, transition: Transition) -> None:
        """The ranges are held as before."""
        for batch in transition:
            batch.next_state = None

    # --- locks that end without an answer ---

    def release(self, member_id: str, delivery_count_limit: int) -> Transition:
        """A member is gone: what it holds goes back."""
        return self._end_locks(
            (batch for batch in self._batches if batch.member_id == member_id), delivery_count_limit
        )

    def expire(self, now_ms: int, delivery_count_limit: int) -> Transition:
        """Locks that are over by now."""
        return self._end_locks(
            (batch for batch in self._batches if batch.deadline_ms <= now_ms), delivery_count_limit
        )

    def next_deadline_ms(self) -> int | None:
        """When the next lock ends."""
        held = (batch.deadline_ms for batch in self._batches if batch.state is RecordState.ACQUIRED)
        return min(held, default=None)

    def _end_locks(self, batches: Iterable[InFlightBatch], delivery_count_limit: int) -> Transition:
        ended = []
        for batch in batches:
            if batch.state is RecordState.ACQUIRED and batch.next_state is None:
                batch.next_state = _state_after(
                    AcknowledgeType.RELEASE, batch.delivery_count, delivery_count_limit
                )
                ended.append(batch)
        return ended

    # --- the log and the state that is kept ---

    def follow_log_start(self, log_start_offset: int) -> bool:
        """The log begins later now: what lay before is gone. Whether that moved the window."""
        if log_start_offset <= self.start_offset:
            return False
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset - 1)
        del self._batches[: bisect_left(self._batches, log_start_offset, key=_last)]
        if self._batches and self._batches[0].first < log_start_offset:
            self._batches[0].first = log_start_offset
        self._advance()
        return True

    def to_write(self, changes: Iterable[StateBatch]) -> StateToWrite:
        """What is to be kept, once the ranges are what they are to become; see `changes_of`."""
        start = self._start_to_be()
        done = sum(
            batch.last - max(batch.first, start) + 1
            for batch in self._batches
            if batch.last >= start and batch.state_to_be in TERMINAL
        )
        changed = [each for each in changes if each.last_offset >= start]
        return StateToWrite(self.state_epoch, self.leader_epoch, start, done, changed)

    def _start_to_be(self) -> int:
        for batch in self._batches:
            if batch.state_to_be not in TERMINAL:
                return batch.first
        return self.end_offset + 1

    # --- the list of ranges ---

    def _append(self, batch: InFlightBatch) -> None:
        assert batch.first == self.end_offset + 1, f"{batch} leaves a hole behind {self.end_offset}"
        self._batches.append(batch)
        self.end_offset = batch.last

    def _cover_to(self, offset: int, state: RecordState) -> None:
        """Let the window reach up to this offset."""
        if self.end_offset + 1 < offset:
            self._append(InFlightBatch(self.end_offset + 1, offset - 1, state, 0))

    def _overlapping(self, first: int, last: int) -> list[InFlightBatch]:
        begin = bisect_left(self._batches, first, key=_last)
        end = bisect_right(self._batches, last, key=_first)
        return self._batches[begin:end]

    def _free_in(self, first: int, last: int) -> list[InFlightBatch]:
        """The free ranges from first to last, cut at these."""
        if first > last:
            return []
        free = [batch for batch in self._overlapping(first, last) if batch.is_free]
        return [self._cut_one(batch, first, last) for batch in free]

    def _cut(self, first: int, last: int) -> list[InFlightBatch]:
        """The ranges from first to last, cut at these."""
        return [self._cut_one(batch, first, last) for batch in self._overlapping(first, last)]

    def _cut_one(self, batch: InFlightBatch, first: int, last: int) -> InFlightBatch:
        if batch.first < first:
            batch = self._split(batch, first)
        if batch.last > last:
            self._split(batch, last + 1)
        return batch

    def _split(self, batch: InFlightBatch, at: int) -> InFlightBatch:
        """Cut a range in two; the second one is returned."""
        rest = InFlightBatch(at, batch.last, batch.state, batch.delivery_count)
        rest.member_id, rest.deadline_ms = batch.member_id, batch.deadline_ms
        rest.together = batch.together
        batch.last = at - 1
        self._batches.insert(bisect_right(self._batches, batch.first, key=_first), rest)
        return rest

    def _join(self) -> None:
        """Neighbours that say the same become one."""
        joined: list[InFlightBatch] = []
        for batch in self._batches:
            if joined and joined[-1].says_same(batch):
                joined[-1].last = batch.last
            else:
                joined.append(batch)
        self._batches = joined

    def _advance(self) -> None:
        """Leave behind what is done at the window's start."""
        done = 0
        for batch in self._batches:
            if batch.state not in TERMINAL or batch.next_state is not None:
                break
            done += 1
        del self._batches[:done]
        self.start_offset = self._batches[0].first if self._batches else self.end_offset + 1


def _continues(
    before: InFlightBatch,
    together: range | None,
    acquired: list[Acquired],
    delivery_count: int,
    limits: Limits,
) -> bool:
    """Whether what comes behind a range that was just acquired can become a part of it."""
    is_new = bool(acquired) and acquired[-1] == (before.first, before.last, delivery_count)
    is_small = len(before) < limits.batch_size
    return is_new and is_small and together in (None, before.together)


def _state_after(kind: AcknowledgeType, delivery_count: int, delivery_count_limit: int) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.RELEASE and delivery_count < delivery_count_limit:
        return RecordState.AVAILABLE
    return RecordState.ARCHIVED


def _runs(answer: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """The answer as ranges of one type each; ApiError where it makes no sense."""
    first, last, types = answer
    if len(types) == 1:
        yield first, last, type_of(types[0])
        return
    for number, run in groupby(types):
        size = sum(1 for _ in run)
        yield first, first + size - 1, type_of(number)
        first += size


def type_of(number: int) -> AcknowledgeType:
    """ApiError where there is no such type."""
    try:
        return AcknowledgeType(number)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {number}") from None


def changes_of(transition: Transition) -> list[StateBatch]:
    """What a transition changes in the state that is kept. Nothing is kept of locks: for whoever takes over
    they are over."""
    return [
        StateBatch(batch.first, batch.last, int(batch.state_to_be), batch.delivery_count)
        for batch in transition
    ]


def _first(batch: InFlightBatch) -> int:
    return batch.first


def _last(batch: InFlightBatch) -> int:
    return batch.last
