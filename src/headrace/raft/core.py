"""Raft as a pure machine (KIP-595): who leads in which epoch, and which offsets are committed.

It is told of time, of messages and of how far logs have become durable, and answers with `Effects`: what
the driver must do, in the order of the fields. It reads no clock, draws no chance and opens no file.

The voters are a parameter, so a quorum of one is the same machine as a quorum of five: a node that is the
only voter needs one vote, its own, and leads a new epoch as soon as it starts; what it has made durable is
committed. With more voters it asks for votes, grants its own at most once per epoch (that is what `persist`
is for), and commits what a majority has.

A leader may not count records of earlier epochs as committed until one of its own is (Raft §5.4.2): the
first thing a leader appends is the record of its election, and the high watermark does not move before that
record is durable on a majority.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.base.ids import NO_LEADER

NO_DIRECTORY: Final = bytes(16)
NOBODY: Final = -1


class Role(StrEnum):
    """What a node is in its epoch."""

    UNATTACHED = "unattached"  # knows the epoch but not its leader, and has not voted in it
    VOTED = "voted"  # gave its vote away, and waits to hear who won
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"  # led this epoch and gave it up; never leads it again


MOVES: Final[Mapping[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset({Role.VOTED, Role.FOLLOWER}),
    Role.VOTED: frozenset({Role.FOLLOWER}),
    Role.FOLLOWER: frozenset(),
    Role.CANDIDATE: frozenset({Role.LEADER, Role.FOLLOWER}),
    Role.LEADER: frozenset({Role.RESIGNED}),
    Role.RESIGNED: frozenset(),
}
"""Where a node may go within one epoch."""

ENTRIES: Final = frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.CANDIDATE})
"""What a node may become when it meets a newer epoch, whatever it was before."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a crash: the epoch, and whom this node knows or wants as its leader."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted_id: int = NOBODY
    voted_directory_id: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a log reaches: the epoch of its last record and the offset after it. Later epochs win."""

    epoch: int = 0
    offset: int = 0

    def reaches(self, other: "LogEnd") -> bool:
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate asks `to` for its vote."""

    to: int
    epoch: int
    candidate_id: int
    candidate_directory_id: bytes
    log_end: LogEnd


@dataclass(frozen=True, slots=True)
class VoteReply:
    """`sender` grants or refuses; `leader_id` names the epoch's leader where it knows one."""

    to: int
    sender: int
    epoch: int
    granted: bool
    leader_id: int = NO_LEADER


@dataclass(frozen=True, slots=True)
class EpochBegan:
    """The leader of an epoch makes itself known to `to`."""

    to: int
    epoch: int
    leader_id: int


