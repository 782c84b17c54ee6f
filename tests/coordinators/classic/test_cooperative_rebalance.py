"""Cooperative rebalances: who has nothing to give up is in the second round before it begins."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.cooperative_rebalance import COOPERATIVE_STICKY, HELD_JOIN_MS_MAX
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from headrace.wire.schemas.join_group import JoinGroupResponse
from headrace.wire.schemas.leave_group import MemberIdentity
from headrace.wire.schemas.sync_group import SyncGroupResponse
from tests.coordinators.classic.classic_world import GROUP, World

VERSION = 3


class Member:
    """A cooperative consumer: it keeps what it owns while it joins."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        version: int = VERSION,
        user_data: bytes = b"",
        is_static: bool = False,
    ) -> None:
        self.world, self.name = world, name
        self.is_static = is_static
        self.version, self.user_data = version, user_data
        self.id = ""
        self.owned: list[int] = []
        self.generation = -1
        self.joined: list[JoinGroupResponse] = []
        self.synced: list[SyncGroupResponse] = []

    def metadata(self) -> bytes:
        subscription = ConsumerProtocolSubscription(
            topics=["t"],
            user_data=self.user_data,
            owned_partitions=[TopicPartition("t", self.owned)] if self.owned else [],
            generation_id=self.generation,
        )
        return encode_versioned(subscription, self.version)

    def join(self) -> "Member":
        options = {"protocols": {COOPERATIVE_STICKY: self.metadata()}, "client_id": self.name}
        if self.is_static:
            options["instance_id"] = self.name
        elif not self.id:
            self.id = self.world.join(**options)[0].member_id  # type: ignore[arg-type]
        self.joined = self.world.join(self.id, **options)  # type: ignore[arg-type]
        self.synced = []
        return self

    def sync(self, shares: "dict[Member, list[int]] | None" = None) -> None:
        assert self.joined[0].error_code == 0
        self.id = self.joined[0].member_id
        self.generation = self.joined[0].generation_id
        given = {member.id: assignment(owned) for member, owned in (shares or {}).items()}
        self.synced = self.world.sync(self.id, given, generation=self.generation)

    def take(self) -> list[int]:
        """What it has to give up by its assignment; it owns the rest from now on."""
        decoded = decode_versioned(ConsumerProtocolAssignment, self.synced[0].assignment)
        given = [index for each in decoded.assigned_partitions for index in each.partitions]
        lost = [index for index in self.owned if index not in given]
        self.owned = given
        return lost


def assignment(partitions: list[int]) -> bytes:
    return encode_versioned(ConsumerProtocolAssignment([TopicPartition("t", partitions)]), 0)


def stable(world: World, *shares: list[int], **options: object) -> list[Member]:
    """A group whose members own these partitions."""
    members = [Member(world, f"m{number}", **options) for number in range(len(shares))]  # type: ignore[arg-type]
    for member in members:
        member.join()
        for other in members[: members.index(member)]:
            other.join()
    wanted = dict(zip(members, shares, strict=True))
    leader = next(each for each in members if each.joined[0].members)
    for member in members:
        if member is not leader:
            member.sync()
    leader.sync(wanted)
    for member in members:
        assert member.take() == []
    return members


def first_round(world: World, members: list[Member], newcomer: Member) -> Member:
    """All join; the member that leads."""
    for each in (newcomer, *members):
        each.join()
    (leader,) = [each for each in (newcomer, *members) if each.joined]
    return leader


