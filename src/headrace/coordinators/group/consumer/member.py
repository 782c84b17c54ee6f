"""A member of a consumer group, as its records describe it.

A member is a value: a heartbeat makes a new one, and the difference between the two is what is written. Its
partitions carry the epoch in which it was given them, so that an offset committed with an older epoch can
still be taken for a partition that never moved (KIP-1251).

    STABLE ── its target shrank ──► UNREVOKED ── the client let go ──┐
      ▲  └─── its target grew, but others still hold it ──►          ▼
      └───────────── all of its target is free ◄───────────── UNRELEASED
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from headrace.wire.schemas.consumer_group_records import ClassicMemberMetadata

JOINING: Final = 0
LEAVING: Final = -1
STATIC_LEAVING: Final = -2
"""Member epochs with a meaning of their own; a static member that left keeps the last one in its record."""

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""

Owned = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which its owner was given it."""


class MemberState(IntEnum):
    """How far a member is with its target. The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        """A state that a newer broker wrote down: the next heartbeats say how far the member is."""
        return cls.STABLE


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """What a member said of itself, and how far it is. `classic` marks one of the classic protocol."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: int = JOINING
    previous_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    def described_as(self, other: "ConsumerMember") -> bool:
        """Whether both describe themselves alike: what MemberMetadata records hold."""
        return _description(self) == _description(other)

    def is_as_far_as(self, other: "ConsumerMember") -> bool:
        """Whether both are equally far: what CurrentMemberAssignment records hold."""
        return _progress(self) == _progress(other)

    def subscribes_like(self, other: "ConsumerMember") -> bool:
        return set(self.topics) == set(other.topics) and (self.regex or "") == (other.regex or "")

    def is_settled_at(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def without_progress(self) -> "ConsumerMember":
        """The member as one that has joined and was given nothing yet."""
        return replace(
            self,
            epoch=JOINING,
            previous_epoch=JOINING,
            state=MemberState.STABLE,
            assigned={},
            revoking={},
        )

    def holds(self, topic_id: bytes, partition: int) -> bool:
        return partition in self.assigned.get(topic_id, ())


def _description(member: ConsumerMember) -> tuple[object, ...]:
    return (
        *(member.instance_id, member.rack_id, member.client_id, member.client_host, member.topics),
        *(member.regex, member.rebalance_timeout_ms, member.assignor, member.classic),
    )


def _progress(member: ConsumerMember) -> tuple[object, ...]:
    return (member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking)
