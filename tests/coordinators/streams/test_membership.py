"""Joining, staying in and leaving a streams group: who has which tasks, and when."""

from dataclasses import replace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.streams_group_heartbeat import StreamsGroupHeartbeatResponse, TaskIds
from tests.coordinators.consumer.consumer_world import GROUP
from tests.coordinators.streams.streams_world import (
    AT_ONCE,
    WITH_STANDBYS,
    StreamsWorld,
    at,
    statuses,
    topology,
)


def check_owners(world: StreamsWorld) -> None:
    """No task is active twice, as the clients see it, nor twice in one process."""
    active = [(number, part) for tasks in world.active.values() for number in tasks for part in tasks[number]]
    assert len(active) == len(set(active))
    for member, tasks in world.active.items():
        for number, partitions in tasks.items():
            assert partitions.isdisjoint(world.standby[member].get(number, ()))


def test_the_first_member_gets_all_tasks() -> None:
    world = StreamsWorld()
    reply = world.join("a")
    assert (reply.error_code, reply.member_epoch, reply.member_id) == (0, 2, "a")
    assert reply.active_tasks == [TaskIds("0", [0, 1, 2, 3])]
    assert (reply.standby_tasks, reply.warmup_tasks, reply.status) == ([], [], [])
    assert world.streams.state == "Stable"
    quiet = world.beat("a")
    assert (quiet.member_epoch, quiet.active_tasks, quiet.heartbeat_interval_ms) == (2, None, 5_000)


def test_tasks_move_when_they_are_closed_and_not_before() -> None:
    world = StreamsWorld()
    world.join("a")
    assert world.join("b").active_tasks == []
    assert world.streams.state == "Reconciling"
    told = world.ask("a", world.epochs["a"])
    assert told.member_epoch == 2, "it stays in its epoch until it has closed them"
    assert told.active_tasks == [TaskIds("0", [0, 1])]
    assert world.beat("b").active_tasks is None
    world.active["a"] = {"0": {0, 1}}
    assert world.beat("a").member_epoch == 3
    assert world.beat("b").active_tasks == [TaskIds("0", [2, 3])]
    check_owners(world)
    assert world.streams.state == "Stable"


def test_who_leaves_leaves_its_tasks_to_the_others() -> None:
    world = StreamsWorld()
    world.join("a")
    world.join("b")
    world.beat_all(3)
    reply = world.leave("a")
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (0, "a", -1)
    assert world.beat("b").active_tasks == [TaskIds("0", [0, 1, 2, 3])]
    world.leave("b")
    assert world.streams.state == "Empty"


def test_a_member_that_is_silent_is_removed_after_its_session() -> None:
    world = StreamsWorld()
    world.join("a")
    world.pass_time(44_999)
    assert list(world.streams.members) == ["a"]
    world.beat("a")
    world.pass_time(45_000)
    assert world.streams.state == "Empty"
    assert world.beat("a").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_close_its_tasks_is_removed_after_its_rebalance_timeout() -> None:
    world = StreamsWorld()
    world.join("a", rebalance_timeout_ms=20_000)
    world.join("b")
    world.beat_all()
    assert world.streams.state == "Reconciling"
    world.active["a"] = {"0": {0, 1, 2, 3}}  # its client works on
    for _ in range(4):
        assert world.beat("a").error_code == 0
        world.active["a"] = {"0": {0, 1, 2, 3}}
        world.pass_time(4_999)
    assert sorted(world.streams.members) == ["a", "b"]
    world.pass_time(5)
    assert sorted(world.streams.members) == ["b"]
    assert world.beat("b").active_tasks == [TaskIds("0", [0, 1, 2, 3])]


def test_the_rebalance_timeout_is_over_when_the_tasks_are_closed() -> None:
    world = StreamsWorld()
    world.join("a", rebalance_timeout_ms=20_000)
    world.join("b")
    world.beat_all(3)
    for _ in range(10):
        world.pass_time(10_000)
        world.beat_all()
    assert sorted(world.streams.members) == ["a", "b"]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (3, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, ErrorCode.NONE),
    ],
)
def test_another_epoch_than_its_own_is_fenced(epoch: int, code: ErrorCode) -> None:
    world = StreamsWorld()
    world.join("a")
    assert world.ask("a", epoch).error_code == code


