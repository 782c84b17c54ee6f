"""Streams groups to records of `__consumer_offsets` and back, in the versions that Kafka 4.3 writes.

Lists inside records are sorted, so that equal states make equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.coordinators.group.streams.member import StreamsGroupMember, StreamsMemberState, UserEndpoint
from headrace.coordinators.group.streams.streams_group import INITIAL_EPOCH, StreamsGroup
from headrace.coordinators.group.streams.tasks import Tasks, TasksTuple, TasksTupleWithEpochs, TasksWithEpochs
from headrace.coordinators.group.streams.topology import StreamsTopology
from headrace.wire.schemas import streams_group_records as wire

Records = list[CoordinatorRecord]

NO_TOPOLOGY_EPOCH = -1
"""In place of an epoch: the topology cannot run."""


def group_epoch_record(
    group_id: str, *, epoch: int, metadata_hash: int, topology_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    value = wire.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=topology_epoch,
        last_assignment_configs=[wire.LastAssignmentConfig(*each) for each in sorted(configs.items())],
    )
    return CoordinatorRecord(wire.StreamsGroupMetadataKey(group_id), value)


def topology_record(group_id: str, topology: StreamsTopology) -> CoordinatorRecord:
    return CoordinatorRecord(wire.StreamsGroupTopologyKey(group_id), topology.to_record())


def member_record(group_id: str, member: StreamsGroupMember) -> CoordinatorRecord:
    endpoint = member.user_endpoint
    value = wire.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else wire.Endpoint(*endpoint),
        client_tags=[wire.KeyValue(*each) for each in sorted(member.client_tags.items())],
    )
    return CoordinatorRecord(wire.StreamsGroupMemberMetadataKey(group_id, member.id), value)


def target_assignment_record(group_id: str, member_id: str, target: TasksTuple) -> CoordinatorRecord:
    def ids(tasks: Tasks) -> list[wire.StreamsGroupTargetAssignmentMemberTaskIds]:
        return [
            wire.StreamsGroupTargetAssignmentMemberTaskIds(each, sorted(tasks[each]))
            for each in sorted(tasks)
        ]

    value = wire.StreamsGroupTargetAssignmentMemberValue(
        ids(target.active), ids(target.standby), ids(target.warmup)
    )
    return CoordinatorRecord(wire.StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def target_assignment_epoch_record(group_id: str, *, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = wire.StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return CoordinatorRecord(wire.StreamsGroupTargetAssignmentMetadataKey(group_id), value)


def current_assignment_record(group_id: str, member: StreamsGroupMember) -> CoordinatorRecord:
    assigned, pending = member.assigned, member.pending_revocation
    value = wire.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_active_to_wire(assigned.active),
        standby_tasks=_copies_to_wire(assigned.standby),
        warmup_tasks=_copies_to_wire(assigned.warmup),
        active_tasks_pending_revocation=_active_to_wire(pending.active),
        standby_tasks_pending_revocation=_copies_to_wire(pending.standby),
        warmup_tasks_pending_revocation=_copies_to_wire(pending.warmup),
    )
    return CoordinatorRecord(wire.StreamsGroupCurrentMemberAssignmentKey(group_id, member.id), value)


def member_tombstones(group_id: str, member_id: str) -> Records:
    """What takes a member out, in Kafka's order: where it is, where it should be, who it was."""
    kinds = (
        wire.StreamsGroupCurrentMemberAssignmentKey,
        wire.StreamsGroupTargetAssignmentMemberKey,
        wire.StreamsGroupMemberMetadataKey,
    )
    return [CoordinatorRecord(kind(group_id, member_id), None) for kind in kinds]


def group_tombstones(group: StreamsGroup) -> Records:
    """What takes a whole group out."""
    records = [record for member_id in group.members for record in member_tombstones(group.id, member_id)]
    kinds = (
        wire.StreamsGroupTargetAssignmentMetadataKey,
        wire.StreamsGroupMetadataKey,
        wire.StreamsGroupTopologyKey,
    )
    return records + [CoordinatorRecord(kind(group.id), None) for kind in kinds]


def _active_to_wire(tasks: TasksWithEpochs) -> list[wire.StreamsGroupCurrentMemberAssignmentTaskIds]:
    return [
        wire.StreamsGroupCurrentMemberAssignmentTaskIds(
            each, sorted(tasks[each]), [epoch for _, epoch in sorted(tasks[each].items())]
        )
        for each in sorted(tasks)
    ]


def _copies_to_wire(tasks: Tasks) -> list[wire.StreamsGroupCurrentMemberAssignmentTaskIds]:
    return [
        wire.StreamsGroupCurrentMemberAssignmentTaskIds(each, sorted(tasks[each])) for each in sorted(tasks)
    ]