Message = VoteRequest | VoteReply | EpochBegan


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The leader must append the record of its election, by these voters."""

    epoch: int
    granted_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """What the driver must do, in field order."""

    persist: ElectionState | None = None  # fsync BEFORE anything else
    append: EpochStart | None = None
    send: tuple[Message, ...] = ()
    committed_to: int | None = None  # the high watermark: records below it may be replayed and answered


NOTHING: Final = Effects()


@dataclass(slots=True)
class _Leadership:
    """What only a leader knows."""

    start_offset: int
    ends: dict[int, int] = field(default_factory=dict)
    """The offset up to which each voter is known to be durable."""


class RaftCore:
    """One node's part in the quorum. `election_timeout_ms` draws how long to wait for a leader, jitter
    included.
    """

    def __init__(
        self,
        *,
        node_id: int,
        directory_id: bytes,
        voters: Iterable[int],
        state: ElectionState,
        log_end: LogEnd,
        election_timeout_ms: Callable[[], int],
    ) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.voters = frozenset(voters)
        self.log_end = log_end
        self.high_watermark: int | None = None
        self.role = self._role_at_start(state)
        # A log can be ahead of a vote that was lost with its file: an epoch in the log was once real.
        self.state = state if state.epoch >= log_end.epoch else ElectionState(log_end.epoch)
        self.election_deadline_ms: int | None = None
        self._election_timeout_ms = election_timeout_ms
        self._votes: set[int] = set()
        self._leadership: _Leadership | None = None

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        return self.state.leader_id

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def voter_ends(self) -> dict[int, int]:
        """How far each voter is known to have got; only a leader knows of others."""
        known = {} if self._leadership is None else self._leadership.ends
        return {voter: known.get(voter, -1) for voter in sorted(self.voters)}

    def start(self, now_ms: int) -> Effects:
        """Begin to take part: alone at once, else after having waited for a leader to speak up."""
        if self.voters == {self.node_id}:
            return self._stand_for_election(now_ms)
        self._wait_for_leader(now_ms)
        return NOTHING

    def tick(self, now_ms: int) -> Effects:
        """Time has passed."""
        if self.election_deadline_ms is None or now_ms < self.election_deadline_ms:
            return NOTHING
        if self.node_id not in self.voters:
            self._wait_for_leader(now_ms)
            return NOTHING
        return self._stand_for_election(now_ms)

    def step(self, message: Message, now_ms: int) -> Effects:
        """A message from another node has come."""
        if isinstance(message, VoteRequest):
            return self._answer_candidate(message, now_ms)
        if isinstance(message, VoteReply):
            return self._count_vote(message, now_ms)
        return self._follow(message.epoch, message.leader_id, now_ms)

    def log_moved(self, log_end: LogEnd) -> None:
        """Records were appended to, or cut from, this node's log. They need not be durable yet."""
        self.log_end = log_end

    def durable(self, node_id: int, end_offset: int) -> Effects:
        """A voter, perhaps this one, has everything below `end_offset` on its disk."""
        if self._leadership is None or node_id not in self.voters:
            return NOTHING
        ends = self._leadership.ends
        if end_offset > ends.get(node_id, -1):
            ends[node_id] = end_offset
        return self._commit()

    def resign(self, now_ms: int) -> Effects:
        """Give up leading, for this node cannot write any more or is about to stop."""
        if self.role is not Role.LEADER:
            return NOTHING
        self._enter(Role.RESIGNED, self.state)
        self._leadership = None
        self._wait_for_leader(now_ms)
        return NOTHING

    def _role_at_start(self, state: ElectionState) -> Role:
        if state.leader_id == self.node_id:
            return Role.RESIGNED
        if state.leader_id != NO_LEADER:
            return Role.FOLLOWER
        return Role.UNATTACHED if state.voted_id == NOBODY else Role.VOTED

    def _enter(self, role: Role, state: ElectionState) -> None:
        newer = state.epoch > self.state.epoch
        allowed = ENTRIES if newer else MOVES[self.role]
        assert role in allowed, (
            f"{self.role} of epoch {self.epoch} cannot become {role} of epoch {state.epoch}"
        )
        self.role, self.state = role, state
        if newer:
            self._votes.clear()
            self._leadership = None

    def _wait_for_leader(self, now_ms: int) -> None:
        self.election_deadline_ms = now_ms + self._election_timeout_ms()

    def _stand_for_election(self, now_ms: int) -> Effects:
        """Vote for oneself in a new epoch, and ask the others."""
        self._enter(
            Role.CANDIDATE,
            ElectionState(self.epoch + 1, voted_id=self.node_id, voted_directory_id=self.directory_id),
        )
        self._votes = {self.node_id}
        if len(self._votes) >= self.majority:
            return self._lead()
        self._wait_for_leader(now_ms)
        asked = tuple(
            VoteRequest(voter, self.epoch, self.node_id, self.directory_id, self.log_end)
            for voter in sorted(self.voters - {self.node_id})
        )
        return Effects(persist=self.state, send=asked)

    def _lead(self) -> Effects:
        self._enter(Role.LEADER, ElectionState(self.epoch, leader_id=self.node_id))
        self._leadership = _Leadership(start_offset=self.log_end.offset)
        self.election_deadline_ms = None
        told = tuple(
            EpochBegan(voter, self.epoch, self.node_id) for voter in sorted(self.voters - {self.node_id})
        )
        return Effects(
            persist=self.state,
            append=EpochStart(self.epoch, granted_by=tuple(sorted(self._votes))),
            send=told,
        )

    def _answer_candidate(self, request: VoteRequest, now_ms: int) -> Effects:
        before = self.state
        if request.epoch > self.epoch:
            self._enter(Role.UNATTACHED, ElectionState(request.epoch))
            self._wait_for_leader(now_ms)
        granted = request.epoch == self.epoch and self._may_vote_for(request)
        if granted and self.role is Role.UNATTACHED:
            voted = ElectionState(
                self.epoch, voted_id=request.candidate_id, voted_directory_id=request.candidate_directory_id
            )
            self._enter(Role.VOTED, voted)
            self._wait_for_leader(now_ms)
        reply = VoteReply(request.candidate_id, self.node_id, self.epoch, granted, self.leader_id)
        return Effects(persist=self.state if self.state != before else None, send=(reply,))

    def _may_vote_for(self, request: VoteRequest) -> bool:
        """Once per epoch, and only for a log that has all this node's log has (Raft §5.4.1)."""
        if self.role is Role.VOTED:
            given = (self.state.voted_id, self.state.voted_directory_id)
            return given == (request.candidate_id, request.candidate_directory_id)
        return self.role is Role.UNATTACHED and request.log_end.reaches(self.log_end)

    def _count_vote(self, reply: VoteReply, now_ms: int) -> Effects:
        if reply.epoch > self.epoch or reply.leader_id != NO_LEADER:
            return self._follow(reply.epoch, reply.leader_id, now_ms)
        if self.role is not Role.CANDIDATE or reply.epoch < self.epoch or not reply.granted:
            return NOTHING
        if reply.sender in self.voters:
            self._votes.add(reply.sender)
        return self._lead() if len(self._votes) >= self.majority else NOTHING

    def _follow(self, epoch: int, leader_id: int, now_ms: int) -> Effects:
        """Someone knows of an epoch, and perhaps of its leader."""
        if epoch < self.epoch or (epoch == self.epoch and leader_id in (NO_LEADER, self.leader_id)):
            return NOTHING
        assert epoch > self.epoch or self.leader_id == NO_LEADER, "two leaders in one epoch"
        role = Role.UNATTACHED if leader_id == NO_LEADER else Role.FOLLOWER
        self._enter(role, ElectionState(epoch, leader_id=leader_id))
        self._wait_for_leader(now_ms)
        return Effects(persist=self.state)

    def _commit(self) -> Effects:
        """The high watermark is the offset that a majority has; it moves only from this epoch's start on."""
        assert self._leadership is not None
        ends = sorted((self._leadership.ends.get(voter, -1) for voter in self.voters), reverse=True)
        reached = ends[self.majority - 1]
        if reached <= self._leadership.start_offset or reached <= (self.high_watermark or 0):
            return NOTHING
        self.high_watermark = reached
        return Effects(committed_to=reached)