def test_nobody_waits_for_heartbeats() -> None:
    world = World()
    idle, rich, richest = stable(world, [0], [1, 2, 3], [4, 5, 6, 7])
    newcomer = Member(world, "new")
    leader = first_round(world, [idle, rich, richest], newcomer)
    assert leader is richest, "who owns most has to give"
    leader.sync({idle: [0], rich: [1, 2], richest: [4, 5], newcomer: []})
    assert [bool(each.joined) for each in (idle, rich, newcomer)] == [False, True, False]
    assert richest.synced == [], "the rich hear of it together"
    rich.sync()
    assert (rich.take(), richest.take()) == ([3], [6, 7])
    richest.join()
    assert not any(each.joined for each in (idle, newcomer, richest))
    rich.join()
    told = [each.joined[0].generation_id for each in (idle, rich, richest, newcomer)]
    assert told == [5] * 4, "all are in the second round"
    for each in (idle, rich, newcomer):
        each.sync()
    (leader,) = [each for each in (idle, rich, richest, newcomer) if each.joined[0].members]
    leader.sync({idle: [0], rich: [1, 2], richest: [4, 5], newcomer: [3, 6, 7]})
    assert [each.take() for each in (idle, rich, richest, newcomer)] == [[]] * 4
    assert newcomer.owned == [3, 6, 7]


def test_what_the_leader_reads_of_those_who_were_kept_is_of_the_first_round() -> None:
    world = World()
    idle, rich = stable(world, [0], [1, 2, 3])
    newcomer = Member(world, "new")
    first_round(world, [idle, rich], newcomer).sync({idle: [0], rich: [1, 2], newcomer: []})
    rich.take()
    rich.join()
    (leader,) = [each for each in (idle, rich, newcomer) if each.joined[0].members]
    said = {
        each.member_id: decode_versioned(ConsumerProtocolSubscription, each.metadata)
        for each in leader.joined[0].members
    }
    assert [said[each.id].generation_id for each in (idle, rich, newcomer)] == [3, 3, 3]
    assert said[idle.id].owned_partitions == [TopicPartition("t", [0])]


def test_where_nobody_gives_anything_up_there_is_no_second_round() -> None:
    world = World()
    first, second, third = stable(world, [0], [1], [2, 3])
    world.leave(MemberIdentity(third.id))
    for each in (first, second):
        each.join()
    (leader,) = [each for each in (first, second) if each.joined]
    leader.sync({first: [0, 2], second: [1, 3]})
    (other,) = [each for each in (first, second) if each is not leader]
    other.sync()
    assert (first.take(), second.take()) == ([], [])
    assert (first.owned, second.owned) == ([0, 2], [1, 3])


