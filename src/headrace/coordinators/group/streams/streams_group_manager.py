"""StreamsGroupManager: serves StreamsGroupHeartbeat (KIP-1071): join, stay in and leave a streams group.

    find the member ─► topology ─► topics ─► new group epoch? ─► new target? ─► reconcile ─► write ─► answer

The answer tells a member its tasks where they changed, and the status of its application. With it comes
which internal topics are missing: the handler has them made, and a later heartbeat finds them. A new group
waits for more members before its first target is made. A member that sends no heartbeat for its session
timeout, or does not close its tasks within its rebalance timeout, is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.group.group_config_manager import QUICK_MS_MIN, QUICK_PART, calm_interval_ms
from headrace.coordinators.group.streams.endpoints import endpoint_to_partitions
from headrace.coordinators.group.streams.group_update import StreamsGroupUpdate
from headrace.coordinators.group.streams.heartbeat_request import (
    check_tasks,
    find_member,
    owned_by_client,
    unknown_member,
    updated_member,
)
from headrace.coordinators.group.streams.internal_topics import StreamsStatus
from headrace.coordinators.group.streams.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    StreamsGroupMember,
    StreamsMemberState,
)
from headrace.coordinators.group.streams.records import Records, StreamsGroups
from headrace.coordinators.group.streams.streams_group import StreamsGroup
from headrace.coordinators.group.streams.streams_group_config import StreamsGroupConfig
from headrace.coordinators.group.streams.tasks import NOTHING, Tasks
from headrace.coordinators.timer import CoordinatorTimer
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.create_topics import CreatableTopic
from headrace.wire.schemas.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

logger = logging.getLogger(__name__)

SESSION: Final = "streams session"
REBALANCE: Final = "streams rebalance"
INITIAL_DELAY: Final = "streams initial rebalance delay"

Write = Callable[[Sequence[CoordinatorRecord], Done, bool], None]


class StreamsGroupHeartbeatResult(NamedTuple):
    """The answer, and the internal topics that are missing."""

    response: StreamsGroupHeartbeatResponse
    creatable_topics: Mapping[str, CreatableTopic] = {}


Answer = Callable[[StreamsGroupHeartbeatResult], None]


class _Heartbeat(NamedTuple):
    request: StreamsGroupHeartbeatRequest
    client_id: str
    client_host: str
    answer: Answer


class StreamsGroupManager:
    """All streams groups of one coordinator partition. `make_way` gives the records that end an empty group
    of another kind with this id, or ApiError where a group has it; `is_taken` says whether one has."""

    def __init__(
        self,
        *,
        image: MetadataImage,
        clock: Clock,
        timer: CoordinatorTimer,
        write: Write,
        group_config: Callable[[str], StreamsGroupConfig],
        members_on_node: Callable[[], int],
        make_way: Callable[[str], Records],
        is_taken: Callable[[str], bool],
    ) -> None:
        self.table = StreamsGroups()
        self._image = image
        self._clock = clock
        self._timer = timer
        self._write = write
        self.group_config = group_config
        self._members_on_node = members_on_node
        self._make_way = make_way
        self._is_taken = is_taken

    @property
    def groups(self) -> dict[str, StreamsGroup]:
        return self.table.by_id

    def members(self) -> int:
        """Of all groups."""
        return sum(len(group.members) for group in self.groups.values())

    # --- StreamsGroupHeartbeat ---

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, *, client_id: str, client_host: str, answer: Answer
    ) -> None:
        """Serve a request that `validate_heartbeat` lets pass."""
        try:
            if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
                self._leave(request, answer)
            else:
                self._join_or_stay(_Heartbeat(request, client_id, client_host, answer))
        except ApiError as error:
            answer(_refused(error.code, error.message))

    def _join_or_stay(self, heartbeat: _Heartbeat) -> None:
        request = heartbeat.request
        first_records: Records = []
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
                raise self._not_found(request.group_id, "Streams group")
            first_records = self._make_way(request.group_id)
            group = StreamsGroup(request.group_id)
        config = self.group_config(group.id)
        if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH and len(group.members) >= config.size_max:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {config.size_max} members.",
            )
        known = find_member(group, request)
        before = known or StreamsGroupMember(request.member_id)
        update = StreamsGroupUpdate(group, self._image)
        update.records += first_records
        update.put_member(known, updated_member(before, request, heartbeat.client_id, heartbeat.client_host))
        update.put_topology(request.topology)
        seen = update.configure(self._partition_count)
        assert update.configured is not None
        check_tasks(request, update.configured)
        update.maybe_bump_epoch(seen, config.assignment_configs())
        self._maybe_delay_assignment(group, config)
        delay = self._maybe_assign(update, config)
        target = NOTHING if self._is_waiting_for_members(group.id) else None
        after = update.reconcile(before.id, owned_by_client(request), target=target)
        if request.shutdown_application:
            _note_shutdown(group, after.id)
        self._finish(update, before, after, heartbeat, delay)

    def _maybe_delay_assignment(self, group: StreamsGroup, config: StreamsGroupConfig) -> None:
        """A group that nobody is in yet waits for more than its first member."""
        key = (INITIAL_DELAY, group.id)
        delay_ms = config.initial_rebalance_delay_ms
        if not group.members and delay_ms > 0 and not self._timer.is_scheduled(key):
            due_ms = self._clock.monotonic_ms() + delay_ms
            self._timer.schedule(key, due_ms, lambda now_ms: self._assign_delayed(group.id))

    def _is_waiting_for_members(self, group_id: str) -> bool:
        return self._timer.is_scheduled((INITIAL_DELAY, group_id))

    def _maybe_assign(self, update: StreamsGroupUpdate, config: StreamsGroupConfig) -> str:
        """Make a new target where that is due; why it has to wait, if it has."""
        if self._is_waiting_for_members(update.group.id):
            return "Assignment delayed due to the configured initial rebalance delay."
        if not update.must_assign:
            return ""
        if self._clock.monotonic_ms() < self._assignable_at_ms(update.group, config):
            return "Assignment delayed due to the configured assignment interval."
        update.assign(config.assignment_configs(), wall_ms=self._clock.now_ms())
        return ""

    def _assignable_at_ms(self, group: StreamsGroup, config: StreamsGroupConfig) -> int:
        return 0 if group.assigned_at_ms is None else group.assigned_at_ms + config.assignment_interval_ms

    def _assign_delayed(self, group_id: str) -> None:
        """The group has waited for members long enough: make its first target."""
        group = self.groups.get(group_id)
        if group is None or not group.members or group.configured is None:
            return
        update = StreamsGroupUpdate(group, self._image)
        if update.must_assign:
            update.assign(group.assignment_configs, wall_ms=self._clock.now_ms())
            self._write_update(update, lambda error: None)

    def _finish(
        self,
        update: StreamsGroupUpdate,
        before: StreamsGroupMember,
        after: StreamsGroupMember,
        heartbeat: _Heartbeat,
        delay: str,
    ) -> None:
        """Write, and answer once that is replicated."""
        group, request = update.group, heartbeat.request
        self._schedule_session_timeout(group.id, after.id)
        if (before.epoch, before.state) != (after.epoch, after.state):
            self._schedule_rebalance_timeout(group.id, after)
        is_new = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH or before.assigned != after.assigned
        if is_new and after.user_endpoint is not None:
            group.endpoint_epoch += 1
        told = is_new or _has_lost_an_answer(request, before, after)
        reply = self._reply(update, after, request, told=told)
        assert reply.status is not None
        reply.status += _statuses(update, after, delay)
        assert update.configured is not None
        creatable = update.configured.internal_topics_to_create

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                heartbeat.answer(StreamsGroupHeartbeatResult(reply, creatable))
            else:
                heartbeat.answer(_refused(error))

        self._write_update(update, written)

    def _write_update(self, update: StreamsGroupUpdate, done: Done) -> None:
        """Write, and once that is replayed set what the log does not hold: topics that change while the
        answer waits for other replicas are to be looked at again."""
        group_id, is_failed = update.group.id, False

        def written(error: ErrorCode) -> None:
            nonlocal is_failed
            is_failed = error is not ErrorCode.NONE
            group = self.groups.get(group_id)
            if is_failed and group is not None:
                group.needs_metadata_refresh = True
            done(error)

        if not update.records:
            update.note(update.group)
            done(ErrorCode.NONE)
            return
        has_target = update.assignment_epoch != update.group.assignment_epoch
        self._write(update.records, written, True)
        group = self.groups.get(group_id)
        if is_failed or group is None:
            return
        update.note(group)
        if has_target and any(update.target.values()):
            group.assigned_at_ms = self._clock.monotonic_ms()

    # --- answers ---

    def _reply(
        self,
        update: StreamsGroupUpdate,
        member: StreamsGroupMember,
        request: StreamsGroupHeartbeatRequest,
        *,
        told: bool,
    ) -> StreamsGroupHeartbeatResponse:
        group = update.group
        reply = StreamsGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(update, member),
        )
        if told:
            tasks = member.assigned.without_epochs()
            reply.active_tasks = _to_wire(tasks.active)
            reply.standby_tasks = _to_wire(tasks.standby)
            reply.warmup_tasks = _to_wire(tasks.warmup)
        if group.endpoint_epoch != request.endpoint_information_epoch:
            assert update.configured is not None
            others = [each for each in group.members.values() if each.id != member.id]
            reply.partitions_by_user_endpoint = endpoint_to_partitions(
                [*others, member], update.configured.subtopologies or {}, self._partition_count
            )
        if group.id in self.groups:
            reply.endpoint_information_epoch = group.endpoint_epoch
        return reply

    def _interval_ms(self, update: StreamsGroupUpdate, member: StreamsGroupMember) -> int:
        """Members come back soon where there will be news for them."""
        group = update.group
        config = self.group_config(group.id)
        calm_ms = calm_interval_ms(config, self._members_on_node())
        now_ms = self._clock.monotonic_ms()
        if self._is_waiting_for_members(group.id):
            return min(calm_ms, max(QUICK_MS_MIN, config.initial_rebalance_delay_ms))
        if update.must_assign:
            return min(calm_ms, max(QUICK_MS_MIN, self._assignable_at_ms(group, config) - now_ms))
        if member.state is StreamsMemberState.UNRELEASED_TASKS:
            since_ms = now_ms if group.assigned_at_ms is None else group.assigned_at_ms
            return min(calm_ms, max(QUICK_MS_MIN, (now_ms - since_ms) // QUICK_PART))
        return calm_ms

    def _partition_count(self, name: str) -> int | None:
        topic = self._image.topics_by_name.get(name)
        return None if topic is None else len(topic.partitions)

    def _not_found(self, group_id: str, what: str) -> ApiError:
        if self._is_taken(group_id):
            return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")

    # --- offsets ---

    def validate_offset_commit(
        self,
        group: StreamsGroup,
        *,
        member_id: str,
        epoch: int,
        api_version: int,
        partitions: Sequence[tuple[bytes, int]],
        transactional: bool,
    ) -> ErrorCode:
        """May this member commit to these partitions, topics by id?"""
        topics = self._image.topics_by_id
        named = [(topics[TopicId(each)].name, index) for each, index in partitions if TopicId(each) in topics]
        return group.validate_offset_commit(
            member_id=member_id,
            epoch=epoch,
            api_version=api_version,
            partitions=named,
            transactional=transactional,
        )

    # --- leaving, by request or by timeout ---

    def _leave(self, request: StreamsGroupHeartbeatRequest, answer: Answer) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            raise self._not_found(request.group_id, "Group")
        if request.shutdown_application:
            _note_shutdown(group, request.member_id)
        if request.member_id not in group.members:
            raise unknown_member(group.id, request.member_id)
        reply = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

        def written(error: ErrorCode) -> None:
            answer(StreamsGroupHeartbeatResult(reply) if error is ErrorCode.NONE else _refused(error))

        self._remove(group, request.member_id, written)

    def _remove(self, group: StreamsGroup, member_id: str, done: Done) -> None:
        """Remove a member, and bump the group epoch for the others."""
        self._cancel(group.id, member_id)

        def written(error: ErrorCode) -> None:
            now = self.groups.get(group.id)
            if error is not ErrorCode.NONE and now is not None and member_id in now.members:
                self._schedule_session_timeout(group.id, member_id)  # not written: try again later
            done(error)

        update = StreamsGroupUpdate(group, self._image)
        update.remove_member(member_id)
        self._write(update.records, written, True)

    def _expire(self, group_id: str, member_id: str, why: str) -> None:
        group = self.groups.get(group_id)
        if group is not None and member_id in group.members:
            logger.info("streams group %s: member %s %s, and is removed", group_id, member_id, why)
            self._remove(group, member_id, lambda error: None)

    # --- time ---

    def _schedule_session_timeout(self, group_id: str, member_id: str) -> None:
        self._timer.schedule(
            (SESSION, group_id, member_id),
            self._clock.monotonic_ms() + self.group_config(group_id).session_timeout_ms,
            lambda now_ms: self._expire(group_id, member_id, "sent no heartbeat"),
        )

    def _schedule_rebalance_timeout(self, group_id: str, member: StreamsGroupMember) -> None:
        """A member that has to close tasks has its rebalance timeout for that."""
        key = (REBALANCE, group_id, member.id)
        if member.state is not StreamsMemberState.UNREVOKED_TASKS:
            self._timer.cancel(key)
            return

        def look(now_ms: int) -> None:
            group = self.groups.get(group_id)
            current = None if group is None else group.members.get(member.id)
            if current is not None and current.epoch == member.epoch:
                self._expire(group_id, member.id, "did not close its tasks in time")

        self._timer.schedule(key, self._clock.monotonic_ms() + member.rebalance_timeout_ms, look)

    def _cancel(self, group_id: str, member_id: str) -> None:
        for kind in (SESSION, REBALANCE):
            self._timer.cancel((kind, group_id, member_id))

    def on_loaded(self) -> None:
        """Every member has one session timeout to show up, and one rebalance timeout to close tasks."""
        for group in self.groups.values():
            for member in group.members.values():
                self._schedule_session_timeout(group.id, member.id)
                self._schedule_rebalance_timeout(group.id, member)

    def on_unloaded(self) -> None:
        for group in self.groups.values():
            self._timer.cancel((INITIAL_DELAY, group.id))
            for member_id in group.members:
                self._cancel(group.id, member_id)

    def request_metadata_refresh(self) -> None:
        """Topics changed: every group looks at them again with its next heartbeat."""
        for group in self.groups.values():
            group.needs_metadata_refresh = True


def _refused(error: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResult:
    return StreamsGroupHeartbeatResult(
        StreamsGroupHeartbeatResponse(error_code=error, error_message=message or None)
    )


def _note_shutdown(group: StreamsGroup, member_id: str) -> None:
    """A member has met an error that the others would meet as well: all are told to end."""
    if group.shutdown_member_id is None:
        logger.info("streams group %s: member %s asks for a shutdown of all", group.id, member_id)
        group.shutdown_member_id = member_id


def _has_lost_an_answer(
    request: StreamsGroupHeartbeatRequest, before: StreamsGroupMember, after: StreamsGroupMember
) -> bool:
    """Whether it may not know its tasks: it comes with the epoch before, or says that it has others. A client
    says what it has when that changed, and after a request that failed."""
    owned = owned_by_client(request)
    has_others = owned is not None and owned != after.assigned.without_epochs()
    return request.member_epoch != before.epoch or has_others


def _statuses(update: StreamsGroupUpdate, member: StreamsGroupMember, delay: str) -> list[Status]:
    """What a member is told of its application, in Kafka's order."""
    statuses = []
    topology, group = update.group.topology, update.group
    if topology is not None and member.topology_epoch < topology.epoch:
        statuses.append(
            Status(
                StreamsStatus.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
                f"epoch {topology.epoch}.",
            )
        )
    if delay:
        statuses.append(Status(StreamsStatus.ASSIGNMENT_DELAYED, delay))
    assert update.configured is not None
    if update.configured.status is not None:
        statuses.append(Status(*update.configured.status))
    if group.shutdown_member_id is not None:
        statuses.append(
            Status(
                StreamsStatus.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a "
                "shutdown for the entire application.",
            )
        )
    return statuses


def _to_wire(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(each, sorted(tasks[each])) for each in sorted(tasks)]
