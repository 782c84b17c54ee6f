"""A member of a share group: one request, ShareGroupHeartbeat.

The member says what it subscribes to, the coordinator which partitions it reads. Nothing has to be given up
before somebody else may read it, so an assignment counts as soon as it is heard.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition, new_uuid, uuid_text
from headrace.clients.errors import ClientError, RefusedError, UnsupportedError
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.clients.internals.network_client import NetworkClient
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, TopicPartitions

_JOIN: Final = 0
_LEAVE: Final = -1
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class ShareMembershipManager:
    """`on_change` is called when the assignment changes, `on_failure` when the group will not have it."""

    def __init__(
        self,
        client: NetworkClient,
        *,
        on_change: Callable[[], None],
        on_failure: Callable[[ClientError], None],
    ) -> None:
        config = client.config
        self._client = client
        self._environment = client.environment
        self.group_id = config.str("group.id")
        self.member_id = uuid_text(new_uuid(self._environment.rng))
        self.topics: tuple[str, ...] = ()
        self.assigned: set[TopicPartition] = set()
        self.last_poll_ms = self._environment.now_ms()
        self._coordinator = CoordinatorClient(client, self.group_id, CoordinatorKind.GROUP)
        self._on_change = on_change
        self._on_failure = on_failure
        self._epoch = _JOIN
        self._interval_ms = config.int("heartbeat.interval.ms")
        self._told: tuple[str, ...] | None = None
        self._unnamed: list[TopicPartitions] | None = None  # an assignment with topics of unknown names
        self._beating: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._soon.set()

    def polled(self) -> None:
        """The program is alive: join, or stay."""
        self.last_poll_ms = self._environment.now_ms()
        if self._beating is None and self.topics:
            self._beating = self._environment.loop.create_task(self._beat())

    async def leave(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
        if self._epoch > _JOIN:
            await self._send_leave()
        self._be_out()

    async def _beat(self) -> None:
        patience_ms = self._client.config.int("max.poll.interval.ms")
        failures = 0
        try:
            while True:
                self._soon.clear()
                if self._environment.now_ms() - self.last_poll_ms > patience_ms:
                    await self._leave_for_silence()
                    return
                began_ms = self._environment.now_ms()
                failures = 0 if await self._beat_patiently() else failures + 1
                if failures:
                    await self._pause(self._client.retry.wait_ms(failures))
                else:
                    await self._pause(max(0, began_ms + self._interval_ms - self._environment.now_ms()))
        except ClientError as error:
            self._beating = None
            self._on_failure(error)

    async def _beat_patiently(self) -> bool:
        try:
            return await self._beat_once()
        except UnsupportedError:
            raise
        except ClientError as error:
            if isinstance(error, RefusedError) and not error.retriable:
                raise
            self._told = None  # whether it arrived is not known
            return False

    async def _pause(self, milliseconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._soon.wait(), milliseconds / 1000)

    async def _beat_once(self) -> bool:
        """One heartbeat; False where it should be tried again soon."""
        topics = self.topics
        response = await self._coordinator.ask(self._request(topics))
        code = response.error_code
        if code in _FENCED and self._epoch != _JOIN:
            self._be_out()
            return False
        if code in _TRY_AGAIN:
            self._coordinator.forget()
            self._told = None
            return False
        self._coordinator.check(code, f"out of the share group {self.group_id!r}", response.error_message)
        self._told = topics
        await self._take_in(response)
        return True

    def _request(self, topics: tuple[str, ...]) -> ShareGroupHeartbeatRequest:
        is_news = self._epoch == _JOIN or topics != self._told
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rack_id=(self._client.config.str("client.rack") or None) if self._epoch == _JOIN else None,
            subscribed_topic_names=sorted(topics) if is_news else None,
        )

    async def _take_in(self, response: Any) -> None:
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        if response.assignment is not None:
            self._unnamed = response.assignment.topic_partitions
        if self._unnamed is None:
            return
        names = self._client.metadata.names
        unknown = [each.topic_id for each in self._unnamed if each.topic_id not in names]
        if unknown:
            await self._client.refresh_ids(unknown)
        assigned = {
            TopicPartition(names[each.topic_id], number)
            for each in self._unnamed
            if each.topic_id in names
            for number in each.partitions
        }
        if all(each.topic_id in names for each in self._unnamed):
            self._unnamed = None
        self._assign(assigned)

    def _assign(self, assigned: set[TopicPartition]) -> None:
        if assigned != self.assigned:
            self.assigned = assigned
            self._on_change()

    def _be_out(self) -> None:
        self._epoch, self._told, self._unnamed = _JOIN, None, None
        self._assign(set())

    async def _leave_for_silence(self) -> None:
        """The program does not poll: others shall have its records. The next poll joins again."""
        await self._send_leave()
        self._be_out()
        self._beating = None

    async def _send_leave(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=_LEAVE
        )
        with contextlib.suppress(ClientError):  # the session time-out will tell the group
            await self._coordinator.ask(request)
