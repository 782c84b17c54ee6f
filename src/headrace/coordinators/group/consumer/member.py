"""ConsumerGroupMember: a member of a consumer group, as its records describe it.

A member is a value: a heartbeat makes a new one, and the difference between the two is what is written. Its
partitions carry the epoch in which it was given them, so that an offset committed with an older epoch can
still be taken for a partition that never moved (KIP-1251).

    STABLE ── its target shrank ──► UNREVOKED ── the client revoked ─┐
      ▲  └─── its target grew, but others still hold it ──►          ▼
      └───────────── all of its target is free ◄───────────── UNRELEASED
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.consumer_group_records import ClassicMemberMetadata

JOIN_GROUP_MEMBER_EPOCH: Final = 0
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2
"""Member epochs with a meaning of their own; a static member that left keeps the last one in its record."""

PartitionId = tuple[bytes, int]
"""A partition: its topic's id and its number."""

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""

PartitionsWithEpochs = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which its owner was given it."""


class MemberState(IntEnum):
    """How far a member is with its target, with the numbers of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        """A state that a newer broker wrote down: the next heartbeats say how far the member is."""
        return cls.STABLE


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
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
    epoch: int = JOIN_GROUP_MEMBER_EPOCH
    previous_epoch: int = JOIN_GROUP_MEMBER_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionsWithEpochs = field(default_factory=dict)
    pending_revocation: PartitionsWithEpochs = field(default_factory=dict)

    def has_same_metadata(self, other: "ConsumerGroupMember") -> bool:
        """Whether both subscribe and describe themselves alike: what MemberMetadata records hold."""
        return _metadata(self) == _metadata(other)

    def has_same_assignment(self, other: "ConsumerGroupMember") -> bool:
        """Whether both have the same epochs, state and partitions: what CurrentMemberAssignment holds."""
        return _current_assignment(self) == _current_assignment(other)

    def has_same_subscription(self, other: "ConsumerGroupMember") -> bool:
        return set(self.topics) == set(other.topics) and (self.regex or "") == (other.regex or "")

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def without_assignment(self) -> "ConsumerGroupMember":
        """The member as one that has joined and was given nothing yet."""
        return replace(
            self,
            epoch=JOIN_GROUP_MEMBER_EPOCH,
            previous_epoch=JOIN_GROUP_MEMBER_EPOCH,
            state=MemberState.STABLE,
            assigned={},
            pending_revocation={},
        )

    def is_assigned(self, topic_id: bytes, partition: int) -> bool:
        return partition in self.assigned.get(topic_id, ())

    def owns_since(self, epoch: int, partition: PartitionId) -> bool:
        """Whether it was given the partition in this epoch or before, and has not revoked it."""
        topic_id, index = partition
        given = self.assigned.get(topic_id, {}).get(index)
        if given is None:
            given = self.pending_revocation.get(topic_id, {}).get(index)
        return given is not None and given <= epoch

    def validate_epoch(self, epoch: int) -> ErrorCode:
        """For offsets: a member commits and fetches with its own epoch."""
        if epoch == self.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if self.classic is None else ErrorCode.ILLEGAL_GENERATION


def _metadata(member: ConsumerGroupMember) -> tuple[object, ...]:
    return (
        *(member.instance_id, member.rack_id, member.client_id, member.client_host, member.topics),
        *(member.regex, member.rebalance_timeout_ms, member.assignor, member.classic),
    )


def _current_assignment(member: ConsumerGroupMember) -> tuple[object, ...]:
    return (member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation)
