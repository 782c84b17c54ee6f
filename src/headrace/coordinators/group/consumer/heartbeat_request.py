"""What a ConsumerGroupHeartbeat says: whether it is valid, which member it is from, and what is new in it.

A null field is no news. The checks come in Kafka's order.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.classic.classic_group import ClassicGroup
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinators.group.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupMember,
    MemberState,
    PartitionId,
)
from headrace.coordinators.group.consumer.subscription import check_regular_expression
from headrace.wire.schemas.consumer_group_heartbeat import (
    CONSUMER_GENERATED_MEMBER_ID_SINCE,
    ConsumerGroupHeartbeatRequest,
)


def validate_heartbeat(
    request: ConsumerGroupHeartbeatRequest, *, api_version: int, assignors: Sequence[str]
) -> None:
    """ApiError says what is wrong with a request that no client should send."""
    _refuse(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse(_is_blank(request.instance_id), "InstanceId can't be empty.")
    _refuse(_is_blank(request.rack_id), "RackId can't be empty.")
    epoch = request.member_epoch
    if api_version >= CONSUMER_GENERATED_MEMBER_ID_SINCE or epoch > 0 or epoch == LEAVE_GROUP_MEMBER_EPOCH:
        _refuse(not request.member_id.strip(), "MemberId can't be empty.")
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        _refuse(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse(epoch < LEAVE_GROUP_MEMBER_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )
    if request.subscribed_topic_regex:
        check_regular_expression(request.subscribed_topic_regex)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    owns = request.topic_partitions is None or bool(request.topic_partitions)
    _refuse(owns, "TopicPartitions must be empty when (re-)joining.")
    _refuse(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


# --- which member it is from ---


def owned_by_client(request: ConsumerGroupHeartbeatRequest) -> frozenset[PartitionId] | None:
    """What the client says it reads; None where it has nothing new to say."""
    if request.topic_partitions is None:
        return None
    return frozenset((each.topic_id, index) for each in request.topic_partitions for index in each.partitions)


def check_group_size(group: ConsumerGroup | ClassicGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def find_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerGroupMember | None:
    """The member that this heartbeat is from, in the state it is known in; None for a new one.

    For a static member that comes back under a new id, it is the old one. A classic static member never says
    that it leaves, so it can be replaced at any time.
    """
    if request.instance_id is None:
        return _dynamic_member(group, request, member_id)
    known = group.static_member(request.instance_id)
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        is_in_use = (
            known is not None and known.classic is None and known.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH
        )
        if known is not None and known.id != member_id and is_in_use:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group "
                f"because the instance id is owned by {known.id} member.",
            )
        return known if known is not None else group.members.get(member_id)
    return _static_member(request, member_id, known)


def _dynamic_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerGroupMember | None:
    member = group.members.get(member_id)
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        return member
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.id}."
        )
    check_member_epoch(member, request.member_epoch, owned_by_client(request))
    return member


def _static_member(
    request: ConsumerGroupHeartbeatRequest, member_id: str, known: ConsumerGroupMember | None
) -> ConsumerGroupMember:
    check_instance_id(request.instance_id or "", member_id, known)
    assert known is not None
    check_member_epoch(known, request.member_epoch, owned_by_client(request))
    return known


def check_instance_id(instance_id: str, member_id: str, known: ConsumerGroupMember | None) -> None:
    """A static member's instance id belongs to the member that joined with it last."""
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known.id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known.id}.",
        )


def check_member_epoch(
    member: ConsumerGroupMember, epoch: int, owned: Collection[PartitionId] | None
) -> None:
    """A member with a wrong epoch was fenced by the group: it must revoke everything and join again.

    One epoch behind is all right if it owns nothing but what it was given: the reply was lost.
    """
    if epoch == member.epoch:
        return
    is_retry = (
        epoch == member.previous_epoch
        and owned is not None
        and all(member.is_assigned(*each) for each in owned)
    )
    if epoch > member.epoch or not is_retry:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member "
            f"epoch ({epoch}) than the one known by the group coordinator ({member.epoch}). The member must "
            "abandon all its partitions and rejoin.",
        )


# --- what is new in it ---


def updated_member(
    member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> ConsumerGroupMember:
    """The member with what is new in this request."""
    names, regex, assignor = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
    )
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if assignor is None else assignor,
        classic=None,
    )


def changes_nothing(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
) -> bool:
    """No news on either side: most heartbeats are that, so they are answered without a builder."""
    return (
        request.member_epoch == member.epoch == group.epoch == group.assignment_epoch
        and member.state is MemberState.STABLE
        and not group.needs_metadata_refresh
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.rack_id in (None, member.rack_id)
        and request.instance_id in (None, member.instance_id)
        and (client_id, client_host, member.classic) == (member.client_id, member.client_host, None)
    )


def is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A client that is not sure what the coordinator knows sends all fields, and gets its assignment."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    tells_all = subscribes and request.rebalance_timeout_ms != -1 and request.topic_partitions is not None
    return request.member_epoch == JOIN_GROUP_MEMBER_EPOCH or tells_all
