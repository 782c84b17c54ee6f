"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, and the assignment made by a member.

    out ── join ──► joining ── sync ──► syncing ──► stable ── heartbeat: rebalance ──► out

`_rejoin` is the network's part and runs beside the polls: JoinGroup is only answered when all members have
come, or the rebalance time-out is over. What the user sees is done by `advance`, inside a poll: before the
join, partitions are given up (eager) or kept (cooperative, KIP-429); after it, new ones are taken up. With a
cooperative assignor a member that had to give something up joins again, so that it can be given away.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.assignors import make_assignor
from headrace.clients.assignors.consumer_partition_assignor import (
    ConsumerPartitionAssignor,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.clients.errors import ClientError, RefusedError, TimedOutError, UnreachableError
from headrace.clients.internals.consumer.group_coordinator_client import GroupCoordinatorClient, Membership
from headrace.clients.internals.consumer.membership_manager import RebalanceHandler
from headrace.clients.internals.network_client import NetworkClient, Use
from headrace.settings.definition import SettingError
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.schemas.leave_group import MEMBERS_SINCE, LeaveGroupRequest, MemberIdentity
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_PROTOCOL_TYPE: Final = "consumer"
_NO_GENERATION: Final = -1
# A join is answered at the rebalance time-out; this is for the way back.
_JOIN_GRACE_MS: Final = 5_000
_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_LATER: Final = _JOIN_AGAIN - {ErrorCode.REBALANCE_IN_PROGRESS}
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})

Assigned = list[TopicPartition]


