"""SharePartition: what the leader of a partition knows of its records in one share group (KIP-932).

    start offset                                      end offset
         │                                                │
    ─────┼──────────┬───────────┬──────────┬──────────────┼────────
    done │ acquired │ available │ archived │   acquired   │ never handed out
    ─────┴──────────┴───────────┴──────────┴──────────────┴────────

The window between the two offsets is covered by ranges without a hole. A range is Available, Acquired by a
member until its lock ends, Acknowledged, or Archived (given up); while its dead letter is written it is
Archiving. The start moves on as soon as what stands there is Acknowledged or Archived. Record batches are not
opened: whoever reads the log says where they begin and end, and a range is split where somebody answers for a
part of it.

An answer takes effect in two steps, since it must be written before it counts: `acknowledge` says what shall
become of the ranges, `commit` makes it so, `roll_back` leaves them as they were. In between nobody else can
have them.

A synchronous machine: the time is an argument, and what is to be written a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey, StateToWrite
from headrace.coordinators.share.state_batches import StateBatch
from headrace.server.share.acquiring import Acquiring, Limits, LogBatch
from headrace.server.share.in_flight_batch import TERMINAL, Acquired, InFlightBatch, RecordState
from headrace.server.share.key_order import KeyedBatch, learn_keys
from headrace.server.share.window import ShareWindow
from headrace.wire.schemas.share_fetch import AcknowledgeType

_NOT_ACQUIRED: Final = (
    "The batch cannot be acknowledged. The batch is not in the acquired state.",
    "The offset cannot be acknowledged. The offset is not acquired.",
)
"""Kafka's words for a range, and for a single record."""


class Acknowledgement(NamedTuple):
    """A member's answer for a range: one type for all of it, or one for each offset."""

    first_offset: int
    last_offset: int
    types: list[int]


Transition = list[InFlightBatch]
"""Ranges with a next state."""


