"""Heartbeats that wait for news: who is told what, and when at the latest."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.classic_group_manager import Release
from headrace.coordinators.group.held_heartbeats import COME_AGAIN, HeartbeatHoldPolicy
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.leave_group import MemberIdentity
from tests.coordinators.classic.classic_world import GROUP, World

HOLD_MS = 2_500


def hold(
    world: World, member_id: str, *, comes_again: bool = False, restarts_interval: bool = True
) -> tuple[list[ErrorCode], Release | None]:
    """A heartbeat that may be held: its answers, and what lets it go."""
    request = HeartbeatRequest(group_id=GROUP, generation_id=world.group.generation, member_id=member_id)
    assert world.manager.heartbeat(request, now_ms=world.now_ms) is ErrorCode.NONE
    answers: list[ErrorCode] = []
    policy = HeartbeatHoldPolicy(HOLD_MS, comes_again, restarts_interval)
    return answers, world.manager.hold_heartbeat(request, policy, now_ms=world.now_ms, answer=answers.append)


def test_a_rebalance_is_told_at_once() -> None:
    world = World()
    first, second = world.stable_pair()
    told = [hold(world, each)[0] for each in (first, second)]
    world.pass_time(1_000)
    assert told == [[], []]
    world.join_new("third")
    assert told == [[ErrorCode.REBALANCE_IN_PROGRESS]] * 2


def test_who_stays_hears_of_who_leaves() -> None:
    world = World()
    first, second = world.stable_pair()
    told, gone = hold(world, first)[0], hold(world, second)[0]
    world.leave(MemberIdentity(second))
    assert told == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert gone == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_without_news_it_is_answered_before_the_next_one_is_due() -> None:
    world = World()
    first, _ = world.stable_pair()
    told, _ = hold(world, first)
    world.pass_time(HOLD_MS - 1)
    assert told == []
    world.pass_time(1)
    assert told == [ErrorCode.NONE]


def test_in_a_short_session_it_is_answered_sooner() -> None:
    world = World()
    member, _ = world.join_new(session_ms=8_000)
    world.sync(member, {member: b"all"})
    told, _ = hold(world, member)
    world.pass_time(1_999)
    assert told == []
    world.pass_time(1)
    assert told == [ErrorCode.NONE]


def test_a_session_counts_from_the_arrival() -> None:
    world = World()
    member, _ = world.join_new(session_ms=10_000)
    world.sync(member, {member: b"all"})
    hold(world, member)
    world.pass_time(9_999)
    assert member in world.group.members
    world.pass_time(1)
    assert member not in world.group.members


def test_it_can_be_let_go() -> None:
    world = World()
    first, _ = world.stable_pair()
    told, release = hold(world, first)
    assert release is not None
    release(world.now_ms, False)
    assert told == [ErrorCode.NONE]
    world.join_new("third")
    world.pass_time(60_000)
    release(world.now_ms, False)
    assert told == [ErrorCode.NONE], "one answer is enough"


def test_a_newer_one_replaces_it() -> None:
    world = World()
    first, _ = world.stable_pair()
    older, release = hold(world, first)
    newer, _ = hold(world, first)
    assert (older, newer) == ([ErrorCode.NONE], [])
    assert release is not None
    release(world.now_ms, True)  # the connection of the older one ends: no concern of the newer one
    world.pass_time(HOLD_MS - 1)
    assert newer == []
    world.join_new("third")
    assert newer == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_member_that_breaks_its_connection_is_not_made_to_wait_again() -> None:
    world = World()
    first, second = world.stable_pair()
    _, release = hold(world, first)
    assert release is not None
    release(world.now_ms, True)
    assert hold(world, first) == ([], None)
    assert hold(world, second)[1] is not None


def test_only_a_stable_group_has_news_to_wait_for() -> None:
    world = World()
    first, _ = world.join_new("a")
    assert world.group.state == "CompletingRebalance"
    assert hold(world, first) == ([], None)


def test_a_coordinator_that_moves_away_says_so() -> None:
    world = World()
    first, _ = world.stable_pair()
    told, _ = hold(world, first)
    world.manager.drop(GROUP)
    assert told == [ErrorCode.NOT_COORDINATOR]


def test_a_static_member_that_is_replaced_is_fenced() -> None:
    world = World()
    old = world.join(instance_id="seat")[0].member_id
    world.sync(old, {old: b"all"})
    told, _ = hold(world, old)
    world.join(instance_id="seat")
    assert told == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_client_that_would_is_asked_to_come_again() -> None:
    world = World()
    member, _ = world.join_new()
    world.sync(member, {member: b"all"})
    world.pass_time(5_000)
    answers = []
    for _ in range(7):
        told, release = hold(world, member, comes_again=True)
        assert release is not None
        world.pass_time(1_000)
        release(world.now_ms, False)
        answers += told
    # It counts its session of 10 s from the last good answer.
    good, again = ErrorCode.NONE, COME_AGAIN
    assert answers == [good, again, again, good, again, again, good]


@pytest.mark.parametrize(("restarts_interval", "held_ms"), [(True, HOLD_MS), (False, HOLD_MS - 1_100)])
def test_a_repeated_heartbeat_is_held_until_the_next_one_is_due(
    restarts_interval: bool, held_ms: int
) -> None:
    world = World()
    first, _ = world.stable_pair()
    told, release = hold(world, first, comes_again=True, restarts_interval=restarts_interval)
    assert release is not None
    world.pass_time(1_000)
    release(world.now_ms, False)
    assert told == [COME_AGAIN]
    world.pass_time(100)
    told, _ = hold(world, first, comes_again=True, restarts_interval=restarts_interval)
    world.pass_time(held_ms - 1)
    assert told == []
    world.pass_time(1)
    assert told == [ErrorCode.NONE]


def test_a_heartbeat_that_was_asked_for_may_come_too_late() -> None:
    world = World()
    first, second = world.stable_pair()
    hold(world, first)
    world.pass_time(HOLD_MS)
    told, release = hold(world, first, comes_again=True)
    assert release is not None
    release(world.now_ms, False)
    assert told == [COME_AGAIN]
    joined = [world.join(first, client_id="a"), world.join(second, client_id="b")]
    assert [each[0].error_code for each in joined] == [ErrorCode.NONE] * 2
    assert world.heartbeat(first, generation=2) is ErrorCode.NONE
    assert world.heartbeat(second, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(first, generation=1) is ErrorCode.ILLEGAL_GENERATION
