"""Joining, leaving and being fenced: who is in the group, and with which epoch."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.group_config_manager import GroupConfig
from tests.coordinators.consumer.consumer_world import GROUP, Client, World, given, run_until_stable, topic_id


@pytest.fixture
def world() -> World:
    world = World()
    world.topic("t", 4)
    return world


def test_the_first_member_has_everything_at_once(world: World) -> None:
    reply = world.join("a", "t")
    assert (reply.member_id, reply.member_epoch, given(reply)) == ("a", 2, {"t": {0, 1, 2, 3}})
    assert world.group.state == "Stable"


def test_the_second_waits_until_the_first_let_go(world: World) -> None:
    world.join("a", "t")
    world.pass_time(1_000)
    assert given(world.join("b", "t")) == {}
    assert given(world.heartbeat("a", 2)) == {"t": {0, 1}}
    assert given(world.heartbeat("b", 3)) is None
    assert world.heartbeat("a", 2, {"t": {0, 1, 2, 3}}).member_epoch == 2
    assert world.heartbeat("a", 2, {"t": {0, 1}}).member_epoch == 3
    assert given(world.heartbeat("b", 3)) == {"t": {2, 3}}
    assert world.group.state == "Stable"


def test_those_who_stay_keep_what_they_have(world: World) -> None:
    """Nobody's remaining partitions move when a member comes or goes."""
    clients = [Client(world, name, ("t",)) for name in "abc"]
    for client in clients[:2]:
        client.join()
    run_until_stable(world, *clients[:2])
    before = [client.owned["t"] for client in clients[:2]]
    clients[2].join()
    run_until_stable(world, *clients)
    kept = [client.owned["t"] for client in clients[:2]]
    assert all(now <= then for now, then in zip(kept, before, strict=True))
    world.heartbeat("c", -1)
    run_until_stable(world, *clients[:2])
    assert all(now >= then for now, then in zip([c.owned["t"] for c in clients[:2]], kept, strict=True))


def test_a_leave_frees_partitions_at_once(world: World) -> None:
    one, other = Client(world, "a", ("t",)), Client(world, "b", ("t",))
    one.join()
    other.join()
    run_until_stable(world, one, other)
    assert world.heartbeat("a", -1).member_epoch == -1
    assert world.group.state == "Assigning"
    other.heartbeat()
    assert other.owned == {"t": {0, 1, 2, 3}}


def test_the_last_one_leaves_an_empty_group_whose_epoch_goes_on(world: World) -> None:
    world.join("a", "t")
    world.heartbeat("a", -1)
    assert (world.group.state, world.group.epoch, world.group.owners) == ("Empty", 3, {})
    world.pass_time(1_000)
    assert world.join("b", "t").member_epoch == 4


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (3, None, ErrorCode.NONE),
        (4, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {}, ErrorCode.NONE),
        (2, {"t": {0, 1}}, ErrorCode.NONE),
        (2, {"t": {0, 1, 2}}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_an_epoch_is_right_or_one_behind_with_nothing_more(
    world: World, epoch: int, owned: dict[str, set[int]] | None, error: ErrorCode
) -> None:
    one, other = Client(world, "a", ("t",)), Client(world, "b", ("t",))
    one.join()
    world.pass_time(1_000)
    other.join()
    one.heartbeat()
    one.heartbeat()
    assert (one.epoch, one.owned) == (3, {"t": {0, 1}})
    assert world.heartbeat("a", epoch, owned).error_code == error


def test_strangers_are_refused(world: World) -> None:
    assert world.heartbeat("a", 2).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.join("a", "t")
    assert world.heartbeat("b", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("b", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_else() -> None:
    world = World(settings=GroupConfig(size_max=1))
    world.topic("t", 1)
    world.join("a", "t")
    assert world.join("b", "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("a", "t").error_code == ErrorCode.NONE


def test_the_coordinator_makes_an_id_for_who_has_none(world: World) -> None:
    assert world.join("", "t", version=0).member_id == "id-1"
    assert list(world.group.members) == ["id-1"]


def test_a_write_that_failed_changes_nothing(world: World) -> None:
    world.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.join("a", "t").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in world.protocol.groups
    world.write_error = ErrorCode.NONE
    assert given(world.join("a", "t")) == {"t": {0, 1, 2, 3}}


# --- static members ---


def test_a_static_member_comes_back_to_what_it_had(world: World) -> None:
    one, other = Client(world, "a", ("t",), {"instance_id": "i"}), Client(world, "b", ("t",))
    one.join()
    other.join()
    run_until_stable(world, one, other)
    epoch = world.group.epoch
    had = one.owned
    assert world.heartbeat("a", -2, instance_id="i").member_epoch == -2
    other.heartbeat()
    assert other.owned == {"t": {0, 1, 2, 3} - had["t"]}
    back = world.join("a2", "t", instance_id="i")
    assert (given(back), world.group.epoch) == (had, epoch)
    assert sorted(world.group.members) == ["a2", "b"]
    assert world.heartbeat("a", epoch, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_seat_in_use_is_not_given_away(world: World) -> None:
    world.join("a", "t", instance_id="i")
    assert world.join("b", "t", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_out_after_its_session(world: World) -> None:
    world.join("a", "t", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.pass_time(44_999)
    assert world.group.static_members == {"i": "a"}
    world.pass_time(1)
    assert (world.group.members, world.group.static_members) == ({}, {})


def test_a_static_member_may_change_its_mind_while_away(world: World) -> None:
    """It comes back with another subscription: its old partitions must be free for it to forget them."""
    world.topic("u", 2)
    world.join("a", "t", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.pass_time(1_000)
    back = world.join("b", "u", instance_id="i")
    assert given(back) == {"u": {0, 1}}
    assert set(world.group.owners) == {(topic_id("u"), 0), (topic_id("u"), 1)}
