"""A member of a group whose coordinator assigns (KIP-848): one request, ConsumerGroupHeartbeat.

The member says what it subscribes to and what it owns; the answer has its epoch and, when it changed, what it
should own. `advance`, inside a poll, moves towards that target: first it gives up what is not in it, then it
takes up what is new, and the next heartbeat says so. The coordinator gives a partition to another member only
after that, so nobody else has to stop. Fields that have not changed since the last answer are left out.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition, new_uuid, uuid_text
from headrace.clients.errors import ClientError, RefusedError, UnsupportedError
from headrace.clients.internals.consumer.group_coordinator_client import GroupCoordinatorClient, Membership
from headrace.clients.internals.consumer.membership_manager import RebalanceHandler
from headrace.clients.internals.network_client import NetworkClient
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.consumer_group_heartbeat import (
    REGEX_SINCE,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

_JOIN: Final = 0
_LEAVE: Final = -1
_LEAVE_STATIC: Final = -2
# The last: the group is gone, or has become a classic one since all members of this protocol had left it.
_FENCED: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class _Subscription(NamedTuple):
    """What a heartbeat says of the topics: names, or a pattern for the coordinator to match (RE2)."""

    topics: frozenset[str]
    pattern: str | None


class ConsumerMembershipManager:
    """Implements `MembershipManager` with group.protocol=consumer."""

    def __init__(
        self,
        client: NetworkClient,
        coordinator: GroupCoordinatorClient,
        holder: RebalanceHandler,
        *,
        on_failure: Callable[[ClientError], None],
    ) -> None:
        config = client.config
        self._client = client
        self._environment = client.environment
        self._coordinator = coordinator
        self._holder = holder
        self._on_failure = on_failure
        self._instance_id = config.str("group.instance.id") or None
        # From v1 on members make their own id (KIP-1082): 16 bytes of chance.
        self._member_id = uuid_text(new_uuid(self._environment.rng))
        self._epoch = _JOIN
        self._interval_ms = config.int("heartbeat.interval.ms")
        self._target: set[TopicPartition] | None = None
        self._target_ids: list[TopicPartitions] | None = None  # a target with topics of unknown names
        self._told: _Subscription | None = None
        self._told_owned: set[TopicPartition] | None = None
        self._had_pattern = False  # the coordinator may know one
        self._is_lost = False
        self._beating: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._is_left = False

    @property
    def identity(self) -> Membership:
        return Membership(self._epoch, self._member_id, self._instance_id)

    @property
    def is_out(self) -> bool:
        return self._is_lost or self._epoch <= _JOIN

    def is_still(self, begun: Membership) -> bool:
        return True  # epochs rise while partitions stay where they are; who was put out is told of it

    def doubt(self) -> None:
        self._soon.set()

    def subscription_changed(self) -> None:
        self._soon.set()

    @property
    def has_work(self) -> bool:
        return self._beating is None or self._is_lost or (self._target not in (None, self._holder.owned))

    async def advance(self) -> None:
        if self._beating is None and not self._is_left:
            self._beating = self._environment.loop.create_task(self._beat())
        if self._is_lost:
            self._is_lost = False
            await self._holder.lose(self._holder.owned)
            self._soon.set()
        target = self._target
        if target is None or target == self._holder.owned:
            return
        taken = self._holder.owned - target
        if taken:
            await self._holder.before_rebalance()
            if self._is_lost:
                return  # while that was committed: the next advance says so
            await self._holder.revoke(taken)
        if not self._is_lost:
            await self._holder.grant(target - self._holder.owned)
        self._soon.set()

    # Heartbeats, beside the polls

    async def _beat(self) -> None:
        config = self._client.config
        failures = 0
        try:
            while True:
                self._soon.clear()
                if self._is_lost:
                    # First a poll loses what was owned: with a new membership it could be committed to.
                    await self._soon.wait()
                    continue
                if self._environment.now_ms() - self._holder.last_poll_ms > config.int(
                    "max.poll.interval.ms"
                ):
                    await self._leave_for_silence()
                    return
                began_ms = self._environment.now_ms()
                try:
                    failures = 0 if await self._beat_once() else failures + 1
                except UnsupportedError:
                    raise
                except ClientError as error:
                    if isinstance(error, RefusedError) and not error.retriable:
                        raise
                    self._forget_told()
                    failures += 1
                if failures:
                    await self._pause(self._client.retry.wait_ms(failures))
                else:  # from the last one: a coordinator may keep its answer until there is news
                    await self._pause(max(0, began_ms + self._interval_ms - self._environment.now_ms()))
        except ClientError as error:
            self._on_failure(error)

    async def _pause(self, milliseconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._soon.wait(), milliseconds / 1000)

    async def _beat_once(self) -> bool:
        """One heartbeat; False where it should be tried again soon."""
        if self._holder.pattern is not None and not await self._coordinator_matches():
            self._holder.match_here()
        subscription = _Subscription(frozenset(self._holder.topics), self._holder.pattern)
        owned = set(self._holder.owned)
        is_first = self._epoch == _JOIN
        response = await self._coordinator.ask(self._request(subscription, owned))
        code = response.error_code
        if code in _FENCED and not is_first:
            self._epoch, self._target, self._target_ids = _JOIN, None, None
            self._forget_told()
            self._is_lost = True
            self._holder.news()
            return False
        if code in _TRY_AGAIN:
            self._coordinator.forget()
            self._forget_told()
            return False
        self._coordinator.check(
            code, f"out of the group {self._coordinator.group_id!r}", response.error_message
        )
        self._told, self._told_owned = subscription, set() if is_first else owned
        await self._take_in(response)
        return True

    async def _coordinator_matches(self) -> bool:
        return await self._coordinator.version_of(ApiKey.CONSUMER_GROUP_HEARTBEAT) >= REGEX_SINCE

    def _request(
        self, subscription: _Subscription, owned: set[TopicPartition]
    ) -> ConsumerGroupHeartbeatRequest:
        config = self._client.config
        is_first = self._epoch == _JOIN
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._coordinator.group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        if is_first or self._told is None:
            request.instance_id = self._instance_id
            request.rack_id = config.str("client.rack") or None
            request.rebalance_timeout_ms = config.int("max.poll.interval.ms")
            request.server_assignor = config.str("group.remote.assignor") or None
        if subscription != self._told or is_first:
            request.subscribed_topic_names = sorted(subscription.topics)
            request.subscribed_topic_regex = subscription.pattern
            self._had_pattern |= subscription.pattern is not None
            if subscription.pattern is None and self._had_pattern:
                request.subscribed_topic_regex = ""  # null would leave it as it was
        if owned != self._told_owned or is_first:
            request.topic_partitions = [] if is_first else self._owned_ids(owned)
        return request

    def _owned_ids(self, owned: set[TopicPartition]) -> list[TopicPartitions]:
        numbers: dict[str, list[int]] = {}
        for each in sorted(owned):
            numbers.setdefault(each.topic, []).append(each.partition)
        metadata = self._client.metadata
        return [
            TopicPartitions(topic_id=metadata.topic_id(name), partitions=own) for name, own in numbers.items()
        ]

    async def _take_in(self, response: Any) -> None:
        self._member_id = response.member_id or self._member_id
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        if response.assignment is not None:
            self._target_ids = response.assignment.topic_partitions
        if self._target_ids is None:
            return
        names = self._client.metadata.names
        unknown = [each.topic_id for each in self._target_ids if each.topic_id not in names]
        if unknown:
            await self._client.refresh_ids(unknown)
        target = {
            TopicPartition(names[each.topic_id], number)
            for each in self._target_ids
            if each.topic_id in names
            for number in each.partitions
        }
        if all(each.topic_id in names for each in self._target_ids):
            self._target_ids = None
        if target != self._target:
            self._target = target
            self._holder.news()

    def _forget_told(self) -> None:
        """Whether the last heartbeat arrived is not known: the next one says everything."""
        self._told = self._told_owned = None

    # Leaving

    async def _leave_for_silence(self) -> None:
        await self._send_leave()
        self._epoch, self._target = _JOIN, None
        self._forget_told()
        self._is_lost = True
        self._beating = None

    async def leave(self) -> None:
        if self._is_left:
            return
        self._is_left = True
        if self._beating is not None:
            self._beating.cancel()
            if self._epoch > _JOIN:
                await self._send_leave()

    async def _send_leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._coordinator.group_id,
            member_id=self._member_id,
            member_epoch=_LEAVE if self._instance_id is None else _LEAVE_STATIC,
            instance_id=self._instance_id,
        )
        with contextlib.suppress(ClientError):  # the session time-out will tell the group
            await self._coordinator.ask(request)
