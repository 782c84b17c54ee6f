"""Upgrade and downgrade: a live group changes its protocol without stopping, from classic to consumer with
the first member of the new kind, and back when the last of them is gone.

Nothing moves by the change itself. A classic generation becomes the epoch of group, target and members, and
what members had is what they have; the next heartbeats and joins then move things as always. On the way back
the group's epoch becomes the generation, and the target what members have; then they join again.
"""

from collections.abc import Iterable, Mapping

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId
from headrace.coordinators.group.classic.classic_group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    group_metadata_record,
    group_metadata_tombstone,
)
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinators.group.consumer.member import ConsumerGroupMember, PartitionId
from headrace.coordinators.group.consumer.records import (
    Records,
    current_assignment_record,
    group_epoch_record,
    group_tombstones,
    member_record,
    target_assignment_epoch_record,
    target_assignment_record,
)
from headrace.metadata.image import MetadataImage
from headrace.wire.notation import schema_of
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

CONSUMER_TYPE = "consumer"
"""The protocol type of classic groups that can become consumer groups."""


def cannot_upgrade(classic: ClassicGroup, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.id} to consumer group because {reason}",
    )


def upgrade(classic: ClassicGroup, image: MetadataImage, *, wall_ms: int) -> Records:
    """The records that make a classic group a consumer group; ApiError where its members are no consumers, or
    have an assignor of their own: what it told them would be lost.
    """
    if classic.protocol_type != CONSUMER_TYPE:
        raise cannot_upgrade(classic, "the group does not use the consumer embedded protocol.")
    members = [_as_consumer(classic, each, image) for each in classic.members.values()]
    epoch = max(classic.generation, 1)
    records: Records = [group_metadata_tombstone(classic.id)]
    records += [member_record(classic.id, member) for member in members]
    records.append(group_epoch_record(classic.id, epoch=epoch, metadata_hash=0))
    for member in members:
        target = {topic_id: frozenset(owned) for topic_id, owned in member.assigned.items()}
        records.append(target_assignment_record(classic.id, member.id, target))
    records.append(target_assignment_epoch_record(classic.id, epoch=epoch, timestamp_ms=wall_ms))
    records += [current_assignment_record(classic.id, member) for member in members]
    return records


def _as_consumer(
    classic: ClassicGroup, member: ClassicGroupMember, image: MetadataImage
) -> ConsumerGroupMember:
    subscription = read_subscription(member.metadata_for(classic.protocol or member.protocols[0][0]))
    if subscription is None:
        raise cannot_upgrade(classic, "the embedded consumer protocol is malformed.")
    try:
        owned = read_assignment(member.assignment, image)
    except InvalidBytesError:
        raise cannot_upgrade(classic, "the embedded consumer protocol is malformed.") from None
    if owned is None:
        raise cannot_upgrade(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade.",
        )
    epoch = max(classic.generation, 1)
    return ConsumerGroupMember(
        member.id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(*each) for each in member.protocols],
        ),
        epoch=epoch,
        previous_epoch=epoch,
        assigned={topic_id: dict.fromkeys(sorted(each), epoch) for topic_id, each in owned.items()},
    )


def is_all_classic(group: ConsumerGroup) -> bool:
    return bool(group.members) and all(each.classic is not None for each in group.members.values())


def downgrade(group: ConsumerGroup, image: MetadataImage, *, generation: int, wall_ms: int) -> Records:
    """The records that make a consumer group, all of whose members are classic, a classic group again, in
    this generation or a later one that they know.
    """
    generation = max(generation, *(member.epoch for member in group.members.values()))
    classic = ClassicGroup(
        group.id, state=ClassicGroupState.STABLE, generation=generation, protocol_type=CONSUMER_TYPE
    )
    shares: dict[str, bytes] = {}
    for member in group.members.values():
        assert member.classic is not None
        protocols = tuple((each.name, each.metadata) for each in member.classic.supported_protocols)
        classic.add(
            ClassicGroupMember(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                protocols,
            )
        )
        shares[member.id] = write_assignment(member, group.target_assignment.get(member.id, {}), image)
    common = common_protocols(dict(each.protocols) for each in classic.members.values())
    first = next(iter(classic.members.values()))
    classic.protocol = next((name for name, _ in first.protocols if name in common), first.protocols[0][0])
    return [*group_tombstones(group), group_metadata_record(classic, shares, now_ms=wall_ms)]


# --- subscriptions and assignments in the bytes of the classic protocol ---
#
# They are inside JoinGroup and SyncGroup, with topics by name; a consumer group keeps topic ids.


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """None where the bytes follow a protocol of the client's own."""
    try:
        return decode_versioned(ConsumerProtocolSubscription, metadata, take_newer=True)
    except InvalidBytesError:
        return None


def read_assignment(assignment: bytes, image: MetadataImage) -> dict[bytes, set[int]] | None:
    """Partitions by topic id; topics that are gone are left out. Empty where there is no assignment yet; None
    where it has more in it than partitions, InvalidBytesError where it cannot be read.
    """
    if not assignment:
        return {}
    decoded = decode_versioned(ConsumerProtocolAssignment, assignment, take_newer=True)
    if decoded.user_data:
        return None
    return by_id(decoded.assigned_partitions, image)


def by_id(partitions: Iterable[TopicPartition], image: MetadataImage) -> dict[bytes, set[int]]:
    found: dict[bytes, set[int]] = {}
    for each in partitions:
        topic = image.topics_by_name.get(each.topic)
        if topic is not None:
            found.setdefault(topic.id, set()).update(each.partitions)
    return found


def owned_by_client(
    subscription: ConsumerProtocolSubscription, image: MetadataImage
) -> frozenset[PartitionId]:
    """What a member that joins still owns: a client that rebalances eagerly has revoked everything."""
    owned = by_id(subscription.owned_partitions, image)
    return frozenset((topic_id, index) for topic_id, indexes in owned.items() for index in indexes)


def write_assignment(
    member: ConsumerGroupMember, assigned: Mapping[bytes, Iterable[int]], image: MetadataImage
) -> bytes:
    """Partitions for a member, in the version that its own subscription has."""
    partitions = [
        TopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in sorted(assigned.items())
        if (topic := image.topics_by_id.get(TopicId(topic_id))) is not None
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=partitions), _version_of(member))


def _version_of(member: ConsumerGroupMember) -> int:
    protocols = member.classic.supported_protocols if member.classic is not None else []
    newest = schema_of(ConsumerProtocolAssignment).versions[-1]
    if not protocols or len(protocols[0].metadata) < 2:
        return 0
    return min(newest, max(0, int.from_bytes(protocols[0].metadata[:2], "big", signed=True)))


def common_protocols(protocols: Iterable[Mapping[str, bytes]]) -> set[str]:
    """Names that all members support."""
    names = [set(each) for each in protocols]
    return set.intersection(*names) if names else set()
