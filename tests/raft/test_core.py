"""The raft core, told as transcripts of one quorum each, and its table of moves."""

from pathlib import Path

import pytest

from headrace.raft.core import MOVES, ElectionTimeouts, RaftCore, Role
from headrace.raft.messages import (
    NO_DIRECTORY,
    Effects,
    ElectionState,
    EpochBegan,
    EpochEnded,
    LogEnd,
    Message,
    VoteReply,
    VoteRequest,
)
from tests.raft.transcript import run_transcript

TRANSCRIPTS = Path(__file__).parent / "transcripts"
DIRECTORY = b"d" * 16
PATIENCE = ElectionTimeouts(
    election_ms=lambda: 100, backoff_ms=lambda attempt: 10 * attempt, hurry_ms=lambda: 5, fetch_ms=200
)


class Quorum:
    """Several cores under one script: `new 1 of 1,2,3`, `1 start`, `1 tick 100`, `mail`, ..."""

    def __init__(self) -> None:
        self.cores: dict[int, RaftCore] = {}
        self.now_ms = 0
        self.mail: list[Message] = []

    def answer(self, command: str) -> str:
        words = command.split()
        if words[0] == "new":
            return self.new(int(words[1]), words[3], dict(word.split("=") for word in words[4:]))
        if words[0] == "mail":
            return self.deliver()
        if words[0] == "lose":
            self.mail.clear()
            return "lost"
        core = self.cores[int(words[0])]
        return self.told(core, self.act(core, words[1], words[2:]))

    def new(self, node_id: int, voters: str, more: dict[str, str]) -> str:
        self.cores[node_id] = core = RaftCore(
            node_id=node_id,
            directory_id=DIRECTORY,
            voters=dict.fromkeys(map(int, voters.split(",")), NO_DIRECTORY),
            state=ElectionState(
                int(more.get("epoch", 0)), int(more.get("leader", -1)), int(more.get("voted", -1)), DIRECTORY
            ),
            log_end=LogEnd(int(more.get("log-epoch", 0)), int(more.get("log-end", 0))),
            timeouts=PATIENCE,
        )
        return f"{core.role} epoch={core.epoch} majority={core.majority}"

    def act(self, core: RaftCore, verb: str, rest: list[str]) -> Effects:
        if verb == "start":
            return core.start(self.now_ms)
        if verb == "tick":
            self.now_ms += int(rest[0])
            return core.tick(self.now_ms)
        if verb == "wrote":
            core.log_moved(LogEnd(core.epoch, int(rest[0])))
            return Effects()
        if verb == "durable":
            return core.durable(int(rest[0]))
        if verb == "fetched":
            return core.fetched(int(rest[0]), DIRECTORY, int(rest[1]), self.now_ms)
        if verb == "heard":
            return core.heard_leader(int(rest[0]), self.now_ms)
        if verb == "lost":
            core.leader_gone(self.now_ms)
            return Effects()
        if verb == "voters":
            return core.change_voters(dict.fromkeys(map(int, rest[0].split(",")), NO_DIRECTORY), self.now_ms)
        if verb == "resign":
            return core.resign(self.now_ms)
        assert verb == "hears", verb
        fields = {key: int(value) for key, value in (word.split("=") for word in rest[1:])}
        if rest[0] == "vote-request":
            log_end = LogEnd(fields["log-epoch"], fields["log-end"])
            pre_vote = bool(fields.get("pre", 0))
            request = VoteRequest(core.node_id, fields["epoch"], fields["from"], DIRECTORY, log_end, pre_vote)
            return core.step(request, self.now_ms)
        if rest[0] in ("vote", "pre-vote"):
            pre_vote = rest[0] == "pre-vote"
            granted = bool(fields["granted"])
            reply = VoteReply(core.node_id, fields["from"], fields["epoch"], granted, pre_vote=pre_vote)
            return core.step(reply, self.now_ms)
        return core.step(EpochBegan(core.node_id, fields["epoch"], fields["leader"]), self.now_ms)

    def deliver(self) -> str:
        """All mail that is under way now, in order; answers go into the next round."""
        lines = []
        for message in self.mail.copy():
            self.mail.remove(message)
            core = self.cores[message.to]
            lines += [f"-> {message.to}", self.told(core, core.step(message, self.now_ms))]
        return "\n".join(lines)

    def told(self, core: RaftCore, effects: Effects) -> str:
        self.mail += effects.send
        lines = []
        if effects.persist is not None:
            state = effects.persist
            lines.append(f"persist epoch={state.epoch} leader={state.leader_id} voted={state.voted_id}")
        if effects.append is not None:
            lines.append(
                f"append start of epoch {effects.append.epoch}, elected by {effects.append.granted_by}"
            )
        lines += [self.mail_line(message) for message in effects.send]
        if effects.committed_to is not None:
            lines.append(f"committed to {effects.committed_to}")
        return "\n".join([*lines, f"{core.role} epoch={core.epoch}"])

    @staticmethod
    def mail_line(message: Message) -> str:
        if isinstance(message, VoteRequest):
            end = message.log_end
            kind = "would you vote" if message.pre_vote else "vote"
            asked = f"{kind} for {message.candidate_id}? epoch={message.epoch}"
            return f"send {message.to}: {asked} log={end.epoch}/{end.offset}"
        if isinstance(message, VoteReply):
            granted = "yes" if message.granted else "no"
            return f"send {message.to}: {granted} epoch={message.epoch} leader={message.leader_id}"
        if isinstance(message, EpochEnded):
            gives_up = f"{message.leader_id} gives up epoch {message.epoch}"
            return f"send {message.to}: {gives_up}, for {message.successors}"
        return f"send {message.to}: epoch {message.epoch} has leader {message.leader_id}"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    run_transcript(path, Quorum().answer)


def test_every_role_has_its_moves_and_no_epoch_is_led_twice() -> None:
    assert set(MOVES) == set(Role)
    assert [role for role in Role if Role.LEADER in MOVES[role]] == [Role.CANDIDATE]
    assert MOVES[Role.RESIGNED] == {Role.PROSPECTIVE}


def test_a_move_outside_the_table_is_a_bug_and_says_so() -> None:
    quorum = Quorum()
    quorum.answer("new 1 of 1")
    quorum.answer("1 start")
    quorum.answer("1 resign")
    with pytest.raises(AssertionError, match="resigned of epoch 1 cannot become leader of epoch 1"):
        quorum.cores[1]._lead(0)
