"""Sessions, rebalance time-outs, and when members are told to come back."""

from itertools import count

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.group_config_manager import (
    GroupConfig,
    calm_interval_ms,
    quick_interval_ms,
)
from tests.coordinators.consumer.consumer_world import Client, World, given, run_until_stable


@pytest.fixture
def world() -> World:
    world = World()
    world.topic("t", 4)
    return world


def test_a_silent_member_is_out_after_its_session(world: World) -> None:
    world.join("a", "t")
    world.join("b", "t")
    world.pass_time(40_000)
    world.heartbeat("a", 2)
    world.pass_time(5_000)
    assert list(world.group.members) == ["a"]
    world.pass_time(39_999)
    assert list(world.group.members) == ["a"]
    world.pass_time(1)
    assert world.group.state == "Empty"
    assert len(world.timer) == 0


def test_the_first_member_is_assigned_though_time_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count(5_000)
    monkeypatch.setattr(world.clock, "monotonic_ms", lambda: next(ticks))
    reply = world.join("a", "t")
    assert (reply.member_epoch, given(reply)) == (2, {"t": {0, 1, 2, 3}})


def test_who_does_not_let_go_in_time_is_out(world: World) -> None:
    slow = Client(world, "a", ("t",), {"rebalance_timeout_ms": 20_000}, lets_go_at_once=False)
    slow.join()
    slow.let_go()
    world.pass_time(1_000)
    other = Client(world, "b", ("t",))
    other.join()
    slow.heartbeat()
    for _ in range(4):
        world.pass_time(4_999)
        slow.heartbeat()
        other.heartbeat()
    assert "a" in world.group.members
    assert other.owned == {}
    world.pass_time(4)
    assert "a" not in world.group.members
    other.heartbeat()
    assert other.owned == {"t": {0, 1, 2, 3}}
    assert world.heartbeat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_let_go_has_no_deadline_any_more(world: World) -> None:
    one = Client(world, "a", ("t",), {"rebalance_timeout_ms": 20_000})
    one.join()
    world.pass_time(1_000)
    world.join("b", "t")
    one.heartbeat()
    one.heartbeat()
    for _ in range(5):
        world.pass_time(10_000)
        one.heartbeat()
    assert list(world.group.members) == ["a"]  # the other one never came back


def test_a_log_that_refuses_does_not_save_a_silent_member(world: World) -> None:
    world.join("a", "t")
    world.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.pass_time(45_000)
    assert list(world.group.members) == ["a"]
    world.write_error = ErrorCode.NONE
    world.pass_time(45_000)
    assert world.group.state == "Empty"


def test_after_a_restart_everyone_has_a_session_and_time_to_let_go(world: World) -> None:
    world.join("a", "t", rebalance_timeout_ms=10_000)
    world.pass_time(1_000)
    world.join("b", "t")
    world.heartbeat("a", 2)
    world.pass_time(9_000)
    world.restart()
    world.pass_time(9_999)
    assert sorted(world.group.members) == ["a", "b"]
    world.pass_time(1)
    assert sorted(world.group.members) == ["b"]
    world.pass_time(35_000)
    assert world.group.state == "Empty"


# --- when to come back ---


def test_targets_are_made_once_in_a_while(world: World) -> None:
    """Members that come together are answered with one target: the first has all, the rest wait a second."""
    world.join("a", "t")
    late = world.join("b", "t")
    assert (given(late), world.group.state, late.heartbeat_interval_ms) == ({}, "Assigning", 500)
    world.pass_time(600)
    waiting = world.heartbeat("a", 2)
    assert (given(waiting), waiting.heartbeat_interval_ms) == (None, 400)
    world.pass_time(400)
    assert given(world.heartbeat("a", 2)) == {"t": {0, 1}}


def test_a_member_that_waits_comes_back_soon_and_less_often_the_longer_it_takes(world: World) -> None:
    world.join("a", "t")
    world.pass_time(1_000)
    assert world.join("b", "t").heartbeat_interval_ms == 50
    world.pass_time(800)
    assert world.heartbeat("b", 3).heartbeat_interval_ms == 100
    world.pass_time(8_000)
    assert world.heartbeat("b", 3).heartbeat_interval_ms == 500


def test_calm_members_come_back_at_leisure(world: World) -> None:
    clients = [Client(world, name, ("t",)) for name in "ab"]
    for client in clients:
        client.join()
    run_until_stable(world, *clients)
    assert [client.interval_ms for client in clients] == [500, 500]


@pytest.mark.parametrize(
    ("members", "interval_ms"),
    [(1, 500), (50, 500), (100, 1_000), (400, 4_000), (500, 5_000), (9_000, 5_000)],
)
def test_many_calm_members_cost_no_more_than_few(members: int, interval_ms: int) -> None:
    assert calm_interval_ms(GroupConfig(), members) == interval_ms


def test_an_interval_that_somebody_chose_is_kept() -> None:
    chosen = GroupConfig(heartbeat_interval_ms=7_000, heartbeat_interval_is_chosen=True)
    assert calm_interval_ms(chosen, 3) == 7_000
    assert quick_interval_ms(chosen, reconciling_for_ms=1_000_000, calm_ms=7_000) == 7_000


def test_quick_heartbeats_are_few_however_long_it_takes() -> None:
    settings, at_ms, owned = GroupConfig(), 0, 0
    while at_ms < 60_000:
        at_ms += quick_interval_ms(settings, reconciling_for_ms=at_ms, calm_ms=5_000)
        owned += 1
    assert owned < 60
