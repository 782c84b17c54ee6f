"""What a consumer commits, and in which order.

Commits are made one after the other: one that has to be tried again must not overwrite a later one. Before
partitions change hands, and before the consumer ends, those that are under way come to their end: later they
would be made with a membership under which the partitions may be somebody else's.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from headrace.base.ids import NO_EPOCH, TopicPartition
from headrace.clients.errors import ClientError, CommitFailedError
from headrace.clients.internals.consumer.group_coordinator_client import GroupCoordinatorClient, Membership
from headrace.clients.internals.consumer.subscription_state import PartitionStates
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.offsets import OffsetAndMetadata

log = logging.getLogger(__name__)

Places = Mapping[TopicPartition, OffsetAndMetadata]
Committed = Callable[[Places, ClientError | None], None]


class CommitRequestManager:
    """The commits of one consumer. `identity_for` says as whom to make one that was begun with an earlier
    identity, and raises CommitFailedError where it comes too late.
    """

    def __init__(
        self,
        client: NetworkClient,
        positions: PartitionStates,
        *,
        group: Callable[[], GroupCoordinatorClient],
        identity: Callable[[], Membership],
        identity_for: Callable[[Membership], Membership],
        on_refusal: Callable[[], None],
        begin: Callable[[Coroutine[Any, Any, None]], object],
        is_automatic: bool,
    ) -> None:
        self._environment = client.environment
        self._positions = positions
        self._group = group
        self._identity = identity
        self._identity_for = identity_for
        self._on_refusal = on_refusal
        self._begin = begin
        self._is_automatic = is_automatic
        self._interval_ms = client.config.int("auto.commit.interval.ms")
        self._timeout_ms = client.config.int("default.api.timeout.ms")
        self._next_ms = float("inf")
        self._turn = asyncio.Lock()
        self._losses = 0  # how often the consumer was put out of its group

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions, as offsets to commit."""
        return {
            state.partition: OffsetAndMetadata(state.position, state.position_epoch)
            for state in self._positions
            if state.has_position
        }

    async def commit(self, offsets: Places | None = None) -> None:
        """Commit these offsets, or the positions; returns when the coordinator has them."""
        await self._commit(self.consumed() if offsets is None else offsets, self._identity(), self._losses)

    async def _commit(self, places: Places, begun: Membership, losses: int) -> None:
        """`begun` and `losses`: as they were when the caller decided to commit this."""
        group = self._group()
        places = {partition: self._with_epoch(partition, place) for partition, place in places.items()}

        def identity() -> Membership:
            if losses != self._losses:
                raise group.not_a_member()
            return self._identity_for(begun)

        async with self._turn:
            try:
                await group.commit(places, identity, timeout_ms=self._timeout_ms)
            except CommitFailedError:
                self._on_refusal()
                raise

    def _with_epoch(self, partition: TopicPartition, place: OffsetAndMetadata) -> OffsetAndMetadata:
        """A user's offset that is the position has the position's epoch: whoever begins there next can tell a
        leader of before it from one that has it all.
        """
        state = self._positions.get(partition)
        if place.leader_epoch != NO_EPOCH or state is None or state.position != place.offset:
            return place
        return place._replace(leader_epoch=state.position_epoch)

    def give_up(self) -> None:
        """The consumer was put out of its group: what is under way or waits for its turn comes too late, also
        when the consumer is in the group again by then.
        """
        self._losses += 1

    def commit_soon(self, offsets: Places, callback: Committed | None) -> None:
        """Commit beside the polls; the callback hears of the outcome."""
        begun, losses = self._identity(), self._losses

        async def commit() -> None:
            error: ClientError | None = None
            try:
                await self._commit(offsets, begun, losses)
            except ClientError as failure:
                error = failure
                if callback is None:
                    log.warning("a commit failed: %s", failure)
            if callback is not None:
                callback(offsets, error)

        self._begin(commit())

    def restart_clock(self) -> None:
        """Partitions came: the next automatic commit is a whole interval away."""
        self._next_ms = self._environment.now_ms() + self._interval_ms

    def commit_by_the_clock(self) -> None:
        """Where commits are automatic and one is due."""
        if self._is_automatic and self._environment.now_ms() >= self._next_ms:
            self.restart_clock()
            self.commit_soon(self.consumed(), None)

    async def end(self) -> None:
        """Let what is under way come to its end, and make the last automatic commit."""
        async with self._turn:
            pass
        if self._is_automatic and self._positions.states:
            try:
                await self.commit()
            except ClientError as error:
                log.warning("a commit before a rebalance failed: %s", error)
