"""What classic groups and committed offsets write to `__consumer_offsets`, in the versions that Kafka 4.3
writes: its own tools and brokers read them back.
"""

from dataclasses import dataclass
from typing import Final

from headrace.base.ids import NO_EPOCH, TopicId, TopicPartition
from headrace.coordinators.group.classic_group import ClassicGroup, GroupState, Member
from headrace.coordinators.group.rebalances import Assignments
from headrace.coordinators.runtime import CoordinatorRecord
from headrace.wire.schemas.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """One partition of an OffsetCommit, its topic already known by name."""

    topic_partition: TopicPartition
    topic_id: TopicId
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


def group_record(group: ClassicGroup, assignments: Assignments, *, now_ms: int) -> CoordinatorRecord:
    """A group as it is, with what its members are about to own."""
    protocol = group.protocol or ""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader_id,
        current_state_timestamp=now_ms,
        members=[_member_record(member, protocol, assignments) for member in group.members.values()],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def offset_record(group_id: str, commit: OffsetToCommit, now_ms: int) -> CoordinatorRecord:
    topic, partition = commit.topic_partition
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=now_ms,
        topic_id=commit.topic_id,
    )
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return CoordinatorRecord(key, value, OFFSET_COMMIT_VERSION)


def offset_tombstone(group_id: str, topic_partition: TopicPartition) -> CoordinatorRecord:
    topic, partition = topic_partition
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def _member_record(member: Member, protocol: str, assignments: Assignments) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata_for(protocol),
        assignment=assignments.get(member.id, b""),
    )


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record of the log describes."""
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        persisted_ms=max(value.current_state_timestamp, 0),
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
    )
    for each in value.members:
        group.add(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout if each.rebalance_timeout >= 0 else each.session_timeout,
                each.session_timeout,
                ((value.protocol or "", each.subscription),),
                assignment=each.assignment,
            )
        )
    group.leader_id = value.leader
    return group
