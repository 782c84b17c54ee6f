"""StreamsGroupUpdate: what a heartbeat makes of a streams group, step by step, as records.

Each step reads the group and what the steps before it decided, and adds records. Nothing here changes a
group: that is for replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.group.consumer.subscription import metadata_hash
from headrace.coordinators.group.streams.assignor import AssignmentMemberSpec, StreamsGroupSpec, assign
from headrace.coordinators.group.streams.current_assignment import reconcile
from headrace.coordinators.group.streams.internal_topics import (
    PartitionCount,
    configure_topics,
)
from headrace.coordinators.group.streams.member import StreamsGroupMember
from headrace.coordinators.group.streams.records import (
    NO_TOPOLOGY_EPOCH,
    Records,
    current_assignment_record,
    group_epoch_record,
    member_record,
    member_tombstones,
    target_assignment_epoch_record,
    target_assignment_record,
    topology_record,
)
from headrace.coordinators.group.streams.streams_group import StreamsGroup
from headrace.coordinators.group.streams.streams_group_config import NUM_STANDBY_REPLICAS
from headrace.coordinators.group.streams.tasks import NOTHING, TasksTuple
from headrace.coordinators.group.streams.topology import StreamsTopology
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.streams_group_heartbeat import Topology


class StreamsGroupUpdate:
    """A group as the records so far will make it."""

    def __init__(self, group: StreamsGroup, image: MetadataImage) -> None:
        self.group: Final = group
        self.records: Records = []
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self.topology = group.topology
        self.configured = group.configured
        self.target = dict(group.target_assignment)
        self.members = dict(group.members)
        self._image = image
        self._is_changed = False

    def put_member(self, known: StreamsGroupMember | None, member: StreamsGroupMember) -> None:
        """Put the member in as it now describes itself: whatever is new in that is a new group epoch."""
        self.members[member.id] = member
        if known != member:
            self.records.append(member_record(self.group.id, member))
            self._is_changed = True

    def put_topology(self, sent: Topology | None) -> None:
        """The first member's topology is the group's; an older one is stale, any other refused."""
        if sent is None:
            return
        topology = StreamsTopology.from_request(sent)
        if self.topology is None:
            self.topology = topology
            self.records.append(topology_record(self.group.id, topology))
        elif self.topology.epoch <= topology.epoch and self.topology != topology:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")

    def configure(self, partition_count: PartitionCount) -> int:
        """Look at the topics again where they may have changed; their hash."""
        group = self.group
        assert self.topology is not None, "the first member brings a topology"
        if self.configured is not None and not group.needs_metadata_refresh:
            return group.metadata_hash
        seen = metadata_hash(self._image, self.topology.required_topics())
        if seen != group.metadata_hash:
            self._is_changed = True
            self.configured = None
        if self.configured is None:
            self.configured = configure_topics(self.topology, partition_count)
        return seen

    def maybe_bump_epoch(self, seen: int, configs: Mapping[str, str]) -> None:
        """A new group epoch where members, topics, or what the assignor follows have changed."""
        group = self.group
        assert self.configured is not None
        topology_epoch = self.configured.epoch if self.configured.is_ready else NO_TOPOLOGY_EPOCH
        is_changed = self._is_changed or topology_epoch != group.validated_topology_epoch
        if is_changed or configs != group.assignment_configs:
            self._bump_epoch(seen, topology_epoch, configs)

    def remove_member(self, member_id: str) -> None:
        """Take a member out; whoever sends the next heartbeat makes the target for those who are left."""
        group = self.group
        del self.members[member_id]
        self.records += member_tombstones(group.id, member_id)
        self._bump_epoch(group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)

    def _bump_epoch(self, seen: int, topology_epoch: int, configs: Mapping[str, str]) -> None:
        self.epoch += 1
        self.records.append(
            group_epoch_record(
                self.group.id,
                epoch=self.epoch,
                metadata_hash=seen,
                topology_epoch=topology_epoch,
                configs=configs,
            )
        )

    @property
    def must_assign(self) -> bool:
        return self.epoch > self.assignment_epoch

    def assign(self, configs: Mapping[str, str], *, wall_ms: int) -> None:
        """Make the target assignment of the group's epoch, and write what is different in it. A topology that
        cannot run has tasks for nobody."""
        assert self.configured is not None
        group_id = self.group.id
        target = dict.fromkeys(self.members, NOTHING)
        if self.configured.is_ready:
            target = assign(self._spec(configs), self.configured)
        for member_id, tasks in target.items():
            if self.target.get(member_id) != tasks:
                self.records.append(target_assignment_record(group_id, member_id, tasks))
        self.target = target
        self.assignment_epoch = self.epoch
        self.records.append(target_assignment_epoch_record(group_id, epoch=self.epoch, timestamp_ms=wall_ms))

    def _spec(self, configs: Mapping[str, str]) -> StreamsGroupSpec:
        members = {
            member.id: AssignmentMemberSpec(
                member.process_id,
                member.instance_id,
                member.rack_id,
                member.client_tags,
                self.target.get(member.id, NOTHING),
            )
            for member in self.members.values()
        }
        return StreamsGroupSpec(members, int(configs.get(NUM_STANDBY_REPLICAS, 0)))

    def reconcile(
        self, member_id: str, owned: TasksTuple | None, *, target: TasksTuple | None = None
    ) -> StreamsGroupMember:
        """Take the member one step towards its target, or towards another one."""
        member = self.members[member_id]
        after = reconcile(
            member,
            target_epoch=self.assignment_epoch,
            target=self.target.get(member_id, NOTHING) if target is None else target,
            free=self.group.holders.free_for(member.process_id),
            owned=owned,
        )
        if after != member:
            self.records.append(current_assignment_record(self.group.id, after))
            self.members[member_id] = after
        return after

    def note(self, group: StreamsGroup) -> None:
        """Set what the log does not hold, once the records are replayed into the group."""
        group.configured = self.configured
        group.needs_metadata_refresh = False