def _tasks_of_wire(
    active: list[wire.StreamsGroupCurrentMemberAssignmentTaskIds],
    standby: list[wire.StreamsGroupCurrentMemberAssignmentTaskIds],
    warmup: list[wire.StreamsGroupCurrentMemberAssignmentTaskIds],
    member_epoch: int,
) -> TasksTupleWithEpochs:
    """A record without epochs for its active tasks means the member's own."""
    with_epochs: dict[str, Mapping[int, int]] = {}
    for each in active:
        epochs = each.assignment_epochs or []
        if len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        with_epochs[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return TasksTupleWithEpochs(with_epochs, _copies_of_wire(standby), _copies_of_wire(warmup))


def _copies_of_wire(
    tasks: list[wire.StreamsGroupCurrentMemberAssignmentTaskIds]
    | list[wire.StreamsGroupTargetAssignmentMemberTaskIds],
) -> dict[str, frozenset[int]]:
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks}


class StreamsGroups:
    """All streams groups of one coordinator partition, built by replay."""

    def __init__(self) -> None:
        self.by_id: dict[str, StreamsGroup] = {}

    def replay(self, key: object, value: object | None) -> bool:
        """Take a record in; False where it is of another kind."""
        if isinstance(key, wire.StreamsGroupMetadataKey):
            self._replay_group(key, value)
        elif isinstance(key, wire.StreamsGroupTopologyKey):
            self._replay_topology(key, value)
        elif isinstance(key, wire.StreamsGroupMemberMetadataKey):
            self._replay_member(key, value)
        elif isinstance(key, wire.StreamsGroupTargetAssignmentMetadataKey):
            self._replay_target_epoch(key, value)
        elif isinstance(key, wire.StreamsGroupTargetAssignmentMemberKey):
            self._replay_target(key, value)
        elif isinstance(key, wire.StreamsGroupCurrentMemberAssignmentKey):
            self._replay_progress(key, value)
        else:
            return False
        return True

    def _group(self, group_id: str) -> StreamsGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = StreamsGroup(group_id)
        return group

    def _replay_group(self, key: wire.StreamsGroupMetadataKey, value: object | None) -> None:
        if value is None:
            self.by_id.pop(key.group_id, None)
            return
        assert isinstance(value, wire.StreamsGroupMetadataValue)
        group = self._group(key.group_id)
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}

    def _replay_topology(self, key: wire.StreamsGroupTopologyKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.topology = known.configured = None
            return
        assert isinstance(value, wire.StreamsGroupTopologyValue)
        group = self._group(key.group_id)
        group.topology, group.configured = StreamsTopology.from_record(value), None

    def _replay_member(self, key: wire.StreamsGroupMemberMetadataKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.remove(key.member_id)
            return
        assert isinstance(value, wire.StreamsGroupMemberMetadataValue)
        group, endpoint = self._group(key.group_id), value.user_endpoint
        group.put(
            replace(
                group.members.get(key.member_id, StreamsGroupMember(key.member_id)),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                topology_epoch=value.topology_epoch,
                process_id=value.process_id,
                user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
                client_tags={each.key: each.value for each in value.client_tags},
            )
        )

    def _replay_target_epoch(
        self, key: wire.StreamsGroupTargetAssignmentMetadataKey, value: object | None
    ) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.assignment_epoch = INITIAL_EPOCH
                known.target_assignment.clear()
            return
        assert isinstance(value, wire.StreamsGroupTargetAssignmentMetadataValue)
        self._group(key.group_id).assignment_epoch = value.assignment_epoch

    def _replay_target(self, key: wire.StreamsGroupTargetAssignmentMemberKey, value: object | None) -> None:
        if value is None:
            if (known := self.by_id.get(key.group_id)) is not None:
                known.target_assignment.pop(key.member_id, None)
            return
        assert isinstance(value, wire.StreamsGroupTargetAssignmentMemberValue)
        self._group(key.group_id).target_assignment[key.member_id] = TasksTuple(
            _copies_of_wire(value.active_tasks),
            _copies_of_wire(value.standby_tasks),
            _copies_of_wire(value.warmup_tasks),
        )

    def _replay_progress(
        self, key: wire.StreamsGroupCurrentMemberAssignmentKey, value: object | None
    ) -> None:
        group = self.by_id.get(key.group_id)
        before = None if group is None else group.members.get(key.member_id)
        if value is None:
            if group is not None and before is not None:
                group.put(before.without_assignment())
            return
        assert isinstance(value, wire.StreamsGroupCurrentMemberAssignmentValue)
        self._group(key.group_id).put(
            replace(
                before or StreamsGroupMember(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=StreamsMemberState(value.state),
                assigned=_tasks_of_wire(
                    value.active_tasks, value.standby_tasks, value.warmup_tasks, value.member_epoch
                ),
                pending_revocation=_tasks_of_wire(
                    value.active_tasks_pending_revocation,
                    value.standby_tasks_pending_revocation,
                    value.warmup_tasks_pending_revocation,
                    value.member_epoch,
                ),
            )
        )
