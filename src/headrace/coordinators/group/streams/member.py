"""StreamsGroupMember: a member of a streams group, as its records describe it.

A member is a thread of a process that runs a topology. It is a value: a heartbeat makes a new one, and the
difference between the two is what is written.

    STABLE ── its target shrank ──► UNREVOKED ── the client closed them ─┐
      ▲  └─── its target grew, but others still hold it ──►              ▼
      └───────────────── all of its target is free ◄──────────────── UNRELEASED
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.coordinators.group.streams.tasks import TasksTupleWithEpochs

JOIN_GROUP_MEMBER_EPOCH: Final = 0
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2


class StreamsMemberState(IntEnum):
    """How far a member is with its target, with the numbers of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> StreamsMemberState:
        """A state that a newer broker wrote down: such a member has to join again."""
        return cls.UNKNOWN


class UserEndpoint(NamedTuple):
    """Where a process answers questions about its state (`application.server`)."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsGroupMember:
    """What a member said of itself, and how far it is."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = JOIN_GROUP_MEMBER_EPOCH
    previous_epoch: int = JOIN_GROUP_MEMBER_EPOCH
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: TasksTupleWithEpochs = field(default_factory=TasksTupleWithEpochs)
    pending_revocation: TasksTupleWithEpochs = field(default_factory=TasksTupleWithEpochs)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def without_assignment(self) -> StreamsGroupMember:
        """The member as one that has joined and was given nothing yet."""
        return replace(
            self,
            epoch=JOIN_GROUP_MEMBER_EPOCH,
            previous_epoch=JOIN_GROUP_MEMBER_EPOCH,
            state=StreamsMemberState.STABLE,
            assigned=TasksTupleWithEpochs(),
            pending_revocation=TasksTupleWithEpochs(),
        )

    def owns_since(self, epoch: int, subtopology_id: str, partition: int) -> bool:
        """Whether it was given the active task in this epoch or before, and has not closed it."""
        given = self.assigned.active.get(subtopology_id, {}).get(partition)
        if given is None:
            given = self.pending_revocation.active.get(subtopology_id, {}).get(partition)
        return given is not None and given <= epoch
