"""The sticky task assignor of streams groups: who runs which task, and who keeps copies of its state.

A member is a thread of a process. Active tasks are spread so that no member has two more than another.
Within that a task stays where it is; else it goes to who has a standby of it, so that state need not be
restored; else to the member with the fewest, in the less loaded process among equals. Standbys follow, for
subtopologies with state: never in a process that has the task already, first where the task or a standby of
it was before, then in the least loaded process. Members are filled up to a quota, which only as many as
necessary may exceed by one.

Kafka's assignor has the same rules. It looks at processes before members in the last step, so that an
uneven number of threads can leave one of them with two tasks fewer than another; and equal choices are
made by name here, so that equal questions have equal answers.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.coordinators.group.streams.internal_topics import ConfiguredTopology
from headrace.coordinators.group.streams.tasks import TaskId, Tasks, TasksTuple, task_ids


@dataclass(frozen=True, slots=True)
class AssignmentMemberSpec:
    """A member as the assignor sees it. `target` is its target assignment so far."""

    process_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    target: TasksTuple = field(default_factory=TasksTuple)
    task_offsets: Mapping[TaskId, int] = field(default_factory=dict)
    task_end_offsets: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamsGroupSpec:
    """The members by their ids, and how many standbys each task with state is to have."""

    members: Mapping[str, AssignmentMemberSpec]
    num_standby_replicas: int = 0


def assign(spec: StreamsGroupSpec, topology: ConfiguredTopology) -> dict[str, TasksTuple]:
    """What each member is to have. The topology must be ready: its subtopologies say how many tasks there
    are."""
    assert topology.subtopologies is not None, "only a configured topology has tasks"
    if not spec.members:
        return {}
    active, stateful = [], []
    for subtopology_id, subtopology in topology.subtopologies.items():
        tasks = [TaskId(subtopology_id, partition) for partition in range(subtopology.number_of_tasks)]
        active += tasks
        if subtopology.is_stateful and spec.num_standby_replicas:
            stateful += tasks
    loads = _Loads(spec.members)
    previous = _Previous(spec.members)
    _assign_active(active, previous, loads)
    # No more standbys than there are other processes: a quota for others would be met by nobody.
    replicas = min(spec.num_standby_replicas, len(loads.members_of) - 1)
    if replicas:
        _assign_standbys(stateful, replicas, previous, loads)
    return {
        member_id: TasksTuple(
            _by_subtopology(loads.active[member_id]), _by_subtopology(loads.standby[member_id])
        )
        for member_id in spec.members
    }


class _Previous:
    """Who had a task so far."""

    def __init__(self, members: Mapping[str, AssignmentMemberSpec]) -> None:
        self.active: Final[dict[TaskId, str]] = {}
        self.standby: Final[defaultdict[TaskId, list[str]]] = defaultdict(list)
        for member_id, member in sorted(members.items()):
            for task in task_ids(member.target.active):
                self.active[task] = member_id
            for task in task_ids(member.target.standby):
                self.standby[task].append(member_id)


class _Loads:
    """What each member and each process has been given so far."""

    def __init__(self, members: Mapping[str, AssignmentMemberSpec]) -> None:
        self.process_of: Final = {member_id: members[member_id].process_id for member_id in sorted(members)}
        self.members_of: Final[defaultdict[str, list[str]]] = defaultdict(list)
        for member_id, process_id in self.process_of.items():
            self.members_of[process_id].append(member_id)
        self.active: Final[dict[str, list[TaskId]]] = {member_id: [] for member_id in members}
        self.standby: Final[dict[str, list[TaskId]]] = {member_id: [] for member_id in members}
        self.of_member: Final = dict.fromkeys(members, 0)
        self.of_process: Final = dict.fromkeys(self.members_of, 0)
        self._in_process: Final = {process_id: set[TaskId]() for process_id in self.members_of}

    def has(self, member_id: str, task: TaskId) -> bool:
        """Whether the member's process has the task already, in whatever way."""
        return task in self._in_process[self.process_of[member_id]]

    def process_has(self, process_id: str, task: TaskId) -> bool:
        return task in self._in_process[process_id]

    def add(self, member_id: str, task: TaskId, given: dict[str, list[TaskId]]) -> None:
        process_id = self.process_of[member_id]
        given[member_id].append(task)
        self._in_process[process_id].add(task)
        self.of_member[member_id] += 1
        self.of_process[process_id] += 1

    def share(self, process_id: str) -> float:
        """Tasks a thread of this process."""
        return self.of_process[process_id] / len(self.members_of[process_id])

    def by_member(self, member_id: str) -> tuple[int, float, str]:
        return (self.of_member[member_id], self.share(self.process_of[member_id]), member_id)

    def by_process(self, process_id: str) -> tuple[float, str]:
        return (self.share(process_id), process_id)

    def least_in(self, process_id: str) -> str:
        return min(self.members_of[process_id], key=lambda each: (self.of_member[each], each))


