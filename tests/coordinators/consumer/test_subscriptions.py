"""Topics by name and by pattern, and what happens when topics change."""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.group_config_manager import GroupConfig
from tests.coordinators.consumer.consumer_world import Client, World, given, run_until_stable


def test_new_partitions_are_given_out_with_the_next_heartbeat() -> None:
    world = World()
    world.topic("t", 1)
    world.join("a", "t")
    world.pass_time(1_000)
    world.topic("t", 3)
    reply = world.heartbeat("a", 2)
    assert (reply.member_epoch, given(reply)) == (3, {"t": {0, 1, 2}})


def test_a_topic_that_comes_later() -> None:
    world = World()
    assert given(world.join("a", "t")) == {}
    world.pass_time(1_000)
    world.topic("other", 1)
    assert world.heartbeat("a", 2).member_epoch == 2  # nobody reads it: nothing changed
    world.topic("t", 2)
    assert given(world.heartbeat("a", 2)) == {"t": {0, 1}}


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
    reply = world.heartbeat("a", 1, subscribed_topic_names=["t"])
    assert (reply.member_epoch, given(reply)) == (2, {"t": {0}})


def test_a_deleted_topic_is_let_go_of() -> None:
    world = World()
    world.topic("t", 2)
    world.topic("u", 1)
    client = Client(world, "a", ("t", "u"))
    client.join()
    world.pass_time(1_000)
    world.delete_topic("t")
    client.heartbeat()
    client.heartbeat()
    assert (client.owned, client.epoch, world.group.state) == ({"u": {0}}, 3, "Stable")


def test_a_topic_made_again_is_another_topic() -> None:
    world = World()
    world.topic("t", 1)
    client = Client(world, "a", ("t",))
    client.join()
    world.pass_time(1_000)
    world.delete_topic("t")
    client.heartbeat()
    client.heartbeat()
    world.pass_time(1_000)
    world.topic("t", 2)
    client.heartbeat()
    assert client.owned == {"t": {0, 1}}


def test_a_changed_subscription_starts_a_new_epoch() -> None:
    world = World()
    world.topic("t", 1)
    world.topic("u", 1)
    world.join("a", "t")
    world.pass_time(1_000)
    assert given(world.heartbeat("a", 2, subscribed_topic_names=["t", "u"])) == {"t": {0}, "u": {0}}
    assert (
        world.heartbeat("a", 3, subscribed_topic_names=["u", "t"]).member_epoch == 3
    )  # the same, said otherwise


def test_a_change_of_racks_starts_a_new_epoch() -> None:
    world = World()
    world.topic("t", 1)
    world.join("a", "t")
    world.pass_time(1_000)
    world.broker(1, "west")
    assert world.heartbeat("a", 2).member_epoch == 3


# --- patterns ---


def test_a_pattern_matches_whole_names_now_and_later() -> None:
    world = World()
    for name in ("logs.a", "logs.b", "my.logs.a"):
        world.topic(name, 1)
    client = Client(world, "a", (), {"subscribed_topic_regex": r"logs\..*"})
    client.join()
    assert client.owned == {"logs.a": {0}, "logs.b": {0}}
    world.pass_time(1_000)
    world.topic("logs.c", 2)
    world.delete_topic("logs.a")
    client.heartbeat()
    client.heartbeat()
    assert client.owned == {"logs.b": {0}, "logs.c": {0, 1}}


def test_where_nobody_asks_a_pattern_keeps_its_topics_until_somebody_does() -> None:
    """Who is gone has no rights to look with: the topics that came meanwhile are found by the next one."""
    world = World()
    world.topic("logs.a", 1)
    world.join("a", subscribed_topic_regex="logs.*")
    world.join("b", subscribed_topic_regex="logs.*")
    world.topic("logs.b", 1)
    world.heartbeat("b", -1)
    assert world.group.regexes["logs.*"].topics == {"logs.a"}
    world.pass_time(1_000)
    world.heartbeat("a", 2)
    assert world.group.regexes["logs.*"].topics == {"logs.a", "logs.b"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"subscribed_topic_regex": "t.*"}, {"subscribed_topic_regex": "t.*"}),
        ({"subscribed_topic_regex": "t.*"}, {"subscribed_topic_regex": "t|u"}),
        ({"subscribed_topic_names": ["t"]}, {"subscribed_topic_regex": "t.*"}),
        ({"subscribed_topic_regex": "t.*"}, {"subscribed_topic_names": ["t"]}),
    ],
    ids=["the same pattern", "another pattern", "names, then a pattern", "a pattern, then names"],
)
def test_who_comes_for_the_same_topics_in_any_way_has_a_share(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    world = World()
    world.topic("t", 10)
    clients = [Client(world, "a", (), first), Client(world, "b", (), second)]
    for client in clients:
        client.join()
        world.pass_time(1_000)
    run_until_stable(world, *clients)
    assert [len(each.owned["t"]) for each in clients] == [5, 5]


def test_topics_that_change_while_an_answer_waits_for_replicas_are_looked_at() -> None:
    world = World()
    world.topic("t", 1)
    world.settings = GroupConfig(assignment_interval_ms=0)
    replies = world.join_later("a", "t")
    world.topic("t", 3)
    world.replicate()
    assert given(replies[0]) == {"t": {0}}
    assert given(world.heartbeat("a", replies[0].member_epoch)) == {"t": {0, 1, 2}}


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
    world.heartbeat("a", -1)
    assert list(world.group.regexes) == ["t.*"]
    world.heartbeat("b", 2, subscribed_topic_regex="", subscribed_topic_names=["t"])
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
    run_until_stable(world, *clients)
    assert [client.owned for client in clients] == [{"t": {0}, "u": {0}}, {"t": {1}, "u": {1}}, {}]
    assert world.join("d", "t", server_assignor="sticky").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
