"""Finds positions: from the reset policy, and by proving that a position still is what it was.

After a new leader epoch the log may have been cut below a position that was read before: the leader is asked
where the epoch of the last record ended (KIP-320). If that is before the position, records were lost: the
position goes back to there by the reset policy, or a LogTruncatedError is raised where there is none.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.base.error_codes import RETRIABLE
from headrace.base.ids import NO_EPOCH, NO_LEADER, TopicPartition
from headrace.clients.errors import (
    ClientError,
    LogTruncatedError,
    NoOffsetError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from headrace.clients.internals.consumer.subscription_state import (
    EARLIEST,
    LATEST,
    PartitionStates,
    TopicPartitionState,
)
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.offset_lookup import find_epoch_ends, find_offsets
from headrace.clients.offsets import OffsetAndMetadata

_POLICIES = {"earliest": EARLIEST, "latest": LATEST, "none": None}


class _Place(NamedTuple):
    """Where a partition was when something was asked about it."""

    era: int
    position: int
    epoch: int


def _place_of(state: TopicPartitionState) -> _Place:
    with state.lock:
        return _Place(state.era, state.position, state.position_epoch)


class OffsetFetcher:
    """Gives positions to partitions that have none, one round at a time."""

    def __init__(
        self,
        client: NetworkClient,
        positions: PartitionStates,
        *,
        is_committed: bool,
        on_failure: Callable[[ClientError], None],
        on_stale: Callable[[], None],
    ) -> None:
        self._client = client
        self._positions = positions
        self._is_committed = is_committed
        self._on_failure = on_failure
        self._on_stale = on_stale
        self.policy = _POLICIES[client.config.str("auto.offset.reset").lower()]

    def apply_policy(self, state: TopicPartitionState, why: str) -> None:
        """Reset a partition by the policy; without one, that is an error for the next poll."""
        if self.policy is None:
            state.is_paused = True
            what = f"{state.partition} {why}, and auto.offset.reset is none"
            self._on_failure(NoOffsetError(what, state.partition))
        else:
            state.reset(self.policy)

    def mark_stale_epochs(self) -> None:
        """A partition with a new leader is validated before it is read on."""
        for state in self._positions:
            epoch = self._client.metadata.leader(state.partition).epoch
            if state.has_position and epoch != NO_EPOCH and epoch > state.leader_epoch:
                if state.position_epoch != NO_EPOCH and state.leader_epoch != NO_EPOCH:
                    state.must_validate = True
                state.leader_epoch = epoch

    @property
    def has_work(self) -> bool:
        now_ms = self._client.environment.now_ms()
        return any(
            (state.reset_to is not None or state.must_validate) and state.retry_at_ms <= now_ms
            for state in self._positions
        )

    async def work(self) -> None:
        """One round: resets, then validations."""
        now_ms = self._client.environment.now_ms()
        due = [state for state in self._positions if state.retry_at_ms <= now_ms]
        await self._reset([state for state in due if state.reset_to is not None])
        await self._validate([state for state in due if state.must_validate and state.has_position])

    def place(
        self,
        states: list[TopicPartitionState],
        eras: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Begin where the group has committed, or by the policy."""
        for state in states:
            if state.era != eras[state.partition] or state.position >= 0 or state.reset_to is not None:
                continue  # a seek was quicker
            place = committed.get(state.partition)
            if place is None:
                self.apply_policy(state, "has no committed offset")
            else:
                state.seek(place.offset, place.leader_epoch)

    async def _reset(self, states: list[TopicPartitionState]) -> None:
        """Each leader is asked for its own: a partition that has none, or one that does not answer, does not
        keep the others waiting.
        """
        led: dict[int, list[TopicPartitionState]] = {}
        for state in states:
            led.setdefault(self._client.metadata.leader(state.partition).node, []).append(state)
        self.pause(led.pop(NO_LEADER, []))
        await asyncio.gather(*(self._reset_led(group) for group in led.values()))

    async def _reset_led(self, states: list[TopicPartitionState]) -> None:
        times = {state.partition: state.reset_to for state in states if state.reset_to is not None}
        eras = {state.partition: state.era for state in states}
        try:
            found = await find_offsets(
                self._client, times, is_committed=self._is_committed, timeout_ms=self._client.timeout_ms
            )
            missing = [each for each, place in found.items() if place.offset < 0]
            if missing:  # nothing is as late as the time that was asked for: the end
                ends = dict.fromkeys(missing, LATEST)
                found |= await find_offsets(self._client, ends, is_committed=self._is_committed)
        except (UnreachableError, TimedOutError):
            self.pause(states)
        except RefusedError as error:
            self.pause(states)
            if not error.retriable:
                self._on_failure(error)
        else:
            for state in states:
                if state.era == eras[state.partition] and state.partition in found:
                    place = found[state.partition]
                    state.seek(place.offset, place.epoch)
                    state.must_validate = False

    async def _validate(self, states: list[TopicPartitionState]) -> None:
        for state in states:
            if state.position_epoch == NO_EPOCH:
                state.must_validate = False
        asked = {
            state.partition: state
            for state in states
            if state.must_validate and self._client.metadata.leader(state.partition).node != NO_LEADER
        }
        if not asked:
            self.pause([state for state in states if state.must_validate])
            return
        # What is buffered is read on meanwhile, and may be of a later epoch: an answer is about the position
        # that it was asked for, not about the one that there is when it comes.
        places = {partition: _place_of(state) for partition, state in asked.items()}
        try:
            ends = await find_epoch_ends(
                self._client, {partition: place.epoch for partition, place in places.items()}
            )
        except ClientError:
            self.pause(list(asked.values()))
            return
        for partition, state in asked.items():
            if state.era == places[partition].era:
                self._judge(partition, state, places[partition], ends.get(partition))

    def _judge(
        self, partition: TopicPartition, state: TopicPartitionState, asked: "_Place", end: object
    ) -> None:
        code, epoch, offset = (
            getattr(end, name, -1) for name in ("error_code", "leader_epoch", "end_offset")
        )
        if code:
            self.pause([state])
            if code not in RETRIABLE:
                self._on_failure(RefusedError(code, f"cannot validate the position in {partition}"))
            return
        state.must_validate = False
        if offset < 0 or (epoch >= 0 and offset >= asked.position):
            state.must_validate = state.position_epoch != asked.epoch
            return
        error = LogTruncatedError(partition, state.position, offset)
        if self.policy is None:
            self._on_failure(error)
            state.is_paused = True
        else:
            state.seek(offset, epoch)
            state.must_validate = False

    def pause(self, states: list[TopicPartitionState]) -> None:
        """Try these again later."""
        for state in states:
            state.failures += 1
            state.retry_at_ms = self._client.environment.now_ms() + self._client.retry.wait_ms(state.failures)
        if states:
            self._on_stale()