class ConsumerCoordinator:
    """Implements `MembershipManager` with Kafka's classic protocol."""

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
        self._assignors = _assignors(config.list("partition.assignment.strategy"))
        self._instance_id = config.str("group.instance.id") or None
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._heard_ms = 0  # when the coordinator last heard of this member
        self._assignor: ConsumerPartitionAssignor | None = None
        self._needs_join = True
        self._prepared = False
        self._is_lost = False  # what is owned belongs to others already
        self._joining: asyncio.Task[Assigned] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()  # a heartbeat is due before its time
        self._led: dict[str, int] = {}  # as leader: partition counts that the assignment was made from
        self._is_left = False

    @property
    def identity(self) -> Membership:
        return Membership(self._generation, self._member_id, self._instance_id)

    @property
    def is_out(self) -> bool:
        return self._is_lost or self._generation == _NO_GENERATION

    def is_still(self, begun: Membership) -> bool:
        return (
            begun == self.identity
        )  # what was owned in another generation may be somebody else's in this one

    @property
    def is_cooperative(self) -> bool:
        """Whether all assignors of this member can be used without giving everything up."""
        return all(RebalanceProtocol.COOPERATIVE in each.protocols for each in self._assignors.values())

    def doubt(self) -> None:
        self._soon.set()

    def subscription_changed(self) -> None:
        self._needs_join = True

    @property
    def has_work(self) -> bool:
        if self._is_lost:
            return True
        if self._joining is not None:
            return self._joining.done()
        return self._needs_join or self._led_topics_changed()

    # Inside a poll

    async def advance(self) -> None:
        if self._is_lost:
            self._is_lost = False
            await self._holder.lose(self._holder.owned)
        if self._joining is None and self._led_topics_changed():
            self._needs_join = True
        if self._joining is None and self._needs_join:
            if self._has_been_silent():
                self._forget_membership(ErrorCode.ILLEGAL_GENERATION)
                await self._holder.lose(self._holder.owned)
            await self._prepare()
            self._joining = self._environment.loop.create_task(self._rejoin())
            self._joining.add_done_callback(lambda _: self._holder.news())
        elif self._joining is not None and self._joining.done():
            await self._complete(self._joining)

    async def _prepare(self) -> None:
        """Once before a join: give up what this protocol asks for."""
        if not self._prepared:
            await self._holder.before_rebalance()
            if not self.is_cooperative:
                await self._holder.revoke(self._holder.owned)
            else:
                gone = {each for each in self._holder.owned if each.topic not in self._holder.topics}
                await self._holder.revoke(gone)
            self._prepared = True

    async def _complete(self, joining: "asyncio.Task[Assigned]") -> None:
        self._joining = None
        error = joining.exception()
        if isinstance(error, UnreachableError | TimedOutError):
            return  # the next advance tries again
        if error is not None:
            raise error
        assigned = set(joining.result())
        self._prepared = False
        owned = self._holder.owned
        if owned - assigned:
            # Given away by the new assignment: others wait until this member joins without them.
            self._needs_join = True  # also where the listener fails: the new ones come with the next join
            await self._holder.revoke(owned - assigned)
        assert self._assignor is not None
        self._assignor.on_assignment(sorted(assigned), self._generation)
        await self._holder.grant(assigned - owned)

    # Joining, beside the polls

    async def _rejoin(self) -> Assigned:
        """Join until a generation is agreed on; the member's partitions in it."""
        self._needs_join = False
        failures = 0
        try:
            while True:
                self._stop_beating()
                try:
                    return await self._join_once()
                except RefusedError as error:
                    self._stop_beating()  # it began with a generation that came to nothing
                    if error.code in _FORGOTTEN:
                        # Cooperative assignors keep partitions over a join: now they are others'.
                        self._forget_membership(error.code)
                        self._is_lost = True
                        self._holder.news()
                    elif error.code not in _JOIN_AGAIN and error.code != ErrorCode.MEMBER_ID_REQUIRED:
                        raise
                    if error.code != ErrorCode.MEMBER_ID_REQUIRED:
                        failures += 1
                        await self._client.pause(self._client.retry.wait_ms(failures))
        except ClientError:
            self._needs_join = True
            raise

    async def _join_once(self) -> Assigned:
        config = self._client.config
        request = JoinGroupRequest(
            group_id=self._coordinator.group_id,
            session_timeout_ms=config.int("session.timeout.ms"),
            rebalance_timeout_ms=config.int("max.poll.interval.ms"),
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._subscription(assignor))
                for name, assignor in self._assignors.items()
            ],
        )
        timeout_ms = max(self._client.timeout_ms, config.int("max.poll.interval.ms") + _JOIN_GRACE_MS)
        response = await self._coordinator.ask(request, timeout_ms=timeout_ms, use=Use.JOIN)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        self._coordinator.check(response.error_code, f"cannot join the group {self._coordinator.group_id!r}")
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._heard_ms = self._environment.now_ms()
        self._assignor = self._assignors[response.protocol_name or ""]
        self._start_beating()
        return await self._sync(response)

    def _subscription(self, assignor: ConsumerPartitionAssignor) -> bytes:
        topics = sorted(self._holder.topics)
        owned = self._holder.owned if self._generation != _NO_GENERATION else ()
        return encode_subscription(
            Subscription(
                topics=tuple(topics),
                user_data=assignor.user_data(topics),
                owned_partitions=tuple(sorted(owned)),
                generation=self._generation,
                rack=self._client.config.str("client.rack") or None,
            )
        )

    async def _sync(self, joined: Any) -> Assigned:
        assignments: list[SyncGroupRequestAssignment] = []
        self._led = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        request = SyncGroupRequest(
            group_id=self._coordinator.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        timeout_ms = self._client.config.int("max.poll.interval.ms") + _JOIN_GRACE_MS
        response = await self._coordinator.ask(request, timeout_ms=timeout_ms, use=Use.JOIN)
        self._coordinator.check(
            response.error_code, f"cannot sync with the group {self._coordinator.group_id!r}"
        )
        return decode_assignment(response.assignment)

    async def _assign(self, joined: Any) -> list[SyncGroupRequestAssignment]:
        """As leader: share out the partitions of all topics that anybody wants."""
        assert self._assignor is not None
        subscriptions = {
            each.member_id: decode_subscription(each.metadata, instance_id=each.group_instance_id)
            for each in joined.members
        }
        topics = sorted({topic for each in subscriptions.values() for topic in each.topics})
        await self._client.patiently(lambda: self._client.refresh(topics))
        metadata = self._client.metadata
        known = {
            name: [
                PartitionInfo(each.partition_index, _racks(metadata.racks, each.replica_nodes))
                for each in sorted(metadata.topics[name].partitions, key=lambda each: each.partition_index)
            ]
            for name in topics
            if name in metadata.topics
        }
        self._led = {name: metadata.partition_count(name) for name in topics}
        assignment = self._assignor.assign(known, subscriptions)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assignment.items()
        ]

    def _led_topics_changed(self) -> bool:
        """As leader: a topic that somebody wants came, went or grew."""
        return any(self._client.metadata.partition_count(name) != count for name, count in self._led.items())

    def _has_been_silent(self) -> bool:
        """For longer than a session, as after a freeze: then this member is out, though a coordinator may
        take it in again without a word about that.
        """
        silent_ms = self._environment.now_ms() - self._heard_ms
        return not self.is_out and silent_ms > self._client.config.int("session.timeout.ms")

    def _forget_membership(self, code: ErrorCode) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._generation = _NO_GENERATION
        self._led = {}

    # Heartbeats

    def _start_beating(self) -> None:
        if self._beating is None:
            self._beating = self._environment.loop.create_task(self._beat())

    def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def _beat(self) -> None:
        """A heartbeat each interval, counted from when the last one was sent: a coordinator may hold its
        answer until there is news.
        """
        config = self._client.config
        interval_ms = config.int("heartbeat.interval.ms")
        due_ms: float = self._environment.now_ms() + interval_ms
        failures = 0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), max(0, due_ms - self._environment.now_ms()) / 1000)
            self._soon.clear()
            if self._environment.now_ms() - self._holder.last_poll_ms > config.int("max.poll.interval.ms"):
                await self._leave_for_silence()
                return
            sent_ms = self._environment.now_ms()
            try:
                code = (await self._coordinator.ask(self._heartbeat())).error_code
            except ClientError:
                failures += 1
                due_ms = self._environment.now_ms() + min(self._client.retry.wait_ms(failures), interval_ms)
                continue
            failures, self._heard_ms, due_ms = 0, sent_ms, sent_ms + interval_ms
            if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                due_ms = self._environment.now_ms() + min(self._client.retry.wait_ms(1), interval_ms)
            elif not self._take_heartbeat(code):
                return

    def _heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._coordinator.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )

    def _take_heartbeat(self, code: int) -> bool:
        """Act upon a heartbeat's answer; False where there is nothing left to beat for."""
        if code == ErrorCode.NONE:
            return True
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator.forget()
        if code in _LATER:
            return True
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._needs_join = True
            self._holder.news()
            return True
        if code in _FORGOTTEN:
            self._forget_membership(ErrorCode(code))
            self._is_lost = self._needs_join = True
        else:
            self._on_failure(RefusedError(code, f"out of the group {self._coordinator.group_id!r}"))
        self._beating = None
        self._holder.news()
        return False

    async def _leave_for_silence(self) -> None:
        """The user has not polled for too long: others should get the partitions (KIP-62)."""
        self._beating = None
        if self._instance_id is None:
            await self._send_leave("no poll within max.poll.interval.ms")
            self._member_id = ""
        self._generation = _NO_GENERATION
        self._is_lost = self._needs_join = True

    async def leave(self) -> None:
        if self._is_left:
            return
        self._is_left = True
        if self._joining is not None:
            self._joining.cancel()
        self._stop_beating()
        if self._member_id and self._instance_id is None:
            await self._send_leave("the consumer is being closed")

    async def _send_leave(self, reason: str) -> None:
        request = LeaveGroupRequest(group_id=self._coordinator.group_id)
        with contextlib.suppress(ClientError):  # the session time-out will tell the group
            if await self._coordinator.version_of(ApiKey.LEAVE_GROUP) >= MEMBERS_SINCE:
                request.members = [MemberIdentity(member_id=self._member_id, reason=reason)]
            else:
                request.member_id = self._member_id
            await self._coordinator.ask(request)


def _assignors(names: tuple[str, ...]) -> dict[str, ConsumerPartitionAssignor]:
    try:
        made = [make_assignor(name) for name in names]
    except ValueError as error:
        raise SettingError("partition.assignment.strategy", str(error)) from None
    return {each.name: each for each in made}


def _racks(known: dict[int, str | None], replicas: list[int]) -> frozenset[str]:
    return frozenset(rack for node in replicas if (rack := known.get(node)))
