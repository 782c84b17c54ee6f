"""Tasks of a streams group: what one is, and the three ways in which a member may hold them.

A task is one partition number of one subtopology. An active task reads and writes, a standby keeps a copy of
its state, and a warm-up is a standby that becomes active as soon as it has caught up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class TaskId(NamedTuple):
    """One partition number of one subtopology."""

    subtopology_id: str
    partition: int


Tasks = Mapping[str, frozenset[int]]
"""Partition numbers by the subtopology's id; a subtopology without any is left out."""


@dataclass(frozen=True, slots=True)
class TasksTuple:
    """All that a member has, or is to have (Kafka's TasksTuple)."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


def task_ids(tasks: Tasks) -> Iterator[TaskId]:
    """Each of them, in order."""
    for subtopology_id in sorted(tasks):
        for partition in sorted(tasks[subtopology_id]):
            yield TaskId(subtopology_id, partition)


TasksWithEpochs = Mapping[str, Mapping[int, int]]
"""The same, each partition number with the epoch in which its owner was given it."""


@dataclass(frozen=True, slots=True)
class TasksTupleWithEpochs:
    """What a member has now (Kafka's TasksTupleWithEpochs). Only active tasks have epochs: offsets are
    committed for them."""

    active: TasksWithEpochs = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def without_epochs(self) -> TasksTuple:
        active = {subtopology_id: frozenset(epochs) for subtopology_id, epochs in self.active.items()}
        return TasksTuple(active, self.standby, self.warmup)


NOTHING: Final = TasksTuple()


def have_common(one: TasksTuple, other: TasksTuple) -> bool:
    """Whether a task is in both, held in the same way."""
    return any(
        not mine.get(subtopology_id, frozenset()).isdisjoint(partitions)
        for mine, theirs in (
            (one.active, other.active),
            (one.standby, other.standby),
            (one.warmup, other.warmup),
        )
        for subtopology_id, partitions in theirs.items()
    )
