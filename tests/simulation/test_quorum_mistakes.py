"""The simulator finds mistakes of the quorum: each of these is made on purpose, and found in a few seeds."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.controller.core import ControllerCore
from headrace.raft.core import RaftCore, Role
from headrace.raft.drivers import raft_manager
from headrace.raft.drivers.effect_queue import GroupCommit
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import ElectionState, RaftEpochStart, VoteRequest
from headrace.raft.raft_leader_state import RaftLeaderState
from headrace.testing.nemesis import Trouble
from headrace.testing.simulate import SeedFailedError, play

Plant = Callable[[pytest.MonkeyPatch], None]
SEEDS_MAX = 120
# Where a rare one showed last, to be looked at first.
LIKELY = {"believe_in_what_was_decided_in_vain": 66}
# A mistake that only a power cut shows is looked for under little else.
FAULTS = {"promise_before_the_sync": (Trouble.POWER_CUT, Trouble.SLOW_DISK)}


def forget_the_vote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(raft_manager, "read_state", lambda disk, folder: ElectionState())


def vote_as_often_as_asked(patch: pytest.MonkeyPatch) -> None:
    def may_vote(core: RaftCore, request: VoteRequest) -> bool:
        return core.role in (Role.UNATTACHED, Role.VOTED, Role.PROSPECTIVE)

    patch.setattr(RaftCore, "_may_vote_for", may_vote)


def elect_whoever_has_a_shorter_log(patch: pytest.MonkeyPatch) -> None:
    def would_vote(core: RaftCore, request: VoteRequest) -> bool:
        return core.role is not Role.LEADER and not core._hears_leader

    def may_vote(core: RaftCore, request: VoteRequest) -> bool:
        free = core.state.voted_id in (-1, request.candidate_id) and core.leader_id < 0
        return free and core.role in (Role.UNATTACHED, Role.VOTED, Role.PROSPECTIVE)

    patch.setattr(RaftCore, "_would_vote_for", would_vote)
    patch.setattr(RaftCore, "_may_vote_for", may_vote)


def commit_what_one_voter_has(patch: pytest.MonkeyPatch) -> None:
    def furthest(leader_state: RaftLeaderState, voters: dict[int, bytes]) -> int:
        return max(leader_state.end_of(*voter) for voter in voters.items())

    patch.setattr(RaftLeaderState, "majority_end", furthest)


def promise_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    async def never(syncs: GroupCommit) -> None:
        pass

    patch.setattr(GroupCommit, "durable", never)


def decide_before_all_is_replayed(patch: pytest.MonkeyPatch) -> None:
    begin = KafkaRaftClient._begin_epoch

    def begin_at_once(driver: KafkaRaftClient, start: RaftEpochStart) -> None:
        begin(driver, start)
        driver._delivery.tell_leader(driver.core.node_id, driver.core.epoch)

    patch.setattr(KafkaRaftClient, "_begin_epoch", begin_at_once)


def believe_every_stranger(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftCore, "why_refused", lambda core, message, now_ms: None)


def believe_in_what_was_decided_in_vain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ControllerCore, "restore", lambda core, committed: None)


@pytest.mark.parametrize(
    "plant",
    [
        forget_the_vote,
        vote_as_often_as_asked,
        elect_whoever_has_a_shorter_log,
        commit_what_one_voter_has,
        promise_before_the_sync,
        decide_before_all_is_replayed,
        believe_in_what_was_decided_in_vain,
        believe_every_stranger,
    ],
)
def test_the_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a rule: that a node cannot go on, or refuses its files, is a finding too, but proves less."""
    plant(monkeypatch)
    for seed in (LIKELY.get(plant.__name__, 0), *range(SEEDS_MAX)):
        try:
            play("quorum", seed, faults=FAULTS.get(plant.__name__))
        except SeedFailedError as found:
            if found.failure.rule.startswith("CheckFailedError"):
                return
    pytest.fail(f"not found within {SEEDS_MAX} seeds")


def test_without_a_mistake_the_first_of_these_seeds_keep_all_rules() -> None:
    outcomes: list[Any] = [play("quorum", seed) for seed in range(2)]
    assert [outcome.seed for outcome in outcomes] == [0, 1]
