"""A group under the classic protocol (JoinGroup, SyncGroup, Heartbeat): its members and what can be asked
of them.

The group is data with questions; `classic_protocol` holds the moves. Its states are a table:

    Empty ── a member joins ──► PreparingRebalance ── all joined, or time is up ──► CompletingRebalance
      ▲                           │         ▲                                                │
      └───────── nobody left ─────┘         └── one joins, leaves or dies ── Stable ◄────────┘
                                                          the leader's assignment is written
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.join_group import JoinGroupResponse
from headrace.wire.schemas.sync_group import SyncGroupResponse


class GroupState(StrEnum):
    """Kafka's names, as its tools print them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


GROUP_MOVES: Final = {
    GroupState.EMPTY: {GroupState.PREPARING, GroupState.DEAD},
    GroupState.PREPARING: {GroupState.COMPLETING, GroupState.EMPTY, GroupState.DEAD},
    GroupState.COMPLETING: {GroupState.STABLE, GroupState.PREPARING, GroupState.DEAD},
    GroupState.STABLE: {GroupState.PREPARING, GroupState.DEAD},
    GroupState.DEAD: set[GroupState](),
}

Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True)
class Member:
    """One member. `joining` and `syncing` answer a request that waits for the others, `beating` a heartbeat
    that waits for news. A member that is `kept` has joined a generation and not been told of it: see
    `second_rounds`.
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joining: Callable[[JoinGroupResponse], None] | None = None
    syncing: Callable[[SyncGroupResponse], None] | None = None
    kept: Callable[[JoinGroupResponse], None] | None = None
    knows: int | None = None  # its generation, where it has not been told of the group's
    beating: Callable[[ErrorCode], None] | None = None
    is_patient: bool = True  # it has not yet broken a connection on which a heartbeat was held
    beat_ms: int = 0  # when its last heartbeat came, repeated ones not counted
    assured_ms: int = 0  # when it joined, or a held heartbeat was last answered without an error
    repeats: int | None = None  # the generation of a heartbeat that it was asked to send again

    def tell(self, error: ErrorCode) -> None:
        """Answer the heartbeat that waits, if one does."""
        beating, self.beating = self.beating, None
        if beating is not None:
            beating(error)

    @property
    def waits_for_others(self) -> bool:
        return not (self.joining is None and self.syncing is None and self.kept is None)

    def metadata_for(self, protocol: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """The first protocol of this member's list that everyone supports."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class ClassicGroup:
    """A group's members, its generation and its current protocol."""

    id: str
    state: GroupState = GroupState.EMPTY
    persisted_ms: int = 0  # wall time of its last record: since when it is empty, if it is
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_ids: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    givers: set[str] = field(default_factory=set)  # who will begin a second round: see `second_rounds`
    pending_givers: set[str] = field(default_factory=set)  # those of them who have not asked for a share yet
    first_until_ms: int = 0  # when an empty group stops waiting for more members, at the latest

    def move(self, state: GroupState) -> None:
        assert state in GROUP_MOVES[self.state], f"{self.id}: {self.state} cannot become {state}"
        self.state = state

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    def add(self, member: Member) -> None:
        if not self.members:
            self.leader_id = None
        if self.leader_id is None:
            self.leader_id = member.id
        self.members[member.id] = member
        self.pending_ids.discard(member.id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id

    def remove(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        self.pending_ids.discard(member_id)
        self.pending_sync.discard(member_id)
        self.givers.discard(member_id)
        self.pending_givers.discard(member_id)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, member: Member, new_id: str) -> None:
        """A static member came back under a new id: the same seat, the old id fenced."""
        assert member.instance_id is not None
        del self.members[member.id]
        was_leader = self.leader_id == member.id
        self.pending_sync.discard(member.id)
        self.givers.discard(member.id)
        self.pending_givers.discard(member.id)
        member.id = new_id
        self.members[new_id] = member
        self.static_members[member.instance_id] = new_id
        if was_leader:
            self.leader_id = new_id

    def forget_givers(self) -> None:
        """The second round has begun, or is not waited for any more."""
        self.givers.clear()
        self.pending_givers.clear()

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def all_joined(self) -> bool:
        return not self.pending_ids and all(member.joining is not None for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def common_protocols(self) -> set[str]:
        counts = Counter(name for member in self.members.values() for name, _ in member.protocols)
        return {name for name, votes in counts.items() if votes == len(self.members)}

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols fits the members there are."""
        if not protocol_type or not protocols:
            return False
        if self.is_in(GroupState.EMPTY) or not self.members:
            return True
        return self.protocol_type == protocol_type and bool(
            self.common_protocols() & {name for name, _ in protocols}
        )

    def choose_protocol(self) -> str:
        """Each member votes for its first common protocol; the most votes win."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def is_generation_of(self, member_id: str, generation: int) -> bool:
        """Whether this is the generation that the member is in, as far as it can know."""
        member = self.members[member_id]
        return generation == (self.generation if member.knows is None else member.knows)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Is this who it says it is? A static member's seat belongs to its newest id (KIP-345)."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if owner == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID
