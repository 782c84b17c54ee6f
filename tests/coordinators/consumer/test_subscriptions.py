"""Topics by name and by pattern, and what happens when topics change."""

import pytest

from headrace.base.error_codes import ErrorCode
from tests.coordinators.consumer.consumer_world import Client, World, given, settle


def test_new_partitions_are_given_out_with_the_next_heartbeat() -> None:
    world = World()
    world.topic("t", 1)
    world.join("a", "t")
    world.pass_time(1_000)
    world.topic("t", 3)
    reply = world.beat("a", 2)
    assert (reply.member_epoch, given(reply)) == (3, {"t": {0, 1, 2}})


def test_a_topic_that_comes_later() -> None:
    world = World()
    assert given(world.join("a", "t")) == {}
    world.pass_time(1_000)
    world.topic("other", 1)
    assert world.beat("a", 2).member_epoch == 2  # nobody reads it: nothing changed
    world.topic("t", 2)
    assert given(world.beat("a", 2)) == {"t": {0, 1}}


def test_who_wants_nothing_begins_no_epoch() -> None:
    world = World()
    world.topic("t", 1)
    assert world.join("a").member_epoch == 1
    assert world.join("b").member_epoch == 1
    world.restart()
    assert (world.group.epoch, world.group.assignment_epoch, sorted(world.group.members)) == (
        1,
        1,
        ["a", "b"],
    )
    world.pass_time(1_000)
    reply = world.beat("a", 1, subscribed_topic_names=["t"])
    assert (reply.member_epoch, given(reply)) == (2, {"t": {0}})


def test_a_deleted_topic_is_let_go_of() -> None:
    world = World()
    world.topic("t", 2)
    world.topic("u", 1)
    client = Client(world, "a", ("t", "u"))
    client.join()
    world.pass_time(1_000)
    world.delete_topic("t")
    client.beat()
    client.beat()
    assert (client.held, client.epoch, world.group.state) == ({"u": {0}}, 3, "Stable")


def test_a_topic_made_again_is_another_topic() -> None:
    world = World()
    world.topic("t", 1)
    client = Client(world, "a", ("t",))
    client.join()
    world.pass_time(1_000)
    world.delete_topic("t")
    client.beat()
    client.beat()
    world.pass_time(1_000)
    world.topic("t", 2)
    client.beat()
    assert client.held == {"t": {0, 1}}


def test_a_changed_subscription_starts_a_new_epoch() -> None:
    world = World()
    world.topic("t", 1)
    world.topic("u", 1)
    world.join("a", "t")
    world.pass_time(1_000)
    assert given(world.beat("a", 2, subscribed_topic_names=["t", "u"])) == {"t": {0}, "u": {0}}
    assert world.beat("a", 3, subscribed_topic_names=["u", "t"]).member_epoch == 3  # the same, said otherwise


def test_a_change_of_racks_starts_a_new_epoch() -> None:
    world = World()
    world.topic("t", 1)
    world.join("a", "t")
    world.pass_time(1_000)
    world.broker(1, "west")
    assert world.beat("a", 2).member_epoch == 3


# --- patterns ---


def test_a_pattern_matches_whole_names_now_and_later() -> None:
    world = World()
    for name in ("logs.a", "logs.b", "my.logs.a"):
        world.topic(name, 1)
    client = Client(world, "a", (), {"subscribed_topic_regex": r"logs\..*"})
    client.join()
    assert client.held == {"logs.a": {0}, "logs.b": {0}}
    world.pass_time(1_000)
    world.topic("logs.c", 2)
    world.delete_topic("logs.a")
    client.beat()
    client.beat()
    assert client.held == {"logs.b": {0}, "logs.c": {0, 1}}


def test_names_and_a_pattern_add_up() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.topic(name, 1)
    assert given(world.join("m", "c", subscribed_topic_regex="a|b")) == {"a": {0}, "b": {0}, "c": {0}}


def test_a_pattern_nobody_uses_is_forgotten() -> None:
    world = World()
    world.topic("t", 2)
    world.join("a", subscribed_topic_regex="t.*")
    world.join("b", subscribed_topic_regex="t.*")
    world.beat("a", -1)
    assert list(world.group.regexes) == ["t.*"]
    world.beat("b", 2, subscribed_topic_regex="", subscribed_topic_names=["t"])
    assert world.group.regexes == {}


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a{2000}", "[z-a]"])
def test_a_pattern_that_re2_does_not_take_is_refused(pattern: str) -> None:
    world = World()
    reply = world.join("a", subscribed_topic_regex=pattern)
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.protocol.groups == {}


def test_a_pattern_made_to_explode_is_harmless() -> None:
    world = World()
    world.topic("a" * 200 + "b", 1)
    assert given(world.join("m", subscribed_topic_regex="(a+)+c|(a*)*c")) == {}


def test_an_assignor_is_chosen_by_votes() -> None:
    world = World()
    world.topic("t", 2)
    world.topic("u", 2)
    clients = [
        Client(world, "a", ("t", "u"), {"server_assignor": "range"}),
        Client(world, "b", ("t", "u"), {"server_assignor": "range"}),
        Client(world, "c", ("t", "u"), {"server_assignor": "uniform"}),
    ]
    for client in clients:
        client.join()
    settle(world, *clients)
    assert [client.held for client in clients] == [{"t": {0}, "u": {0}}, {"t": {1}, "u": {1}}, {}]
    assert world.join("d", "t", server_assignor="sticky").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
