"""What a StreamsGroupHeartbeat says: whether it is valid, which member it is from, and what is new in it.

A null field is no news. The checks come in Kafka's order, and refuse what Apache Kafka 4.3 refuses: static
members, offsets of tasks, warm-up tasks, and patterns for source topics.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.streams.internal_topics import ConfiguredTopology
from headrace.coordinators.group.streams.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    StreamsGroupMember,
    UserEndpoint,
)
from headrace.coordinators.group.streams.streams_group import StreamsGroup
from headrace.coordinators.group.streams.tasks import TasksTuple
from headrace.coordinators.group.streams.topology import check_changelogs
from headrace.wire.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds


def validate_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """ApiError says what is wrong with a request that no client should send."""
    _refuse_unsupported(request)
    _refuse(not request.member_id.strip(), "MemberId can't be empty.")
    _refuse(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
    epoch = request.member_epoch
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        _refuse(request.instance_id is None, "InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        _refuse(True, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    _refuse(
        None in tasks and tasks != (None, None, None), "If one task-type is non-null, all must be non-null."
    )
    if epoch != JOIN_GROUP_MEMBER_EPOCH:
        _refuse(request.topology is not None, "Topology can only be provided when (re-)joining.")


def _refuse_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse(request.instance_id is not None, "Static membership is not yet supported.")
    _refuse(request.task_offsets is not None, "TaskOffsets are not supported yet.")
    _refuse(request.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
    _refuse(bool(request.warmup_tasks), "WarmupTasks are not supported yet.")
    if request.topology is not None:
        for subtopology in request.topology.subtopologies:
            _refuse(
                bool(subtopology.source_topic_regex),
                "Regular expressions for source topics are not supported yet.",
            )


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        _refuse(tasks is None or bool(tasks), f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining.")
    check_changelogs(request.topology)


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


# --- which member it is from ---


def find_member(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsGroupMember | None:
    """The member that this heartbeat is from; None for a new one."""
    member = group.members.get(request.member_id)
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        return member
    if member is None:
        raise unknown_member(group.id, request.member_id)
    if request.member_epoch != member.epoch:
        is_greater = request.member_epoch > member.epoch
        if is_greater or not _is_retry(member, request):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The streams group member has a {'greater' if is_greater else 'smaller'} member epoch "
                f"({request.member_epoch}) than the one known by the group coordinator ({member.epoch}). "
                "The member must abandon all its partitions and rejoin.",
            )
    return member


def _is_retry(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> bool:
    """One epoch behind is all right if it has nothing but what it was given: the reply was lost."""
    has = member.assigned.without_epochs()
    return request.member_epoch == member.previous_epoch and all(
        tasks is not None
        and all(set(each.partitions) <= of.get(each.subtopology_id, set()) for each in tasks)
        for tasks, of in (
            (request.active_tasks, has.active),
            (request.standby_tasks, has.standby),
            (request.warmup_tasks, has.warmup),
        )
    )


def unknown_member(group_id: str, member_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


# --- what is new in it ---


def updated_member(
    member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str
) -> StreamsGroupMember:
    """The member with what is new in this request."""
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint
        if endpoint is None
        else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else {each.key: each.value for each in tags},
    )


def owned_by_client(request: StreamsGroupHeartbeatRequest) -> TasksTuple | None:
    """What the client says it has; None where it has nothing new to say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TasksTuple(
        _tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks)
    )


def _tasks(ids: Sequence[TaskIds]) -> dict[str, frozenset[int]]:
    tasks: dict[str, frozenset[int]] = {}
    for each in ids:
        if each.partitions:  # a subtopology may be named twice
            tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()).union(each.partitions)
    return tasks


def check_tasks(request: StreamsGroupHeartbeatRequest, configured: ConfiguredTopology) -> None:
    """A client may only have tasks that there are, once it is known which those are."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        if configured.is_ready and tasks:
            _check_tasks(tasks, configured)


def _check_tasks(tasks: Collection[TaskIds], configured: ConfiguredTopology) -> None:
    assert configured.subtopologies is not None
    for each in tasks:
        subtopology = configured.subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Subtopology {each.subtopology_id} does not exist in the topology.",
            )
        for partition in each.partitions:
            _refuse(
                not 0 <= partition < subtopology.number_of_tasks,
                f"Task {partition} for subtopology {each.subtopology_id} is invalid. "
                f"Number of tasks for this subtopology: {subtopology.number_of_tasks}",
            )
