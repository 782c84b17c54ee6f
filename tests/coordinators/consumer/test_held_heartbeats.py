"""Heartbeats that are kept until there is news: who hears what, and when at the latest."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.group_config_manager import GroupConfig
from headrace.coordinators.group.held_heartbeats import SERVED_AT_ONCE
from tests.coordinators.consumer.consumer_world import Client, World, given, run_until_stable

TOLD_MS = 500
MARGIN_MS = 50
WAIT_MS = TOLD_MS - MARGIN_MS


@pytest.fixture
def world() -> World:
    world = World()
    world.topic("t", 4)
    return world


def calm(world: World, *names: str) -> list[Client]:
    """A group in which every member has its share, and has been told when to come back."""
    clients = [Client(world, name, ("t",)) for name in names]
    for client in clients:
        client.join()
    run_until_stable(world, *clients)
    return clients


def test_who_stays_hears_of_who_leaves_at_once(world: World) -> None:
    one, two = calm(world, "a", "b")
    replies, _ = world.wait("a", one.epoch)
    world.pass_time(100)
    assert replies == []
    world.heartbeat("b", -1)
    world.pass_time(0)
    assert [given(each) for each in replies] == [{"t": {0, 1, 2, 3}}]
    assert replies[0].member_epoch == two.epoch + 1


def test_a_member_hears_at_once_what_to_let_go_of_for_a_new_one(world: World) -> None:
    (one,) = calm(world, "a")
    replies, _ = world.wait("a", one.epoch)
    new = Client(world, "b", ("t",))
    new.join()
    world.pass_time(0)
    assert [given(each) for each in replies] == [{"t": {0, 1}}]
    world.heartbeat("a", one.epoch, {"t": {0, 1}})
    new.heartbeat()
    assert new.owned == {"t": {2, 3}}


def test_who_is_put_out_is_told_so(world: World) -> None:
    one, _ = calm(world, "a", "b")
    replies, _ = world.wait("a", one.epoch)
    world.protocol.remove(world.group, ["a"], lambda error: None)
    world.pass_time(0)
    assert [each.error_code for each in replies] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_without_news_it_is_answered_before_the_next_one_is_due(world: World) -> None:
    one, _ = calm(world, "a", "b")
    replies, _ = world.wait("a", one.epoch)
    world.pass_time(WAIT_MS - 1)
    assert replies == []
    world.pass_time(1)
    assert [(given(each), each.heartbeat_interval_ms) for each in replies] == [(None, TOLD_MS)]


def test_a_client_that_must_have_it_now_has_it_now(world: World) -> None:
    one, _ = calm(world, "a", "b")
    for margin_ms in (None, TOLD_MS):
        replies, release = world.wait("a", one.epoch, margin_ms=margin_ms)
        assert (len(replies), release) == (1, None)


def test_who_was_not_told_when_to_come_back_does_not_wait(world: World) -> None:
    """It may give up on a request sooner than we think."""
    one, _ = calm(world, "a", "b")
    world.restart()
    world.heartbeat("b", one.epoch, {})  # looks at the topics
    assert len(world.wait("a", one.epoch)[0]) == 1
    assert len(world.wait("a", one.epoch)[0]) == 0


def test_a_long_interval_is_waited_for_no_longer_than_a_part_of_the_session(world: World) -> None:
    world.settings = GroupConfig(
        session_timeout_ms=8_000, heartbeat_interval_ms=6_000, heartbeat_interval_is_chosen=True
    )
    (one,) = calm(world, "a")
    replies, _ = world.wait("a", one.epoch)
    world.pass_time(1_999)
    assert replies == []
    world.pass_time(1)
    assert len(replies) == 1


def test_it_can_be_let_go_once(world: World) -> None:
    one, _ = calm(world, "a", "b")
    replies, release = world.wait("a", one.epoch)
    assert release is not None
    release(False)
    assert len(replies) == 1
    release(True)
    world.pass_time(10_000)
    world.heartbeat("b", -1)
    world.pass_time(0)
    assert len(replies) == 1
    assert world.wait("a", one.epoch)[1] is None, "it has news, and is answered"
    assert world.wait("a", one.epoch + 1)[1] is not None


def test_who_breaks_the_connection_is_not_made_to_wait_again(world: World) -> None:
    one, two = calm(world, "a", "b")
    _, release = world.wait("a", one.epoch)
    assert release is not None
    release(True)
    assert len(world.wait("a", one.epoch)[0]) == 1
    assert len(world.wait("b", two.epoch)[0]) == 0


def test_a_newer_one_replaces_it(world: World) -> None:
    one, _ = calm(world, "a", "b")
    older, release = world.wait("a", one.epoch)
    newer, _ = world.wait("a", one.epoch)
    assert (len(older), len(newer)) == (1, 0)
    assert release is not None
    release(True)  # the connection of the older one ends: no concern of the newer one
    world.heartbeat("b", -1)
    world.pass_time(0)
    assert (len(older), len(newer)) == (1, 1)
    assert world.group.heartbeat_states["a"].may_be_held


def test_who_has_to_let_go_or_waits_for_somebody_is_answered(world: World) -> None:
    (one,) = calm(world, "a")
    one.lets_go_at_once = False
    new = Client(world, "b", ("t",))
    new.join()
    one.heartbeat()
    assert len(world.wait("a", one.epoch)[0]) == 1
    assert len(world.wait("b", new.epoch)[0]) == 1


def test_news_that_must_wait_for_a_target_come_with_it(world: World) -> None:
    """Two leave soon after each other: the second change is answered when it is time for another target."""
    clients = calm(world, "a", "b", "c")
    world.pass_time(5_000)
    one = clients[0]
    first, _ = world.wait("a", one.epoch)
    world.heartbeat("b", -1)
    world.pass_time(0)
    assert len(first) == 1
    epoch = first[0].member_epoch
    world.heartbeat("a", epoch, given(first[0]))
    world.pass_time(800)
    second, _ = world.wait("a", epoch)
    world.heartbeat("c", -1)
    world.pass_time(199)
    assert second == []
    world.pass_time(1)
    assert [given(each) for each in second] == [{"t": {0, 1, 2, 3}}]


def test_a_coordinator_that_moves_away_says_so(world: World) -> None:
    one, _ = calm(world, "a", "b")
    replies, _ = world.wait("a", one.epoch)
    world.shard.on_unloaded()
    assert [each.error_code for each in replies] == [ErrorCode.NOT_COORDINATOR]
    assert len(world.timer) == 0


def test_many_go_on_some_at_a_time(world: World) -> None:
    names = [f"m{number}" for number in range(SERVED_AT_ONCE * 2 + 2)]
    world.topic("many", len(names))
    clients = [Client(world, name, ("many",)) for name in names]
    for client in clients:
        client.join()
    run_until_stable(world, *clients)
    waits = [world.wait(client.id, client.epoch)[0] for client in clients[1:]]
    world.heartbeat(names[0], -1)
    world.timer.run_due(world.clock.ms)
    assert 0 < sum(map(len, waits)) <= SERVED_AT_ONCE
    world.pass_time(10)
    assert all(len(each) == 1 for each in waits)
    assert sum(given(each[0]) is not None for each in waits) == 1
