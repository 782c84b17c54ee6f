"""A live group changes its protocol without stopping: from classic to consumer with the first member of the
new kind, and back when the last of them is gone.

Nothing moves by the change itself. A classic generation becomes the epoch of group, target and members, and
what members had is what they have; the next heartbeats and joins then move things as always.
"""

from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.group.classic_records import group_record as classic_group_record
from headrace.coordinators.group.classic_records import group_tombstone as classic_group_tombstone
from headrace.coordinators.group.consumer.classic_subscription import (
    CONSUMER_TYPE,
    common_protocols,
    read_assignment,
    read_subscription,
    write_assignment,
)
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinators.group.consumer.member import ConsumerMember
from headrace.coordinators.group.consumer.records import (
    Records,
    group_record,
    group_tombstones,
    member_record,
    progress_record,
    target_epoch_record,
    target_record,
)
from headrace.metadata.image import ClusterImage
from headrace.wire.schemas.consumer_group_records import ClassicMemberMetadata, ClassicProtocol


def upgrade(classic: ClassicGroup, image: ClusterImage, *, wall_ms: int) -> Records | None:
    """The records that make a classic group a consumer group; None where its members are no consumers."""
    if classic.protocol_type != CONSUMER_TYPE:
        return None
    members = [_as_consumer(classic, each, image) for each in classic.members.values()]
    epoch = max(classic.generation, 1)
    records: Records = [classic_group_tombstone(classic.id)]
    for member in members:
        if member is None:
            return None
        records.append(member_record(classic.id, member))
    records.append(group_record(classic.id, epoch=epoch, metadata_hash=0))
    for member in members:
        assert member is not None
        target = {topic_id: frozenset(owned) for topic_id, owned in member.assigned.items()}
        records.append(target_record(classic.id, member.id, target))
    records.append(target_epoch_record(classic.id, epoch=epoch, timestamp_ms=wall_ms))
    records += [progress_record(classic.id, member) for member in members if member is not None]
    return records


def _as_consumer(classic: ClassicGroup, member: Member, image: ClusterImage) -> ConsumerMember | None:
    subscription = read_subscription(member.metadata_for(classic.protocol or member.protocols[0][0]))
    if subscription is None:
        return None
    owned = read_assignment(member.assignment, image)
    epoch = max(classic.generation, 1)
    return ConsumerMember(
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


def downgrade(group: ConsumerGroup, image: ClusterImage, *, wall_ms: int) -> Records:
    """The records that make a consumer group, all of whose members are classic, a classic group again."""
    # The newest generation that members know: they are told to join again, and lose nothing by it.
    generation = max(member.epoch for member in group.members.values())
    classic = ClassicGroup(
        group.id, state=GroupState.STABLE, generation=generation, protocol_type=CONSUMER_TYPE
    )
    shares: dict[str, bytes] = {}
    for member in group.members.values():
        assert member.classic is not None
        protocols = tuple((each.name, each.metadata) for each in member.classic.supported_protocols)
        classic.add(
            Member(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                protocols,
            )
        )
        shares[member.id] = write_assignment(member, image)
    common = common_protocols(dict(each.protocols) for each in classic.members.values())
    first = next(iter(classic.members.values()))
    classic.protocol = next((name for name, _ in first.protocols if name in common), first.protocols[0][0])
    return [*group_tombstones(group), classic_group_record(classic, shares, now_ms=wall_ms)]
