"""Raft as a pure machine (KIP-595): who leads in which epoch, and which offsets are committed.

It is told of time, of messages and of how far logs have become durable, and answers with `Effects`: what
the driver must do, in the order of the fields. It reads no clock, draws no chance and opens no file.

The voters are a parameter, so a quorum of one is the same machine as a quorum of five: a node that is the
only voter needs one vote, its own, and leads a new epoch as soon as it starts; what it has made durable is
committed. With more voters it first asks whether it would win (KIP-996: nobody who hears from a leader says
yes, so a node that was cut off disturbs nobody when it comes back), then asks for votes in a new epoch,
grants its own at most once per epoch (that is what `persist` is for), and commits what a majority has. A node
that is no voter only follows.

A follower that has not heard from its leader for a while stands for election; so does at once one whose
leader is certainly gone (`leader_gone`) or says that it gives up. A leader that a majority has not heard of
gives up by itself.

A leader may not count records of earlier epochs as committed until one of its own is (Raft §5.4.2): the
first thing a leader appends is the record of its election, and the high watermark does not move before that
record is durable on a majority.

Requests can come from anybody. One that only a voter sends is refused before anything of it is adopted where
its sender is no voter, or its epoch is none that elections can have led to (`why_refused`, `sane_epochs`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.base.ids import NO_LEADER
from headrace.raft.messages import (
    NO_DIRECTORY,
    NOBODY,
    NOTHING,
    Effects,
    ElectionState,
    EpochBegan,
    EpochEnded,
    LogEnd,
    Message,
    RaftEpochStart,
    VoteReply,
    VoteRequest,
)
from headrace.raft.raft_leader_state import RaftLeaderState
from headrace.raft.sane_epochs import EpochAllowance, epoch_max


class Role(StrEnum):
    """What a node is in its epoch."""

    UNATTACHED = "unattached"  # knows the epoch but not its leader, and has not voted in it
    VOTED = "voted"  # gave its vote away, and waits to hear who won
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"  # asks whether it would be elected
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"  # led this epoch and gave it up; never leads it again


MOVES: Final[Mapping[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset({Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.VOTED: frozenset({Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.FOLLOWER: frozenset({Role.PROSPECTIVE, Role.FOLLOWER}),  # of who leads in truth
    Role.PROSPECTIVE: frozenset({Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.CANDIDATE: frozenset({Role.LEADER, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.LEADER: frozenset({Role.RESIGNED}),
    Role.RESIGNED: frozenset({Role.PROSPECTIVE}),
}
"""Where a node may go within one epoch."""

ENTRIES: Final = frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.CANDIDATE})
"""What a node may become when it meets a newer epoch, whatever it was before."""


@dataclass(frozen=True, slots=True)
class ElectionTimeouts:
    """How long a node waits, in milliseconds. What is a call has chance in it, so that voters differ."""

    election_ms: Callable[[], int]  # for an election to be decided, or for a leader to speak up
    backoff_ms: Callable[[int], int]  # after so many elections in a row that were not won
    hurry_ms: Callable[[], int]  # before standing in place of a leader that is gone
    fetch_ms: int  # for word from a leader that is known

    @property
    def quorum_ms(self) -> int:
        """How long a leader goes on without a majority: longer than its followers wait for it."""
        return self.fetch_ms * 3 // 2

    @property
    def announce_ms(self) -> int:
        """How often a leader makes itself known to voters that do not fetch."""
        return max(self.fetch_ms // 2, 1)


class RaftCore:
    """One node's part in the quorum. `voters` maps the id of each to its directory, zeros for any."""

    def __init__(
        self,
        *,
        node_id: int,
        directory_id: bytes,
        voters: Mapping[int, bytes],
        state: ElectionState,
        log_end: LogEnd,
        timeouts: ElectionTimeouts,
    ) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.voters = dict(voters)
        self.log_end = log_end
        self.timeouts = timeouts
        self.high_watermark: int | None = None
        # A log can be ahead of a vote that was lost with its file: an epoch in the log was once real.
        self.state = state if state.epoch >= log_end.epoch else ElectionState(log_end.epoch)
        self.role = self._role_at_start(self.state)
        self.leader_state: RaftLeaderState | None = None
        self.deadline_ms: int | None = None
        # Whether the leader of this epoch was heard of, and not lost since: then no other is wanted.
        self._hears_leader = False
        self._votes: set[int] = set()
        self._refusals: set[int] = set()
        self._elections_lost = 0
        self._announced_ms = 0
        self._allowance = EpochAllowance()

    # -- what is known ---------------------------------------------------------------------------------------

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
    def is_voter(self) -> bool:
        return self.voters.get(self.node_id, b"") in (NO_DIRECTORY, self.directory_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def seeks_leader(self) -> bool:
        """Whether a node that only follows must ask around for the one to follow."""
        return not self.is_voter and not self._hears_leader

    def voter_ends(self) -> dict[int, int]:
        """How far each voter is known to have got; only a leader knows of others."""
        if self.leader_state is None:
            return dict.fromkeys(sorted(self.voters), -1)
        return {voter: self.leader_state.end_of(voter, self.voters[voter]) for voter in sorted(self.voters)}

    # -- what happens ----------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> Effects:
        """Begin to take part: alone at once, else after having waited for a leader to speak up."""
        if self.is_voter and len(self.voters) == 1:
            return self._stand_for_election(now_ms)
        self._wait_for_leader(now_ms)
        if self.is_voter and self.role is not Role.FOLLOWER:
            # Nobody is disturbed by being asked whether there is a leader, and a new cluster has none.
            self.deadline_ms = now_ms + self.timeouts.hurry_ms()
        return NOTHING

    def tick(self, now_ms: int) -> Effects:
        """Time has passed."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return NOTHING
        if self.role is Role.LEADER:
            return self._watch_quorum(now_ms)
        if not self.is_voter:
            self._hears_leader = False
            self._wait_for_leader(now_ms)
            return NOTHING
        if self.role is Role.CANDIDATE or (self.role is Role.PROSPECTIVE and self._may_go_back()):
            return self._lose_election(now_ms)
        return self._ask_first(now_ms)

    def step(self, message: Message, now_ms: int) -> Effects:
        """A message from another node has come."""
        if isinstance(message, VoteReply):
            return self._count_vote(message, now_ms)
        refused = self.why_refused(message, now_ms) is not None
        if not refused and message.epoch > self.epoch:
            self._allowance.use(message.epoch - self.epoch, now_ms)
        if isinstance(message, VoteRequest):
            return self._refuse_candidate(message) if refused else self._answer_candidate(message, now_ms)
        if refused:
            return NOTHING
        if isinstance(message, EpochEnded):
            return self._succeed(message, now_ms)
        return self.learn(message.epoch, message.leader_id, now_ms, from_leader=True)

    def why_refused(self, message: VoteRequest | EpochBegan | EpochEnded, now_ms: int) -> str | None:
        """Why a request of the quorum is not believed; None for one that is."""
        is_vote = isinstance(message, VoteRequest)
        sender = message.candidate_id if isinstance(message, VoteRequest) else message.leader_id
        ahead = message.epoch - self.epoch
        if sender == self.node_id:
            return "it has this node's own id"
        if ahead > self._allowance.left(now_ms) or message.epoch > epoch_max(self.log_end.epoch):
            return f"elections cannot have led there from epoch {self.epoch}"
        if not is_vote and ahead == 0 and self.leader_id != NO_LEADER:
            return None if sender == self.leader_id else f"node {self.leader_id} leads this epoch"
        if self._is_known_voter(message) or self._may_be_newer_voter(message):
            return None
        return f"it is none of the voters {', '.join(map(str, sorted(self.voters)))}"

    def _is_known_voter(self, message: VoteRequest | EpochBegan | EpochEnded) -> bool:
        if not isinstance(message, VoteRequest):
            return message.leader_id in self.voters
        known, told = self.voters.get(message.candidate_id), message.candidate_directory_id
        return known is not None and (NO_DIRECTORY in (known, told) or known == told)

    def _may_be_newer_voter(self, message: VoteRequest | EpochBegan | EpochEnded) -> bool:
        """Whether the sender can be a voter by a record that this node's log has yet to get (KIP-853).

        Not where the voters stand in the settings or this node is the only one, nor as long as a leader is
        there to send that record; a candidate must have the longer log. Where all that is so its vote may be
        needed, for this node's own voters may be gone for good.
        """
        if not self.voters:
            return True
        changeable = len(self.voters) > 1 and any(each != NO_DIRECTORY for each in self.voters.values())
        if not changeable or self.is_leader or self._hears_leader:
            return False
        if not isinstance(message, VoteRequest):
            return True
        return message.log_end != self.log_end and message.log_end.reaches(self.log_end)

    def learn(
        self, epoch: int, leader_id: int, now_ms: int, *, from_leader: bool = False, sender: int = NOBODY
    ) -> Effects:
        """Someone knows of an epoch, and perhaps of its leader. `sender` is who answered a question of this
        node's: where it takes that one for the leader, and hears from it of another, it was deceived."""
        if epoch > epoch_max(self.log_end.epoch):
            return NOTHING
        if leader_id == self.node_id and epoch > self.epoch:
            leader_id = NO_LEADER  # this node knows nothing of it, so it does not lead
        back = from_leader and self.role in (Role.PROSPECTIVE, Role.CANDIDATE) and leader_id != self.node_id
        if epoch < self.epoch or (epoch == self.epoch and leader_id == NO_LEADER):
            return NOTHING
        if epoch == self.epoch and leader_id == self.leader_id:
            if back:
                self._enter(Role.FOLLOWER, self.state)
                self._wait_for_leader(now_ms)
            return NOTHING
        if (
            epoch == self.epoch
            and self.leader_id != NO_LEADER
            and (self.is_leader or sender != self.leader_id)
        ):
            return NOTHING  # an epoch has one leader: whoever names another is wrong
        role = Role.UNATTACHED if leader_id == NO_LEADER else Role.FOLLOWER
        self._enter(role, ElectionState(epoch, leader_id=leader_id))
        self._wait_for_leader(now_ms)
        return Effects(persist=self.state)

    def heard_leader(self, high_watermark: int, now_ms: int) -> Effects:
        """The leader answered a fetch: it is alive, and everything below this offset is committed."""
        assert self.role is Role.FOLLOWER
        self._hears_leader = True
        self._elections_lost = 0
        self.deadline_ms = now_ms + self.timeouts.fetch_ms
        return self.follow_commits(high_watermark)

    def follow_commits(self, high_watermark: int) -> Effects:
        """As far as this node's durable log goes, what the leader committed is committed here."""
        if high_watermark <= (self.high_watermark or 0):
            return NOTHING
        self.high_watermark = high_watermark
        return Effects(committed_to=high_watermark)

    def leader_gone(self, now_ms: int) -> None:
        """The leader's process has certainly ended: do not wait for it any longer."""
        if self.role is Role.FOLLOWER:
            self._hears_leader = False
            if self.is_voter and self.deadline_ms is not None:
                self.deadline_ms = min(self.deadline_ms, now_ms + self.timeouts.hurry_ms())

    def fetched(self, node_id: int, directory_id: bytes, offset: int, now_ms: int) -> Effects:
        """A replica has everything below `offset` on its disk, and asks its leader for more."""
        if self.leader_state is None:
            return NOTHING
        end = self.log_end.offset
        self.leader_state.fetched(node_id, directory_id, offset, leader_end=end, now_ms=now_ms)
        return self._commit() if node_id in self.voters else NOTHING

    def log_moved(self, log_end: LogEnd) -> None:
        """Records were appended to, or cut from, this node's log. They need not be durable yet."""
        self.log_end = log_end

    def durable(self, end_offset: int) -> Effects:
        """This node's disk has everything below `end_offset`."""
        if self.leader_state is None:
            return NOTHING
        self.leader_state.durable(end_offset)
        return self._commit()

    def change_voters(self, voters: Mapping[int, bytes], now_ms: int) -> Effects:
        """The log says who votes from now on, committed or not (KIP-853)."""
        was_voter = self.is_voter
        self.voters = dict(voters)
        if self.is_voter and not was_voter:
            self._wait_for_leader(now_ms)
        if self.leader_state is None:
            return NOTHING
        self._watch_later()
        return self._commit()

    def resign(self, now_ms: int) -> Effects:
        """Give up leading, for this node cannot write any more or is about to stop."""
        if self.role is not Role.LEADER:
            return NOTHING
        assert self.leader_state is not None
        successors = self.leader_state.successors(self.voters)
        self._enter(Role.RESIGNED, self.state)
        self._wait_for_leader(now_ms)
        told = tuple(EpochEnded(voter, self.epoch, self.node_id, successors) for voter in successors)
        return Effects(send=told)

    # -- elections -------------------------------------------------------------------------------------------

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
        self._hears_leader = False
        self._votes.clear()
        self._refusals.clear()
        if role is not Role.LEADER:
            self.leader_state = None

    def _wait_for_leader(self, now_ms: int) -> None:
        """A leader that is known gets the time it has to answer in; one that is not, that of an election."""
        known = self.role is Role.FOLLOWER
        self.deadline_ms = now_ms + (self.timeouts.fetch_ms if known else self.timeouts.election_ms())

    def _ask_first(self, now_ms: int) -> Effects:
        """Ask whether one would be elected; the epoch and the vote stay as they are."""
        if len(self.voters) == 1:
            return self._stand_for_election(now_ms)
        self._enter(Role.PROSPECTIVE, self.state)
        self._votes = {self.node_id}
        self.deadline_ms = now_ms + self.timeouts.election_ms()
        return Effects(send=self._ask_for_votes(pre_vote=True))

    def _stand_for_election(self, now_ms: int) -> Effects:
        """Vote for oneself in a new epoch, and ask the others."""
        self._enter(
            Role.CANDIDATE,
            ElectionState(self.epoch + 1, voted_id=self.node_id, voted_directory_id=self.directory_id),
        )
        self._votes = {self.node_id}
        if len(self._votes) >= self.majority:
            return self._lead(now_ms)
        self.deadline_ms = now_ms + self.timeouts.election_ms()
        return Effects(persist=self.state, send=self._ask_for_votes(pre_vote=False))

    def _ask_for_votes(self, *, pre_vote: bool) -> tuple[VoteRequest, ...]:
        return tuple(
            VoteRequest(voter, self.epoch, self.node_id, self.directory_id, self.log_end, pre_vote)
            for voter in sorted(set(self.voters) - {self.node_id})
        )

    def _may_go_back(self) -> bool:
        return self.leader_id not in (NO_LEADER, self.node_id)

    def _lose_election(self, now_ms: int) -> Effects:
        """Try the known leader again; where there is none, wait before asking the others again."""
        self._elections_lost += 1
        if self._may_go_back():
            self._enter(Role.FOLLOWER, self.state)
            self._wait_for_leader(now_ms)
            return NOTHING
        self._enter(Role.PROSPECTIVE, self.state)
        self.deadline_ms = now_ms + self.timeouts.backoff_ms(self._elections_lost)
        return NOTHING

    def _lead(self, now_ms: int) -> Effects:
        granted_by = tuple(sorted(self._votes))
        self._enter(Role.LEADER, ElectionState(self.epoch, leader_id=self.node_id))
        self._elections_lost = 0
        self.leader_state = RaftLeaderState(self.node_id, self.log_end.offset, now_ms)
        self._announced_ms = now_ms
        self._watch_later()
        told = tuple(
            EpochBegan(voter, self.epoch, self.node_id) for voter in sorted(set(self.voters) - {self.node_id})
        )
        return Effects(persist=self.state, append=RaftEpochStart(self.epoch, granted_by), send=told)

    def _answer_candidate(self, request: VoteRequest, now_ms: int) -> Effects:
        before = self.state
        if request.epoch > self.epoch:
            self._enter(Role.UNATTACHED, ElectionState(request.epoch))
            self._wait_for_leader(now_ms)
        granted = request.epoch == self.epoch and (
            self._would_vote_for(request) if request.pre_vote else self._may_vote_for(request)
        )
        if granted and not request.pre_vote and self.role is not Role.VOTED:
            voted = ElectionState(
                self.epoch, voted_id=request.candidate_id, voted_directory_id=request.candidate_directory_id
            )
            self._enter(Role.VOTED, voted)
            self._wait_for_leader(now_ms)
        reply = self._vote_reply(request, granted)
        return Effects(persist=self.state if self.state != before else None, send=(reply,))

    def _refuse_candidate(self, request: VoteRequest) -> Effects:
        return Effects(send=(self._vote_reply(request, False),))

    def _vote_reply(self, request: VoteRequest, granted: bool) -> VoteReply:
        # One that has resigned is nobody's leader any more.
        leader_id = self.leader_id if self.leader_id != self.node_id or self.is_leader else NO_LEADER
        return VoteReply(request.candidate_id, self.node_id, self.epoch, granted, leader_id, request.pre_vote)

    def _would_vote_for(self, request: VoteRequest) -> bool:
        """Nobody is wanted by who leads, or hears from the leader of this epoch."""
        return (
            self.role is not Role.LEADER and not self._hears_leader and request.log_end.reaches(self.log_end)
        )

    def _may_vote_for(self, request: VoteRequest) -> bool:
        """Once per epoch, and only for a log that has all this node's log has (Raft §5.4.1)."""
        if self.role not in (Role.UNATTACHED, Role.VOTED, Role.PROSPECTIVE) or self.leader_id != NO_LEADER:
            return False
        if self.state.voted_id != NOBODY:
            given = (self.state.voted_id, self.state.voted_directory_id)
            return given == (request.candidate_id, request.candidate_directory_id)
        return request.log_end.reaches(self.log_end)

    def _count_vote(self, reply: VoteReply, now_ms: int) -> Effects:
        if reply.epoch > self.epoch or (reply.leader_id not in (NO_LEADER, self.leader_id, self.node_id)):
            return self.learn(reply.epoch, reply.leader_id, now_ms, sender=reply.sender)
        asking = Role.PROSPECTIVE if reply.pre_vote else Role.CANDIDATE
        if self.role is not asking or reply.epoch < self.epoch or reply.sender not in self.voters:
            return NOTHING
        (self._votes if reply.granted else self._refusals).add(reply.sender)
        if len(self._votes) >= self.majority:
            return self._stand_for_election(now_ms) if reply.pre_vote else self._lead(now_ms)
        if len(self._refusals) > len(self.voters) - self.majority:
            return self._lose_election(now_ms)
        return NOTHING

    def _succeed(self, message: EpochEnded, now_ms: int) -> Effects:
        """The leader gives up: the one it names first stands at once, the others a little later."""
        effects = self.learn(message.epoch, message.leader_id, now_ms)
        if self.role is Role.FOLLOWER and self.epoch == message.epoch and self.is_voter:
            self._hears_leader = False
            place = message.successors.index(self.node_id) if self.node_id in message.successors else 1
            self.deadline_ms = now_ms + (self.timeouts.backoff_ms(place) if place else 0)
        return effects

    # -- leading ---------------------------------------------------------------------------------------------

    def _watch_later(self) -> None:
        """When a leader has to look whether voters lost sight of it."""
        assert self.leader_state is not None
        lost_ms = self.leader_state.quorum_lost_at_ms(self.timeouts.quorum_ms, self.voters)
        announce_ms = self._announced_ms + self.timeouts.announce_ms
        self.deadline_ms = None if lost_ms is None else min(lost_ms, announce_ms)

    def _watch_quorum(self, now_ms: int) -> Effects:
        assert self.leader_state is not None
        lost_ms = self.leader_state.quorum_lost_at_ms(self.timeouts.quorum_ms, self.voters)
        if lost_ms is not None and now_ms >= lost_ms:
            return self.resign(now_ms)
        self._announced_ms = now_ms
        silent = self.leader_state.silent_for(self.timeouts.announce_ms, self.voters, now_ms)
        self._watch_later()
        return Effects(send=tuple(EpochBegan(voter, self.epoch, self.node_id) for voter in silent))

    def _commit(self) -> Effects:
        """The high watermark is the offset that a majority has; it moves only from this epoch's start on."""
        assert self.leader_state is not None
        reached = self.leader_state.majority_end(self.voters) if self.voters else -1
        if reached <= self.leader_state.start_offset or reached <= (self.high_watermark or 0):
            return NOTHING
        self.high_watermark = reached
        return Effects(committed_to=reached)
