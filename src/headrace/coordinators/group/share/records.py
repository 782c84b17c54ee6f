"""Share groups to records of `__consumer_offsets` and back, in the versions that Kafka 4.3 writes.

Lists inside records are sorted, so that equal states make equal bytes.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.base.ids import TopicId
from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.group.share.share_group import (
    Partitions,
    ShareGroup,
    ShareGroupMember,
    TopicWithState,
)
from headrace.wire.schemas import share_group_records as wire

Records = list[CoordinatorRecord]


def group_epoch_record(group_id: str, *, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = wire.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(wire.ShareGroupMetadataKey(group_id), value)


def member_record(group_id: str, member: ShareGroupMember) -> CoordinatorRecord:
    value = wire.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return CoordinatorRecord(wire.ShareGroupMemberMetadataKey(group_id, member.id), value)


def target_assignment_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    topics = [wire.TopicPartition(each, sorted(target[each])) for each in sorted(target)]
    key = wire.ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return CoordinatorRecord(key, wire.ShareGroupTargetAssignmentMemberValue(topics))


def target_assignment_epoch_record(group_id: str, *, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = wire.ShareGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return CoordinatorRecord(wire.ShareGroupTargetAssignmentMetadataKey(group_id), value)


def current_assignment_record(group_id: str, member: ShareGroupMember) -> CoordinatorRecord:
    value = wire.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        assigned_partitions=[
            wire.TopicPartitions(each, sorted(member.assigned[each])) for each in sorted(member.assigned)
        ],
    )
    return CoordinatorRecord(wire.ShareGroupCurrentMemberAssignmentKey(group_id, member.id), value)


def state_partition_record(
    group_id: str,
    *,
    initializing: Mapping[TopicId, TopicWithState],
    initialized: Mapping[TopicId, TopicWithState],
    deleting: Mapping[TopicId, str],
) -> CoordinatorRecord:
    value = wire.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics_to_wire(initializing),
        initialized_topics=_topics_to_wire(initialized),
        deleting_topics=[wire.TopicInfo(each, deleting[each]) for each in sorted(deleting)],
    )
    return CoordinatorRecord(wire.ShareGroupStatePartitionMetadataKey(group_id), value)


def member_tombstones(group_id: str, member_id: str) -> Records:
    """What takes a member out, in Kafka's order: where it is, where it should be, who it was."""
    kinds = (
        wire.ShareGroupCurrentMemberAssignmentKey,
        wire.ShareGroupTargetAssignmentMemberKey,
        wire.ShareGroupMemberMetadataKey,
    )
    return [CoordinatorRecord(kind(group_id, member_id), None) for kind in kinds]


def group_tombstones(group: ShareGroup) -> Records:
    """What takes a whole group out."""
    records = [record for member_id in group.members for record in member_tombstones(group.id, member_id)]
    records.append(CoordinatorRecord(wire.ShareGroupStatePartitionMetadataKey(group.id), None))
    records.append(CoordinatorRecord(wire.ShareGroupTargetAssignmentMetadataKey(group.id), None))
    records.append(CoordinatorRecord(wire.ShareGroupMetadataKey(group.id), None))
    return records


def _topics_to_wire(topics: Mapping[TopicId, TopicWithState]) -> list[wire.TopicPartitionsInfo]:
    return [
        wire.TopicPartitionsInfo(each, topics[each].name, sorted(topics[each].partitions))
        for each in sorted(topics)
    ]


def _topics_of_wire(topics: list[wire.TopicPartitionsInfo]) -> dict[TopicId, TopicWithState]:
    return {
        TopicId(each.topic_id): TopicWithState(each.topic_name, frozenset(each.partitions)) for each in topics
    }


class ShareGroups:
    """All share groups of one coordinator partition, built by replay."""

    def __init__(self) -> None:
        self.by_id: dict[str, ShareGroup] = {}

    def replay(self, key: object, value: object | None) -> bool:
        """Take a record in; False where it is of another kind."""
        if isinstance(key, wire.ShareGroupMetadataKey):
            self._replay_group(key, value)
        elif isinstance(key, wire.ShareGroupMemberMetadataKey):
            self._replay_member(key, value)
        elif isinstance(key, wire.ShareGroupTargetAssignmentMetadataKey):
            self._replay_target_epoch(key, value)
        elif isinstance(key, wire.ShareGroupTargetAssignmentMemberKey):
            self._replay_target(key, value)
        elif isinstance(key, wire.ShareGroupCurrentMemberAssignmentKey):
            self._replay_progress(key, value)
        elif isinstance(key, wire.ShareGroupStatePartitionMetadataKey):
            self._replay_state_partitions(key, value)
        else:
            return False
        return True

    def _group(self, group_id: str) -> ShareGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ShareGroup(group_id)
        return group

    def _replay_group(self, key: wire.ShareGroupMetadataKey, value: object | None) -> None:
        if value is None:
            gone = self.by_id.pop(key.group_id, None)
            if gone is not None:
                gone.is_deleted = True
            return
        assert isinstance(value, wire.ShareGroupMetadataValue)
        group = self._group(key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash

    def _replay_member(self, key: wire.ShareGroupMemberMetadataKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.members.pop(key.member_id, None)
            return
        assert isinstance(value, wire.ShareGroupMemberMetadataValue)
        group = self._group(key.group_id)
        group.members[key.member_id] = replace(
            group.members.get(key.member_id, ShareGroupMember(key.member_id)),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(value.subscribed_topic_names),
        )

    def _replay_target_epoch(
        self, key: wire.ShareGroupTargetAssignmentMetadataKey, value: object | None
    ) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.assignment_epoch = 0
                known.target_assignment.clear()
            return
        assert isinstance(value, wire.ShareGroupTargetAssignmentMetadataValue)
        self._group(key.group_id).assignment_epoch = value.assignment_epoch

    def _replay_target(self, key: wire.ShareGroupTargetAssignmentMemberKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.target_assignment.pop(key.member_id, None)
            return
        assert isinstance(value, wire.ShareGroupTargetAssignmentMemberValue)
        self._group(key.group_id).target_assignment[key.member_id] = {
            TopicId(each.topic_id): frozenset(each.partitions) for each in value.topic_partitions
        }

    def _replay_progress(self, key: wire.ShareGroupCurrentMemberAssignmentKey, value: object | None) -> None:
        group = self.by_id.get(key.group_id)
        before = None if group is None else group.members.get(key.member_id)
        if value is None:
            if group is not None and before is not None:
                group.members[key.member_id] = replace(before, epoch=0, previous_epoch=0, assigned={})
            return
        assert isinstance(value, wire.ShareGroupCurrentMemberAssignmentValue)
        self._group(key.group_id).members[key.member_id] = replace(
            before or ShareGroupMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={
                TopicId(each.topic_id): frozenset(each.partitions) for each in value.assigned_partitions
            },
        )

    def _replay_state_partitions(
        self, key: wire.ShareGroupStatePartitionMetadataKey, value: object | None
    ) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.initializing, known.initialized, known.deleting = {}, {}, {}
            return
        assert isinstance(value, wire.ShareGroupStatePartitionMetadataValue)
        group = self._group(key.group_id)
        group.initializing = _topics_of_wire(value.initializing_topics)
        group.initialized = _topics_of_wire(value.initialized_topics)
        group.deleting = {TopicId(each.topic_id): each.topic_name for each in value.deleting_topics}