def test_a_second_round_that_does_not_come_is_not_waited_for() -> None:
    world = World()
    idle, rich = stable(world, [0], [1, 2, 3])
    newcomer = Member(world, "new")
    first_round(world, [idle, rich], newcomer).sync({idle: [0], rich: [1, 2], newcomer: []})
    world.pass_time(HELD_JOIN_MS_MAX - 1)
    assert idle.joined == newcomer.joined == []
    world.pass_time(1)
    for each in (idle, newcomer):
        each.sync()
        assert each.take() == []
        assert world.heartbeat(each.id) is ErrorCode.NONE
    rich.take()
    rich.join()
    assert world.heartbeat(idle.id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_is_kept_goes_on_in_its_generation() -> None:
    world = World()
    idle, rich = stable(world, [0], [1, 2, 3])
    before = idle.generation
    newcomer = Member(world, "new")
    leader = first_round(world, [idle, rich], newcomer)
    assert world.group.is_generation_of(idle.id, before)
    leader.sync({idle: [0], rich: [1, 2], newcomer: []})
    assert world.heartbeat(idle.id, generation=before) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(rich.id, generation=before) is ErrorCode.ILLEGAL_GENERATION
    rich.take()
    rich.join()
    assert not world.group.is_generation_of(idle.id, before)


def test_who_is_kept_and_asks_again_is_told() -> None:
    world = World()
    idle, rich = stable(world, [0], [1, 2, 3])
    newcomer = Member(world, "new")
    first_round(world, [idle, rich], newcomer).sync({idle: [0], rich: [1, 2], newcomer: []})
    older = idle.joined
    idle.join()
    assert older[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert idle.joined[0].generation_id == 3
    idle.sync()
    assert idle.synced == [], "it has nothing to give up"
    rich.take()
    rich.join()
    assert idle.synced[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    idle.join()
    assert [each.joined[0].generation_id for each in (idle, rich, newcomer)] == [4] * 3


def test_a_leader_that_has_nothing_to_give_up_hears_of_the_second_round_at_once() -> None:
    """Which of those who own the same keeps it, only the assignor knows."""
    world = World()
    first, second = stable(world, [0, 1], [2, 3])
    newcomer = Member(world, "new")
    leader = first_round(world, [first, second], newcomer)
    (giver,) = {first, second} - {leader}
    leader.sync({leader: leader.owned, giver: giver.owned[:1], newcomer: []})
    giver.sync()
    assert leader.synced == []
    assert len(giver.take()) == 1
    giver.join()
    assert leader.synced[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    leader.join()
    assert [each.joined[0].generation_id for each in (first, second, newcomer)] == [4] * 3


def test_a_leader_with_nothing_to_give_up_has_its_share_where_no_second_round_comes() -> None:
    world = World()
    first, second = stable(world, [0, 1], [2, 3])
    newcomer = Member(world, "new")
    leader = first_round(world, [first, second], newcomer)
    (giver,) = {first, second} - {leader}
    leader.sync({leader: leader.owned, giver: giver.owned[:1], newcomer: []})
    giver.sync()
    world.pass_time(HELD_JOIN_MS_MAX)
    assert leader.take() == []
    assert world.heartbeat(leader.id) is ErrorCode.NONE


def test_a_static_member_that_restarts_with_something_to_give_up_begins_the_second_round() -> None:
    """It comes back with nothing to give up, and would keep the newcomer waiting for good."""
    world = World()
    (rich,) = stable(world, [0, 1], is_static=True)
    newcomer = Member(world, "new")
    first_round(world, [rich], newcomer).sync({rich: [0], newcomer: []})
    assert not newcomer.joined
    restarted = Member(world, rich.name, is_static=True).join()
    told = [each.joined[0].generation_id for each in (restarted, newcomer)]
    assert told == [rich.generation + 1] * 2, "both are in the second round"


def test_a_static_member_that_restarts_with_nothing_to_give_up_disturbs_nobody() -> None:
    world = World()
    (rich,) = stable(world, [0, 1], is_static=True)
    restarted = Member(world, rich.name, is_static=True).join()
    assert restarted.joined[0].generation_id == rich.generation


def test_who_leaves_while_it_is_kept_is_gone() -> None:
    world = World()
    idle, rich = stable(world, [0], [1, 2, 3])
    newcomer = Member(world, "new")
    first_round(world, [idle, rich], newcomer).sync({idle: [0], rich: [1, 2], newcomer: []})
    rich.take()
    world.leave(MemberIdentity(newcomer.id))
    assert newcomer.joined[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    rich.join()
    assert [each.joined[0].generation_id for each in (idle, rich)] == [4, 4]


def test_a_coordinator_that_moves_away_sends_who_is_kept_after_it() -> None:
    world = World()
    idle, rich = stable(world, [0], [1, 2, 3])
    newcomer = Member(world, "new")
    first_round(world, [idle, rich], newcomer).sync({idle: [0], rich: [1, 2], newcomer: []})
    world.manager.drop(GROUP)
    assert [each.joined[0].error_code for each in (idle, newcomer)] == [ErrorCode.NOT_COORDINATOR] * 2


@pytest.mark.parametrize(("version", "user_data"), [(1, b"\0\0\0\2"), (9, b"")])
def test_who_cannot_speak_for_a_later_generation_is_not_kept(version: int, user_data: bytes) -> None:
    world = World()
    options = {"version": version, "user_data": user_data}
    if version > VERSION:  # of a time to come: with fields that nobody here knows
        options["version"] = VERSION
    idle, rich = stable(world, [0], [1, 2, 3], **options)
    if version > VERSION:
        known = Member.metadata(idle)
        idle.metadata = lambda: version.to_bytes(2, "big") + known[2:] + b"more"  # type: ignore[method-assign]
    newcomer = Member(world, "new")
    for each in (newcomer, idle, rich):
        each.join()
    assert [bool(each.joined) for each in (idle, rich, newcomer)] == [True, True, False]