class _Quota:
    """How many tasks a member may have: the average, rounded up until so many have that as must."""

    def __init__(self, tasks: int, members: int) -> None:
        self._average, self._extras = divmod(tasks, members)

    def allows(self, load: int) -> bool:
        """Whether a member with this many tasks may get one more."""
        return load < self._average + (self._extras > 0)

    def take(self, load: int) -> None:
        """A member has come to this load."""
        if load == self._average + 1 and self._extras > 0:
            self._extras -= 1


def _assign_active(tasks: Iterable[TaskId], previous: _Previous, loads: _Loads) -> None:
    rest = sorted(tasks, key=lambda task: (task.partition, task.subtopology_id))
    quota = _Quota(len(rest), len(loads.process_of))
    rest = [task for task in rest if not _give_back(task, _had_active(previous, task), quota, loads)]
    rest = [task for task in rest if not _give_back(task, previous.standby.get(task, ()), quota, loads)]
    # By subtopology, so that neighbours of one subtopology go to different members.
    lightest = [loads.by_member(member_id) for member_id in loads.process_of]
    heapq.heapify(lightest)
    for task in sorted(rest):
        member_id = _lightest_member(lightest, loads)
        loads.add(member_id, task, loads.active)
        heapq.heappush(lightest, loads.by_member(member_id))


def _had_active(previous: _Previous, task: TaskId) -> tuple[str, ...]:
    member_id = previous.active.get(task)
    return () if member_id is None else (member_id,)


def _give_back(task: TaskId, holders: Iterable[str], quota: _Quota, loads: _Loads) -> bool:
    """The task goes to the one with least of those who had it, if there is room under the quota."""
    member_id = min(holders, key=loads.by_member, default=None)
    if member_id is None or not quota.allows(loads.of_member[member_id]):
        return False
    loads.add(member_id, task, loads.active)
    quota.take(loads.of_member[member_id])
    return True


def _lightest_member(lightest: list[tuple[int, float, str]], loads: _Loads) -> str:
    """The share of a process changes with each task of its other members: entries are put right when met."""
    while True:
        entry = heapq.heappop(lightest)
        now = loads.by_member(entry[2])
        if now == entry:
            return entry[2]
        heapq.heappush(lightest, now)


def _assign_standbys(tasks: list[TaskId], replicas: int, previous: _Previous, loads: _Loads) -> None:
    total = sum(loads.of_member.values()) + len(tasks) * replicas
    quota = _Quota(total, len(loads.process_of))
    for load in loads.of_member.values():
        quota.take(load)
    rest: list[TaskId] = []
    for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
        missing = replicas
        for member_id in _held(previous, task, loads):
            if missing and not loads.has(member_id, task) and quota.allows(loads.of_member[member_id]):
                loads.add(member_id, task, loads.standby)
                quota.take(loads.of_member[member_id])
                missing -= 1
        rest += [task] * missing
    lightest = [loads.by_process(process_id) for process_id in loads.members_of]
    heapq.heapify(lightest)
    for task in sorted(rest, reverse=True):
        process_id = _lightest_without(task, lightest, loads)
        loads.add(loads.least_in(process_id), task, loads.standby)
        heapq.heappush(lightest, loads.by_process(process_id))


def _held(previous: _Previous, task: TaskId, loads: _Loads) -> Iterator[str]:
    """Who has state of the task: who ran it, then standbys, the less loaded first."""
    yield from _had_active(previous, task)
    yield from sorted(previous.standby.get(task, ()), key=loads.by_member)


def _lightest_without(task: TaskId, lightest: list[tuple[float, str]], loads: _Loads) -> str:
    """Takes the least loaded process without this task off the heap; there is one, by the number of
    replicas."""
    passed = []
    while loads.process_has(lightest[0][1], task):
        passed.append(heapq.heappop(lightest))
    _, process_id = heapq.heappop(lightest)
    for entry in passed:
        heapq.heappush(lightest, entry)
    return process_id


def _by_subtopology(tasks: Iterable[TaskId]) -> Tasks:
    partitions: defaultdict[str, set[int]] = defaultdict(set)
    for task in tasks:
        partitions[task.subtopology_id].add(task.partition)
    return {subtopology_id: frozenset(partitions[subtopology_id]) for subtopology_id in sorted(partitions)}
