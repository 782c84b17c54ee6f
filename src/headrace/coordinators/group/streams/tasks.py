"""Tasks of a streams group: what one is, and the three ways in which a member may hold them.

A task is one partition number of one subtopology. An active task reads and writes, a standby keeps a copy of
its state, and a warm-up is a standby that becomes active as soon as it has caught up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple


class TaskId(NamedTuple):
    """One partition number of one subtopology."""

    subtopology_id: str
    partition: int


Tasks = Mapping[str, frozenset[int]]
"""Partition numbers by the subtopology's id; a subtopology without any is left out."""

NO_TASKS: Final[Tasks] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TasksTuple:
    """All that a member has, or is to have (Kafka's TasksTuple)."""

    active: Tasks = field(default=NO_TASKS)
    standby: Tasks = field(default=NO_TASKS)
    warmup: Tasks = field(default=NO_TASKS)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


def task_ids(tasks: Tasks) -> Iterator[TaskId]:
    """Each of them, in order."""
    for subtopology_id in sorted(tasks):
        for partition in sorted(tasks[subtopology_id]):
            yield TaskId(subtopology_id, partition)