def test_an_answer_that_was_lost_is_given_again() -> None:
    world = StreamsWorld()
    world.join("a")
    world.topic("in", 5)
    lost = world.ask("a", 2)
    assert (lost.member_epoch, lost.active_tasks) == (3, [TaskIds("0", [0, 1, 2, 3, 4])])
    again = world.ask("a", 2, active_tasks=[TaskIds("0", [0, 1])], standby_tasks=[], warmup_tasks=[])
    assert (again.error_code, again.member_epoch) == (0, 3)
    assert again.active_tasks == lost.active_tasks
    assert world.ask("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"


def test_an_answer_that_was_lost_in_the_same_epoch_is_given_again() -> None:
    """To close tasks, or that some have become free: neither changes the member's epoch."""
    world = StreamsWorld()
    world.join("a")
    world.join("b")
    lost = world.ask("a", 2)
    assert (lost.member_epoch, lost.active_tasks) == (2, [TaskIds("0", [0, 1])])
    assert world.beat("a").active_tasks == lost.active_tasks
    assert world.beat("a").member_epoch == 3
    freed = world.ask("b", 3)
    assert (freed.member_epoch, freed.active_tasks) == (3, [TaskIds("0", [2, 3])])
    assert world.beat("b").active_tasks == freed.active_tasks
    assert world.beat("b").active_tasks is None


def test_a_member_that_joins_again_is_told_all_it_has() -> None:
    world = StreamsWorld()
    world.join("a")
    again = world.join("a")
    assert (again.member_epoch, again.active_tasks) == (2, [TaskIds("0", [0, 1, 2, 3])])
    moved = world.join("a", process_id="another")
    assert moved.member_epoch == 3, "what it says of itself is new"


def test_unknown_groups_and_members_are_told() -> None:
    world = StreamsWorld()
    reply = world.ask("a", 1)
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Streams group {GROUP} not found.",
    )
    assert world.ask("a", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.join("a")
    assert world.ask("b", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.ask("b", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody() -> None:
    world = StreamsWorld(replace(AT_ONCE, size_max=1))
    world.join("a")
    assert world.join("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_new_group_waits_for_more_members() -> None:
    world = StreamsWorld(replace(AT_ONCE, initial_rebalance_delay_ms=3_000))
    first = world.join("a")
    assert (first.active_tasks, statuses(first), first.heartbeat_interval_ms) == ([], [5], 3_000)
    assert first.member_epoch == 1, "in epoch 0 its next heartbeat would be one that joins"
    world.pass_time(1_000)
    assert world.join("b").active_tasks == []
    waits = world.beat("a")
    assert (waits.member_epoch, waits.active_tasks, statuses(waits)) == (1, None, [5])
    world.pass_time(2_000)
    world.beat_all()
    assert world.active == {"a": {"0": {0, 2}}, "b": {"0": {1, 3}}}


def test_two_targets_have_an_interval_between_them() -> None:
    world = StreamsWorld(replace(AT_ONCE, assignment_interval_ms=1_000))
    world.join("a")
    late = world.join("b")
    assert (statuses(late), late.heartbeat_interval_ms) == ([5], 1_000)
    assert world.streams.state == "Assigning"
    world.pass_time(1_000)
    world.beat_all(3)
    assert world.active == {"a": {"0": {0, 1}}, "b": {"0": {2, 3}}}


def in_process(world: StreamsWorld, process: str, held: dict[str, dict[str, set[int]]]) -> set[int]:
    """Partitions of the one subtopology, of all threads."""
    return {part for member in world.active if member[0] == process for part in held[member].get("0", ())}


def test_standbys_are_in_other_processes_and_move_with_the_setting() -> None:
    world = StreamsWorld(text="in = kept", **{"in": 2, "kept": 2})
    for member in ("a1", "a2", "b1", "b2"):
        world.join(member, process_id=f"process {member[0]}")
    world.beat_all(5)
    assert not any(world.standby.values())
    world.streams_settings = WITH_STANDBYS
    world.beat_all(5)
    active, kept = (
        {each: in_process(world, each, held) for each in "ab"} for held in (world.active, world.standby)
    )
    assert kept == {"a": active["b"], "b": active["a"]}
    assert world.streams.state == "Stable"


def test_a_standby_becomes_active_where_its_state_is() -> None:
    world = StreamsWorld(WITH_STANDBYS, "in = kept", **{"in": 3, "kept": 3})
    for member in "abc":
        world.join(member)
    world.beat_all(6)
    check_owners(world)
    (lost,) = world.active["a"]["0"]
    (heir,) = [member for member in "bc" if lost in world.standby[member].get("0", ())]
    world.leave("a")
    world.active.pop("a"), world.standby.pop("a")
    world.beat_all(6)
    assert lost in world.active[heir]["0"]
    check_owners(world)
    assert world.streams.state == "Stable"


def test_everything_comes_back_from_the_log() -> None:
    world = StreamsWorld(WITH_STANDBYS, "in = kept", **{"in": 3, "kept": 3})
    world.join("a", user_endpoint=at("here"))
    world.join("b")
    world.beat("a")
    before = world.streams
    world.restart()
    after = world.streams
    assert after is not before
    for name in (
        "epoch",
        "assignment_epoch",
        "topology",
        "members",
        "target_assignment",
        "holders",
        "metadata_hash",
    ):
        assert getattr(after, name) == getattr(before, name), name
    world.beat_all(4)
    assert world.streams.state == "Stable"
    check_owners(world)


def test_members_have_a_session_more_after_a_restart() -> None:
    world = StreamsWorld()
    world.join("a")
    world.pass_time(44_000)
    world.restart()
    world.pass_time(44_000)
    assert world.beat("a").error_code == 0
    world.restart()
    world.pass_time(45_000)
    assert world.streams.state == "Empty"


def test_a_group_that_is_deleted_leaves_no_record() -> None:
    world = StreamsWorld()
    world.join("a")
    errors: list[ErrorCode] = []
    world.shard.delete(GROUP, errors.append)
    assert errors == [ErrorCode.NON_EMPTY_GROUP]
    world.join("b")
    world.beat_all(3)
    world.leave("a")
    world.leave("b")
    world.shard.delete(GROUP, errors.append)
    assert errors[1:] == [ErrorCode.NONE]
    assert GROUP not in world.shard.streams.groups
    left = dict(world.log)
    assert not any(left.values()), "each key has a tombstone"


def test_what_cannot_be_written_did_not_happen() -> None:
    world = StreamsWorld()
    world.join("a")
    world.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.join("b").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.ask("a", -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.write_error = ErrorCode.NONE
    assert list(world.streams.members) == ["a"]
    assert world.beat("a").member_epoch == 2
    world.pass_time(45_000)
    assert world.streams.state == "Empty"


def test_all_are_told_to_end_when_one_asks_for_it() -> None:
    world = StreamsWorld()
    world.join("a")
    world.join("b")
    world.ask("a", -1, shutdown_application=True)
    assert statuses(world.beat("b")) == [4]
    world.leave("b")
    assert statuses(world.join("c")) == []


def partitions_at(
    reply: StreamsGroupHeartbeatResponse,
) -> dict[str, tuple[list[object], list[object]]] | None:
    if reply.partitions_by_user_endpoint is None:
        return None
    return {
        each.user_endpoint.host: (
            [(topic.topic, topic.partitions) for topic in each.active_partitions],
            [(topic.topic, topic.partitions) for topic in each.standby_partitions],
        )
        for each in reply.partitions_by_user_endpoint
    }


def test_members_hear_who_answers_questions_about_which_partitions() -> None:
    world = StreamsWorld(WITH_STANDBYS, "in = kept", **{"in": 2, "kept": 2})
    world.join("a", user_endpoint=at("here"))
    world.join("b", user_endpoint=at("there"))
    world.beat_all(5)
    reply = world.ask("a", world.epochs["a"], endpoint_information_epoch=-1)
    active = {host: read for host, (read, _) in (partitions_at(reply) or {}).items()}
    kept = {host: copies for host, (_, copies) in (partitions_at(reply) or {}).items()}
    assert sorted(active) == ["here", "there"]
    assert sorted([*active["here"], *active["there"]]) == [("in", [0]), ("in", [1])]
    assert (kept["here"], kept["there"]) == (active["there"], active["here"])
    known = reply.endpoint_information_epoch
    again = world.ask("a", world.epochs["a"], endpoint_information_epoch=known)
    assert (partitions_at(again), again.endpoint_information_epoch) == (None, known)


def test_a_topology_is_the_first_members_until_the_group_is_gone() -> None:
    world = StreamsWorld(text="in", **{"in": 1, "other": 1})
    world.join("a")
    newer = world.join("b", topology=topology("other", epoch=1))
    assert (newer.error_code, newer.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    assert list(world.streams.members) == ["a"]


def test_a_member_with_an_older_topology_is_told_so() -> None:
    world = StreamsWorld()
    world.topology = topology("in", epoch=3)
    world.join("a")
    assert statuses(world.join("b", topology=topology("in", epoch=2))) == [0]
