"""ClassicGroup: a group of the classic protocol, its members, its record in the log, and the replies it
makes.

It decides nothing: ClassicGroupManager and ClassicGroupRebalance move it through its states.

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
from headrace.base.errors import InvalidBytesError
from headrace.coordinators.coordinator_shard import CoordinatorRecord
from headrace.wire.record_frames import decode_versioned
from headrace.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from headrace.wire.schemas.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from headrace.wire.schemas.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.schemas.sync_group import SyncGroupResponse


class ClassicGroupState(StrEnum):
    """Kafka's names, as its tools print them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_TRANSITIONS: Final = {
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING, ClassicGroupState.DEAD},
    ClassicGroupState.PREPARING: {
        ClassicGroupState.COMPLETING,
        ClassicGroupState.EMPTY,
        ClassicGroupState.DEAD,
    },
    ClassicGroupState.COMPLETING: {
        ClassicGroupState.STABLE,
        ClassicGroupState.PREPARING,
        ClassicGroupState.DEAD,
    },
    ClassicGroupState.STABLE: {ClassicGroupState.PREPARING, ClassicGroupState.DEAD},
    ClassicGroupState.DEAD: set[ClassicGroupState](),
}

Protocols = tuple[tuple[str, bytes], ...]
Assignments = dict[str, bytes]

GROUP_METADATA_VERSION: Final = 3
NO_GENERATION: Final = -1


@dataclass(slots=True)
class ClassicGroupMember:
    """One member. `awaiting_join` and `awaiting_sync` answer a request that waits for the other members,
    `held_heartbeat` a heartbeat that waits for news. A member with a `held_join` has joined a generation and
    was not told of it: see `cooperative_rebalance`.
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
    awaiting_join: Callable[[JoinGroupResponse], None] | None = None
    awaiting_sync: Callable[[SyncGroupResponse], None] | None = None
    held_join: Callable[[JoinGroupResponse], None] | None = None
    known_generation: int | None = None  # its generation, where it has not been told of the group's
    held_heartbeat: Callable[[ErrorCode], None] | None = None
    may_hold_heartbeats: bool = True  # it has not yet broken a connection on which a heartbeat was held
    heartbeat_ms: int = 0  # when its last heartbeat came, repeated ones not counted
    good_answer_ms: int = 0  # when it joined, or a held heartbeat was last answered without an error
    repeats_generation: int | None = None  # the generation of a heartbeat that it was asked to send again

    def answer_heartbeat(self, error: ErrorCode) -> None:
        """Answer the heartbeat that waits, if one does."""
        held_heartbeat, self.held_heartbeat = self.held_heartbeat, None
        if held_heartbeat is not None:
            held_heartbeat(error)

    @property
    def is_awaiting(self) -> bool:
        return not (self.awaiting_join is None and self.awaiting_sync is None and self.held_join is None)

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
    state: ClassicGroupState = ClassicGroupState.EMPTY
    current_state_timestamp_ms: int = 0  # wall time of its last record: since when it is empty, if it is
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_join_members: set[str] = field(default_factory=set)
    pending_sync_members: set[str] = field(default_factory=set)
    # Those that revoke something and begin a second round (`cooperative_rebalance`), and those of them that
    # have not sent SyncGroup yet.
    revoking_members: set[str] = field(default_factory=set)
    pending_revoking_members: set[str] = field(default_factory=set)
    initial_rebalance_end_ms: int = 0  # when an empty group stops waiting for more members, at the latest

    def transition_to(self, state: ClassicGroupState) -> None:
        assert state in VALID_TRANSITIONS[self.state], f"{self.id}: {self.state} cannot become {state}"
        self.state = state

    def is_in(self, *states: ClassicGroupState) -> bool:
        return self.state in states

    def add(self, member: ClassicGroupMember) -> None:
        if not self.members:
            self.leader_id = None
        if self.leader_id is None:
            self.leader_id = member.id
        self.members[member.id] = member
        self.pending_join_members.discard(member.id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        member = self.members.pop(member_id, None)
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        self.revoking_members.discard(member_id)
        self.pending_revoking_members.discard(member_id)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, member: ClassicGroupMember, new_id: str) -> None:
        """A static member came back under a new id: it has what it had, and the old id is fenced."""
        assert member.instance_id is not None
        del self.members[member.id]
        was_leader = self.leader_id == member.id
        self.pending_sync_members.discard(member.id)
        self.revoking_members.discard(member.id)
        self.pending_revoking_members.discard(member.id)
        member.id = new_id
        self.members[new_id] = member
        self.static_members[member.instance_id] = new_id
        if was_leader:
            self.leader_id = new_id

    def clear_revoking_members(self) -> None:
        """The second round has begun, or is not waited for any more."""
        self.revoking_members.clear()
        self.pending_revoking_members.clear()

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def has_all_members_joined(self) -> bool:
        return not self.pending_join_members and all(
            member.awaiting_join is not None for member in self.members.values()
        )

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def candidate_protocols(self) -> set[str]:
        counts = Counter(name for member in self.members.values() for name, _ in member.protocols)
        return {name for name, votes in counts.items() if votes == len(self.members)}

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols fits the members there are."""
        if not protocol_type or not protocols:
            return False
        if self.is_in(ClassicGroupState.EMPTY) or not self.members:
            return True
        return self.protocol_type == protocol_type and bool(
            self.candidate_protocols() & {name for name, _ in protocols}
        )

    def select_protocol(self) -> str:
        """Each member votes for its first common protocol; the most votes win."""
        candidates = self.candidate_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def is_generation_of(self, member_id: str, generation: int) -> bool:
        """Whether this is the generation that the member is in, as far as it can know."""
        member = self.members[member_id]
        return generation == (self.generation if member.known_generation is None else member.known_generation)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether the member is known, and the newest one of its instance id (KIP-345)."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if owner == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID


