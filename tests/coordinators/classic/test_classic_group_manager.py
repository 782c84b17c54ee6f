"""The classic protocol: joins, rebalances, zombies, static members, time."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.classic_group import ClassicGroupState
from headrace.coordinators.group.group_config_manager import ClassicGroupConfig
from headrace.wire.schemas.leave_group import MemberIdentity
from tests.coordinators.classic.classic_world import GROUP, World


def test_a_new_member_is_given_an_id_first() -> None:
    world = World()
    refused = world.join()[0]
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("c-")
    joined = world.join(refused.member_id)[0]
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, refused.member_id)
    assert [member.metadata for member in joined.members] == [b"range"]


def test_old_clients_join_without_an_id() -> None:
    assert World().join(version=3)[0].error_code == ErrorCode.NONE


def test_an_id_nobody_came_back_with_does_not_hold_up_the_group() -> None:
    world = World()
    world.join(session_ms=6_000)  # an id is given
    first, joined = world.join_new()
    assert joined[0].error_code == ErrorCode.NONE  # the first of a new group waits for nobody
    world.sync(first, {first: b"all"})
    joined = world.join(first, protocols=("range", "new"))
    assert joined == []  # later ones wait for those who were given an id
    world.pass_time(6_000)
    assert joined[0].generation_id == 2


def test_two_members_share_and_the_assignment_is_written_before_it_is_told() -> None:
    world = World()
    first, second = world.stable_pair()
    assert world.group.state is ClassicGroupState.STABLE
    assert world.written[-1] == (2, {first: b"0", second: b"1"})
    assert world.sync(first)[0].assignment == b"0"


def test_a_failed_write_starts_over() -> None:
    world = World()
    member, _ = world.join_new()
    world.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.sync(member, {member: b"x"})[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group.state is ClassicGroupState.PREPARING


def test_zombies_of_an_older_generation_are_refused() -> None:
    world = World()
    first, _ = world.stable_pair()
    assert world.heartbeat(first, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert world.sync(first, generation=1)[0].error_code == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session() -> None:
    world = World()
    first, second = world.stable_pair()
    world.pass_time(9_000)
    world.heartbeat(first)
    world.pass_time(2_000)
    assert second not in world.group.members
    assert world.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = world.join(first)
    assert rejoined[0].generation_id == 3


def test_who_does_not_rejoin_in_time_is_out() -> None:
    world = World()
    first, second = world.stable_pair()
    world.join(second, protocols=("range", "new"), rebalance_ms=60_000)
    for _ in range(12):
        world.pass_time(5_000)
        if first in world.group.members:
            world.heartbeat(first)
    assert list(world.group.members) == [second]
    assert world.group.leader_id == second


def test_who_joins_and_never_syncs_is_out() -> None:
    world = World()
    member, _ = world.join_new(rebalance_ms=8_000)
    for _ in range(2):
        world.pass_time(4_000)
        if GROUP in world.manager.groups and member in world.group.members:
            world.heartbeat(member)
    assert world.group.state is ClassicGroupState.EMPTY


def test_leave_is_at_once_and_the_last_one_empties_the_group() -> None:
    world = World()
    first, second = world.stable_pair()
    response = world.leave(MemberIdentity(second), MemberIdentity("nobody"))
    assert [each.error_code for each in response.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.leave(MemberIdentity(first))
    assert world.group.state is ClassicGroupState.EMPTY
    assert world.written[-1][1] == {}


def test_a_follower_that_rejoins_unchanged_disturbs_nobody_and_a_leader_does() -> None:
    world = World()
    first, second = world.stable_pair()
    assert world.join(second)[0].generation_id == 2
    assert world.group.state is ClassicGroupState.STABLE
    world.join(first)
    assert world.group.state is ClassicGroupState.PREPARING


def test_the_protocol_everyone_knows_wins_by_votes() -> None:
    world = World()
    first, _ = world.join_new("a", protocols=("sticky", "range", "mine"))
    world.join_new("b", protocols=("range", "sticky"))
    joined = world.join(first, protocols=("range", "sticky", "mine"))
    assert joined[0].protocol_name == "range"


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    world = World()
    _, joined = world.join_new(protocols=("range", "range", "sticky"))
    assert (joined[0].error_code, joined[0].protocol_name) == (ErrorCode.NONE, "range")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocols": ("other",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 10}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_does_not_fit_is_refused(options: dict[str, object], error: ErrorCode) -> None:
    world = World()
    world.stable_pair()
    assert world.join(**options)[0].error_code == error  # type: ignore[arg-type]


def test_a_full_group_lets_nobody_in() -> None:
    world = World(ClassicGroupConfig(initial_rebalance_delay_ms=0, size_max=1))
    world.join_new("a")
    assert world.join(client_id="b")[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_empty_group_waits_a_moment_for_more_members() -> None:
    world = World(ClassicGroupConfig(initial_rebalance_delay_ms=3_000))
    _, first = world.join_new("a")
    world.pass_time(2_000)
    _, second = world.join_new("b")
    world.pass_time(2_999)
    assert first == second == []  # a member came, so it waits once more
    world.pass_time(1)
    assert first[0].generation_id == second[0].generation_id == 1


def test_who_has_asked_for_an_id_is_waited_for_as_a_member_is() -> None:
    world = World(ClassicGroupConfig(initial_rebalance_delay_ms=3_000))
    _, first = world.join_new("a")
    world.pass_time(2_999)
    second_id = world.join(client_id="b")[0].member_id
    world.pass_time(2_999)
    second = world.join(second_id, client_id="b")
    world.pass_time(3_000)
    assert first[0].generation_id == second[0].generation_id == 1


def test_an_empty_group_does_not_wait_for_ever_for_more_members() -> None:
    world = World(ClassicGroupConfig(initial_rebalance_delay_ms=3_000))
    _, first = world.join_new("a", rebalance_ms=5_000)
    for name in "bc":
        world.pass_time(2_000)
        world.join_new(name, rebalance_ms=5_000)
    world.pass_time(999)
    assert first == []
    world.pass_time(1)
    assert first[0].generation_id == 1


def test_a_static_member_takes_its_seat_again_without_a_rebalance() -> None:
    world = World()
    old = world.join(instance_id="seat")[0].member_id
    world.sync(old, {old: b"all"})
    back = world.join(instance_id="seat")[0]
    assert (back.generation_id, back.skip_assignment, back.leader) == (1, True, back.member_id)
    assert world.group.state is ClassicGroupState.STABLE
    assert world.sync(back.member_id)[0].assignment == b"all"
    assert world.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID
    fenced = world.join(old, instance_id="seat")[0]
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_comes_back_with_more_protocols_and_nobody_minds() -> None:
    world = World()
    old = world.join(instance_id="seat")[0].member_id
    world.sync(old, {old: b"all"})
    assert world.join(instance_id="seat", protocols=("range", "sticky"))[0].generation_id == 1
    assert world.group.state is ClassicGroupState.STABLE
    # Until the group's protocol would be another one.
    assert world.join(instance_id="seat", protocols=("sticky", "range"))[0].generation_id == 2


def test_a_static_member_that_comes_back_before_the_assignment_begins_anew() -> None:
    world = World()
    world.join(instance_id="seat")
    assert world.group.state is ClassicGroupState.COMPLETING
    back = world.join(instance_id="seat")[0]
    assert (back.generation_id, back.leader) == (2, back.member_id)


def test_an_old_static_leader_is_told_that_another_leads() -> None:
    world = World()
    old = world.join(instance_id="seat", version=5)[0].member_id
    world.sync(old, {old: b"all"})
    back = world.join(instance_id="seat", version=5)[0]
    assert (back.leader, back.members, back.skip_assignment) == (old, [], False)


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    world = World()
    member = world.join(instance_id="seat")[0].member_id
    world.sync(member, {member: b"all"})
    assert world.leave(MemberIdentity("", "seat")).members[0].error_code == ErrorCode.NONE
    assert world.group.state is ClassicGroupState.EMPTY


def test_a_member_that_waits_for_others_is_not_expired() -> None:
    world = World()
    first, second = world.stable_pair()
    waiting = world.join(second, protocols=("range", "new"), session_ms=6_000)
    for _ in range(4):
        world.pass_time(5_000)
        world.heartbeat(first)
    assert second in world.group.members
    assert waiting == []


def test_forgetting_a_group_answers_who_waits_and_leaves_no_timer() -> None:
    world = World()
    first, _ = world.join_new()
    world.sync(first, {first: b"all"})
    world.join()  # an id that was given, so that who joins waits for it
    waiting = world.join(first)
    world.manager.drop(GROUP)
    assert waiting[0].error_code == ErrorCode.NOT_COORDINATOR
    assert len(world.timer) == 0
