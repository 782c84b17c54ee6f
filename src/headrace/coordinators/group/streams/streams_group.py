"""StreamsGroup: a group of the streams protocol (KIP-1071), changed by replay only.

Like in a consumer group, the group's epoch grows with every change of members or topics, the assignment's
follows when a target was made for it, and a member's when it has closed what its target no longer has. The
state is read off them:

    Empty        nobody is in it
    NotReady     the topology cannot run: topics are missing, or have wrong numbers of partitions
    Assigning    the group's epoch is ahead of the assignment's
    Reconciling  a member is not yet where its target is
    Stable       all are
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.streams.current_assignment import FreeTasks
from headrace.coordinators.group.streams.internal_topics import ConfiguredTopology
from headrace.coordinators.group.streams.member import StreamsGroupMember
from headrace.coordinators.group.streams.tasks import NOTHING, TaskId, Tasks, TasksTuple, task_ids
from headrace.coordinators.group.streams.topology import StreamsTopology
from headrace.wire.schemas import streams_group_describe as wire
from headrace.wire.schemas.offset_commit import MEMBER_EPOCH_SINCE

INITIAL_EPOCH: Final = 1
"""Of a group and its assignment before the first one. A member is never in epoch 0, which means to join:
while a new group waits for more members, those that are there are in this one."""


class StreamsGroupState(StrEnum):
    """Kafka's names, as its tools print them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class TaskHolders:
    """Which processes hold a task now, be it assigned or still to be closed."""

    active: dict[TaskId, str] = field(default_factory=dict)
    standby: dict[TaskId, set[str]] = field(default_factory=dict)
    warmup: dict[TaskId, set[str]] = field(default_factory=dict)

    def free_for(self, process_id: str) -> FreeTasks:
        """What a member of this process may take."""

        def is_held_as_copy(task: TaskId) -> bool:
            return process_id in self.standby.get(task, ()) or process_id in self.warmup.get(task, ())

        return FreeTasks(
            active=lambda task: task not in self.active and not is_held_as_copy(task),
            standby=lambda task: self.active.get(task) != process_id and not is_held_as_copy(task),
        )

    def add(self, member: StreamsGroupMember) -> None:
        for tasks in _held(member):
            for task in task_ids(tasks.active):
                self.active[task] = member.process_id
            for held, of in ((self.standby, tasks.standby), (self.warmup, tasks.warmup)):
                for task in task_ids(of):
                    held.setdefault(task, set()).add(member.process_id)

    def discard(self, member: StreamsGroupMember) -> None:
        for tasks in _held(member):
            for task in task_ids(tasks.active):
                if self.active.get(task) == member.process_id:
                    del self.active[task]
            for held, of in ((self.standby, tasks.standby), (self.warmup, tasks.warmup)):
                for task in task_ids(of):
                    if task in held:
                        held[task].discard(member.process_id)
                        if not held[task]:
                            del held[task]


def _held(member: StreamsGroupMember) -> tuple[TasksTuple, TasksTuple]:
    return member.assigned.without_epochs(), member.pending_revocation.without_epochs()


@dataclass(slots=True)
class StreamsGroup:
    """Members, topology and targets. The last five fields are not in the log."""

    id: str
    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    assignment_epoch: int = INITIAL_EPOCH
    topology: StreamsTopology | None = None
    members: dict[str, StreamsGroupMember] = field(default_factory=dict)
    target_assignment: dict[str, TasksTuple] = field(default_factory=dict)
    holders: TaskHolders = field(default_factory=TaskHolders)
    configured: ConfiguredTopology | None = None
    needs_metadata_refresh: bool = True  # topics may have changed since the metadata hash was made
    assigned_at_ms: int | None = None  # monotonic time of the last target made here
    shutdown_member_id: str | None = None  # who asked for all of the application to end
    endpoint_epoch: int = 0  # grows when tasks of members with endpoints have moved

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def subscribed_topics(self) -> set[str]:
        """What members read; an empty group reads nothing."""
        return set(self.topology.source_topics()) if self.members and self.topology is not None else set()

    # --- offsets ---

    def validate_offset_commit(
        self,
        *,
        member_id: str,
        epoch: int,
        api_version: int,
        partitions: Iterable[tuple[str, int]],
        transactional: bool,
    ) -> ErrorCode:
        """May this member commit for these partitions, topics by name? With an older epoch it may where the
        active task was its own already then: nobody else can have committed for it since (KIP-1251)."""
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and api_version < MEMBER_EPOCH_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return ErrorCode.NONE
        if epoch > member.epoch or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        readers = self.topology.readers()
        owned = all(
            topic in readers and member.owns_since(epoch, readers[topic], partition)
            for topic, partition in partitions
        )
        return ErrorCode.NONE if owned else ErrorCode.STALE_MEMBER_EPOCH

    def validate_offset_fetch(self, *, member_id: str | None, epoch: int) -> ErrorCode:
        """Administrators do not say who they are, and may read."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    # --- replay ---

    def put(self, member: StreamsGroupMember) -> None:
        """Set a member to what its records now say, and with it who holds what."""
        before = self.members.get(member.id)
        if before is not None:
            self.holders.discard(before)
        self.members[member.id] = member
        self.holders.add(member)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self.holders.discard(member)
        if not self.members:
            self.shutdown_member_id = None


# --- as StreamsGroupDescribe shows it ---


def as_described_group(group: StreamsGroup) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_described_topology(group),
        members=[_described_member(group, member) for member in group.members.values()],
    )


def _described_topology(group: StreamsGroup) -> wire.Topology | None:
    """With the numbers of partitions that were derived, once it can run."""
    if group.configured is not None and group.configured.is_ready:
        return group.configured.describe()
    return None if group.topology is None else group.topology.describe()


def _described_member(group: StreamsGroup, member: StreamsGroupMember) -> wire.Member:
    endpoint = member.user_endpoint
    return wire.Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else wire.Endpoint(*endpoint),
        client_tags=[wire.KeyValue(key, value) for key, value in member.client_tags.items()],
        assignment=_described_tasks(member.assigned.without_epochs()),
        target_assignment=_described_tasks(group.target_assignment.get(member.id, NOTHING)),
    )


def _described_tasks(tasks: TasksTuple) -> wire.Assignment:
    def ids(of: Tasks) -> list[wire.TaskIds]:
        return [wire.TaskIds(each, sorted(of[each])) for each in sorted(of)]

    return wire.Assignment(ids(tasks.active), ids(tasks.standby), ids(tasks.warmup))