class SharePartition(ShareWindow):
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
        delivery_count_limit: int = 0,
    ) -> None:
        super().__init__(start_offset)
        self.key = key
        self.leader_epoch = leader_epoch
        self.state_epoch = state_epoch
        for each in batches:
            self.cover_to(each.first_offset, RecordState.AVAILABLE)
            state = RecordState(each.delivery_state)
            batch = InFlightBatch(each.first_offset, each.last_offset, state, each.delivery_count)
            batch.together = range(batch.first, batch.last + 1)
            batch.was_rejected = (
                state is RecordState.ARCHIVING and batch.delivery_count < delivery_count_limit
            )
            self.append(batch)
        self.advance()

    def acquire(self, member_id: str, log_batches: Iterable[LogBatch], limits: Limits) -> list[Acquired]:
        """Hand out records of these batches, which follow each other in the log from `next_fetch_offset`."""
        return Acquiring(self, member_id, limits).take(log_batches)

    def learn_keys(self, log_batches: Iterable[KeyedBatch], *, records: int, locks_max: int) -> None:
        """In order by key: look at batches that follow each other in the log from `order.known_to`."""
        if self.order is not None:
            learn_keys(self, self.order, log_batches, records=records, locks_max=locks_max)

    # --- answers ---

    def acknowledge(
        self,
        member_id: str,
        answers: Iterable[Acknowledgement],
        *,
        delivery_count_limit: int,
        renew_until_ms: int | None,
        given_up: RecordState = RecordState.ARCHIVED,
    ) -> Transition:
        """What a member's answers make of its records; ApiError where one of them is not its to answer for,
        and then nothing changes. `renew_until_ms` is None where nobody may renew. `given_up` is Archiving
        where dead letters are written."""
        transition: Transition = []
        try:
            for answer in answers:
                self._check_found(answer)
                for first, last, kind in _runs(answer):
                    held = self._held(member_id, first, last, kind, renew_until_ms)
                    for batch in held:
                        batch.next_state = _state_after(kind, batch.delivery_count, delivery_count_limit)
                        if batch.next_state is RecordState.ARCHIVED and kind is not AcknowledgeType.GAP:
                            batch.next_state = given_up
                            batch.was_rejected = kind is AcknowledgeType.REJECT
                    transition += held
        except ApiError:
            self.roll_back(transition)
            raise
        return transition

    def _held(
        self, member_id: str, first: int, last: int, kind: AcknowledgeType, renew_until_ms: int | None
    ) -> list[InFlightBatch]:
        """The ranges that an answer is about; none where it only renews their locks."""
        if last < self.start_offset:
            return []  # the log's start has passed them
        first = max(first, self.start_offset)
        self._check_owned(member_id, first, last)
        if kind is not AcknowledgeType.RENEW:
            return self.cut(first, last)
        if renew_until_ms is None:
            raise ApiError(
                ErrorCode.INVALID_RECORD_STATE,
                "Renewing acquisition locks is not enabled for the group.",
            )
        for batch in self.cut(first, last):
            batch.deadline_ms = renew_until_ms
        return []

    def _check_found(self, answer: Acknowledgement) -> None:
        """That the window has all of it comes before whose it is."""
        if answer.last_offset < self.start_offset:
            return  # the log's start has passed them
        if self.last() is None:
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
        for batch in self.overlapping(first, last):
            if batch.state is RecordState.ACQUIRED and batch.member_id != member_id:
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")
            if batch.state is not RecordState.ACQUIRED or batch.next_state is not None:
                raise ApiError(ErrorCode.INVALID_RECORD_STATE, _NOT_ACQUIRED[len(batch) == 1])

    def commit(self, transition: Transition) -> None:
        """The ranges are what they were to become."""
        for batch in transition:
            if batch.next_state is not None:
                batch.end_lock(batch.next_state)
        if self.order is not None:
            self._follow_order([(batch.first, batch.last, batch.state) for batch in transition])
        self.join()
        self.advance()

    def _follow_order(self, became: list[tuple[int, int, RecordState]]) -> None:
        for first, last, state in became:
            if state in TERMINAL:
                self.let_next_go(range(first, last + 1))
        for first, last, state in became:
            if state is RecordState.AVAILABLE:
                self.keep_order(first, last)

    def roll_back(self, transition: Transition) -> None:
        """The ranges are held as before."""
        for batch in transition:
            batch.next_state = None

    # --- locks that end without an answer ---

    def release(
        self, member_id: str, delivery_count_limit: int, given_up: RecordState = RecordState.ARCHIVED
    ) -> Transition:
        """A member is gone: what it holds goes back."""
        held = (batch for batch in self if batch.member_id == member_id)
        return self._end_locks(held, delivery_count_limit, given_up)

    def expire(
        self, now_ms: int, delivery_count_limit: int, given_up: RecordState = RecordState.ARCHIVED
    ) -> Transition:
        """Locks that are over by now."""
        over = (batch for batch in self if batch.deadline_ms <= now_ms)
        return self._end_locks(over, delivery_count_limit, given_up)

    def next_deadline_ms(self) -> int | None:
        """When the next lock or rest ends."""
        held = [batch.deadline_ms for batch in self if batch.state is RecordState.ACQUIRED]
        rests = (batch for batch in self if batch.is_paused and not batch.waits_its_turn)
        return min(held + [batch.not_before_ms for batch in rests], default=None)

    def end_rests(self, now_ms: int) -> bool:
        """Whether records have rested long enough by now."""
        over = [batch for batch in self if batch.is_paused and batch.not_before_ms <= now_ms]
        for batch in over:
            batch.not_before_ms = 0
        if over:
            self.join()
        return bool(over)

    def _end_locks(
        self, batches: Iterable[InFlightBatch], delivery_count_limit: int, given_up: RecordState
    ) -> Transition:
        ended = []
        for batch in batches:
            if batch.state is RecordState.ACQUIRED and batch.next_state is None:
                batch.next_state = _state_after(
                    AcknowledgeType.RELEASE, batch.delivery_count, delivery_count_limit
                )
                if batch.next_state is RecordState.ARCHIVED:
                    batch.next_state = given_up
                ended.append(batch)
        return ended

    # --- dead letters ---

    def first_archiving(self) -> InFlightBatch | None:
        """The first records whose dead letter is not written yet."""
        waiting = (batch for batch in self if batch.state is RecordState.ARCHIVING)
        return next((batch for batch in waiting if batch.next_state is None), None)

    def archive(self, first: int, last: int) -> Transition:
        """The dead letters of a range are written."""
        transition = [batch for batch in self.cut(first, last) if batch.state is RecordState.ARCHIVING]
        for batch in transition:
            batch.next_state = RecordState.ARCHIVED
        return transition

    # --- the log and the state that is kept ---

    def follow_log_start(self, log_start_offset: int) -> bool:
        """The log begins later now: what lay before is gone. Whether that moved the window."""
        if log_start_offset <= self.start_offset:
            return False
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset - 1)
        self.forget_before(log_start_offset)
        self.advance()
        return True

    def to_write(self, changes: Iterable[StateBatch]) -> StateToWrite:
        """What is to be kept, once the ranges are what they are to become; see `changes_of`."""
        start = self._start_to_be()
        done = sum(
            batch.last - max(batch.first, start) + 1
            for batch in self
            if batch.last >= start and batch.state_to_be in TERMINAL
        )
        changed = [each for each in changes if each.last_offset >= start]
        return StateToWrite(self.state_epoch, self.leader_epoch, start, done, changed)

    def _start_to_be(self) -> int:
        for batch in self:
            if batch.state_to_be not in TERMINAL:
                return batch.first
        return self.end_offset + 1


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