# --- its record in `__consumer_offsets`, in the version that Kafka 4.3 writes ---


def group_metadata_record(group: ClassicGroup, assignments: Assignments, *, now_ms: int) -> CoordinatorRecord:
    """A group as it is, with the assignments that its members are about to get."""
    protocol = group.protocol or ""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader_id,
        current_state_timestamp=now_ms,
        members=[_member_metadata(member, protocol, assignments) for member in group.members.values()],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.id), value, GROUP_METADATA_VERSION)


def group_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def _member_metadata(member: ClassicGroupMember, protocol: str, assignments: Assignments) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata_for(protocol),
        assignment=assignments.get(member.id, b""),
    )


def classic_group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record of the log describes."""
    group = ClassicGroup(
        group_id,
        state=ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
        current_state_timestamp_ms=max(value.current_state_timestamp, 0),
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
    )
    for each in value.members:
        group.add(
            ClassicGroupMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout if each.rebalance_timeout >= 0 else each.session_timeout,
                each.session_timeout,
                ((value.protocol or "", each.subscription),),
                assignment=each.assignment,
            )
        )
    group.leader_id = value.leader
    return group


# --- its replies ---


@dataclass(frozen=True, slots=True)
class JoinFeatures:
    """What the version of a JoinGroup request can do."""

    member_id_required: bool  # v4, KIP-394
    can_skip_assignment: bool  # v9, KIP-814


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, member_id=member_id, generation_id=NO_GENERATION, protocol_name=None, leader=""
    )


def join_reply(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupResponse:
    """Only the leader is told who the members are and what they subscribe to."""
    protocol = group.protocol or ""
    members = []
    if group.is_leader(member.id):
        members = [
            JoinGroupResponseMember(each.id, each.instance_id, each.metadata_for(protocol))
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=group.leader_id or "",
        member_id=member.id,
        members=members,
    )


def static_member_join_reply(
    group: ClassicGroup, member: ClassicGroupMember, old_id: str, features: JoinFeatures
) -> JoinGroupResponse:
    """A static leader that comes back must not assign again: it is told so, or, where its version has no
    field for that, that somebody else leads (KIP-814).
    """
    reply = join_reply(group, member)
    if group.is_leader(member.id):
        if features.can_skip_assignment:
            reply.skip_assignment = True
        else:
            reply.leader = old_id
            reply.members = []
    return reply


def sync_reply(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def fail_awaiting_requests(member: ClassicGroupMember, error: ErrorCode) -> None:
    """Answer everything that waits for this member."""
    joins, awaiting_sync = (member.awaiting_join, member.held_join), member.awaiting_sync
    member.awaiting_join = member.held_join = member.awaiting_sync = None
    member.answer_heartbeat(error)
    for answer in joins:
        if answer is not None:
            # One that is a member no longer has no id any more.
            answer(join_error("" if error is ErrorCode.UNKNOWN_MEMBER_ID else member.id, error))
    if awaiting_sync is not None:
        awaiting_sync(SyncGroupResponse(error_code=error))


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a ConsumerProtocolSubscription, which a member hands to its leader. The broker only looks
    inside to know whether a topic is in use; None where the bytes follow a protocol of the client's own.
    """
    try:
        return decode_versioned(ConsumerProtocolSubscription, metadata, take_newer=True).topics
    except InvalidBytesError:
        return None
