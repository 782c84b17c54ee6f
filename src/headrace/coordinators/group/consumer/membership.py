"""Who sends this heartbeat: a member known, a new one, a static one back in its seat, or an impostor."""

from collections.abc import Collection

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, Slot
from headrace.coordinators.group.consumer.member import JOINING, STATIC_LEAVING, ConsumerMember
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def held_slots(request: ConsumerGroupHeartbeatRequest) -> frozenset[Slot] | None:
    """What the client says it reads; None where it has nothing new to say."""
    if request.topic_partitions is None:
        return None
    return frozenset((each.topic_id, index) for each in request.topic_partitions for index in each.partitions)


def check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.id} has {size_max} members, which is its limit"
        )


def find_sender(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerMember | None:
    """The member that this heartbeat is from, in the state it is known in; None for a new one.

    For a static member that comes back under a new id, it is the one that left the seat. A classic one never
    says that it leaves, so its seat can be taken at any time.
    """
    if request.instance_id is None:
        return _dynamic(group, request, member_id)
    seated = group.static_member(request.instance_id)
    if request.member_epoch == JOINING:
        is_in_use = seated is not None and seated.classic is None and seated.epoch != STATIC_LEAVING
        if seated is not None and seated.id != member_id and is_in_use:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"instance {request.instance_id} is still in use by member {seated.id}",
            )
        return seated if seated is not None else group.members.get(member_id)
    return _known_static(request, member_id, seated)


def _dynamic(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerMember | None:
    member = group.members.get(member_id)
    if request.member_epoch == JOINING:
        return member
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group.id}")
    check_epoch(member, request.member_epoch, held_slots(request))
    return member


def _known_static(
    request: ConsumerGroupHeartbeatRequest, member_id: str, seated: ConsumerMember | None
) -> ConsumerMember:
    check_seat(request.instance_id or "", member_id, seated)
    assert seated is not None
    check_epoch(seated, request.member_epoch, held_slots(request))
    return seated


def check_seat(instance_id: str, member_id: str, seated: ConsumerMember | None) -> None:
    """A static member's seat belongs to the id that took it last."""
    if seated is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {instance_id} is not known")
    if seated.id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} is now member {seated.id}, not {member_id}"
        )


def check_epoch(member: ConsumerMember, epoch: int, held: Collection[Slot] | None) -> None:
    """A member with a wrong epoch was given up by the group: it must let go of everything and join anew.

    One epoch behind is all right if it holds nothing but what it was given: the reply was lost.
    """
    if epoch == member.epoch:
        return
    is_retry = (
        epoch == member.previous_epoch and held is not None and all(member.holds(*each) for each in held)
    )
    if epoch > member.epoch or not is_retry:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {member.id} is at epoch {member.epoch}, not {epoch}: let go of everything and rejoin",
        )
