"""Consumer groups to records of `__consumer_offsets` and back, in the versions that Kafka 4.3 writes.

Lists inside records are sorted, so that equal states make equal bytes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, ResolvedRegularExpression
from headrace.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    MemberState,
    Partitions,
    PartitionsWithEpochs,
)
from headrace.wire.schemas.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

Records = list[CoordinatorRecord]


def group_epoch_record(group_id: str, *, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def target_assignment_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
            for topic_id in sorted(target)
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, value)


def target_assignment_epoch_record(group_id: str, *, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_owned_to_wire(member.assigned),
        partitions_pending_revocation=_owned_to_wire(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return CoordinatorRecord(key, value)


def regular_expression_record(
    group_id: str, regex: str, resolved: ResolvedRegularExpression
) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(key, value)


def regular_expression_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def member_tombstones(group_id: str, member_id: str) -> Records:
    """What takes a member out, in Kafka's order: where it is, where it should be, who it was."""
    kinds = (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupMemberMetadataKey,
    )
    return [CoordinatorRecord(kind(group_id=group_id, member_id=member_id), None) for kind in kinds]


def group_tombstones(group: ConsumerGroup) -> Records:
    """What takes a whole group out."""
    records = [record for member_id in group.members for record in member_tombstones(group.id, member_id)]
    records += [regular_expression_tombstone(group.id, regex) for regex in group.regexes]
    records.append(CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.id), None))
    records.append(CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group.id), None))
    return records


def _owned_to_wire(owned: PartitionsWithEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(owned[topic_id]),
            assignment_epochs=[epoch for _, epoch in sorted(owned[topic_id].items())],
        )
        for topic_id in sorted(owned)
    ]


def _owned_of_wire(wire: Iterable[TopicPartitions], member_epoch: int) -> PartitionsWithEpochs:
    """Before KIP-1251 a record told no epochs: then the member's own stands for all."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for each in wire:
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=False))
    return owned


class ConsumerGroups:
    """All consumer groups of one coordinator partition, built by replay."""

    def __init__(self) -> None:
        self.by_id: dict[str, ConsumerGroup] = {}
        self.version = 0  # grows with every record

    def replay(self, key: object, value: object | None) -> bool:
        """Take a record in; False where it is of another kind."""
        if isinstance(key, ConsumerGroupMetadataKey):
            if value is None:
                self.by_id.pop(key.group_id, None)
            else:
                assert isinstance(value, ConsumerGroupMetadataValue)
                group = self._group(key.group_id)
                group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif isinstance(key, ConsumerGroupPartitionMetadataKey):
            pass  # older brokers kept the topics themselves where newer ones keep a hash
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._replay_member(key, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self._replay_target_epoch(key, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self._replay_target(key, value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._replay_progress(key, value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self._replay_regex(key, value)
        else:
            return False
        self.version += 1
        return True

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ConsumerGroup(group_id)
        return group

    def _replay_member(self, key: ConsumerGroupMemberMetadataKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.remove(key.member_id)
            return
        assert isinstance(value, ConsumerGroupMemberMetadataValue)
        group = self._group(key.group_id)
        before = group.members.get(key.member_id, ConsumerGroupMember(key.member_id))
        group.put(
            replace(
                before,
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topics=tuple(value.subscribed_topic_names),
                regex=value.subscribed_topic_regex,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                assignor=value.server_assignor,
                classic=value.classic_member_metadata,
            )
        )

    def _replay_target_epoch(
        self, key: ConsumerGroupTargetAssignmentMetadataKey, value: object | None
    ) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.assignment_epoch = 0
                known.target_assignment.clear()
            return
        assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
        group = self._group(key.group_id)
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp_ms = value.assignment_timestamp

    def _replay_target(self, key: ConsumerGroupTargetAssignmentMemberKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.target_assignment.pop(key.member_id, None)
            return
        assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
        self._group(key.group_id).target_assignment[key.member_id] = {
            each.topic_id: frozenset(each.partitions) for each in value.topic_partitions
        }

    def _replay_progress(self, key: ConsumerGroupCurrentMemberAssignmentKey, value: object | None) -> None:
        group = self.by_id.get(key.group_id)
        before = None if group is None else group.members.get(key.member_id)
        if value is None:
            if group is not None and before is not None:
                group.put(before.without_assignment())
            return
        assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
        self._group(key.group_id).put(
            replace(
                before or ConsumerGroupMember(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=_owned_of_wire(value.assigned_partitions, value.member_epoch),
                pending_revocation=_owned_of_wire(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    def _replay_regex(self, key: ConsumerGroupRegularExpressionKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.regexes.pop(key.regular_expression, None)
            return
        assert isinstance(value, ConsumerGroupRegularExpressionValue)
        self._group(key.group_id).regexes[key.regular_expression] = ResolvedRegularExpression(
            frozenset(value.topics), value.version, value.timestamp
        )
