"""A live group changes its protocol: classic members in a consumer group, up and down again."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.classic.classic_group import ClassicGroupState, JoinFeatures
from headrace.coordinators.group.classic.classic_group_manager import Caller
from headrace.coordinators.group.group_config_manager import GroupConfig
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.wire.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinators.consumer.consumer_world import GROUP, Client, World, given

Held = dict[str, set[int]]


def _wire(owned: Held) -> list[TopicPartition]:
    return [TopicPartition(name, sorted(each)) for name, each in owned.items()]


class Classic:
    """A member of the classic protocol, eager unless it says what it still owns when it joins."""

    def __init__(self, world: World, client_id: str, *topics: str, cooperative: bool = False) -> None:
        self.world = world
        self.client_id = client_id
        self.topics = topics
        self.cooperative = cooperative
        self.id = ""
        self.generation = -1
        self.owned: Held = {}

    def ask_to_join(self, **fields: Any) -> list[JoinGroupResponse]:
        owned = _wire(self.owned) if self.cooperative else []
        subscription = ConsumerProtocolSubscription(list(self.topics), owned_partitions=owned)
        options: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", encode_versioned(subscription, 1))],
        }
        answers: list[JoinGroupResponse] = []
        self.world.shard.group_metadata_manager.classic_group_join(
            JoinGroupRequest(group_id=GROUP, member_id=self.id, **(options | fields)),
            Caller(self.client_id, "/127.0.0.1"),
            features=JoinFeatures(member_id_required=True, can_skip_assignment=True),
            now_ms=self.world.clock.ms,
            answer=answers.append,
        )
        return answers

    def join(self) -> JoinGroupResponse:
        answers = self.ask_to_join()
        if answers and answers[0].error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answers[0].member_id
            answers = self.ask_to_join()
        assert answers[0].error_code == 0, answers
        self.generation = answers[0].generation_id
        return answers[0]

    def sync(self, shares: dict[str, Held] | None = None) -> SyncGroupResponse:
        assignments = [
            SyncGroupRequestAssignment(member, encode_versioned(ConsumerProtocolAssignment(_wire(owned)), 1))
            for member, owned in (shares or {}).items()
        ]
        request = SyncGroupRequest(GROUP, self.generation, self.id, assignments=assignments)
        answers: list[SyncGroupResponse] = []
        self.world.shard.group_metadata_manager.classic_group_sync(
            request, now_ms=self.world.clock.ms, answer=answers.append
        )
        reply = answers[0]
        if not reply.error_code:
            assigned = decode_versioned(ConsumerProtocolAssignment, reply.assignment).assigned_partitions
            self.owned = {each.topic: set(each.partitions) for each in assigned}
        return reply

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(GROUP, self.generation, self.id)
        return self.world.shard.group_metadata_manager.classic_group_heartbeat(
            request, now_ms=self.world.clock.ms
        )

    def follow(self) -> None:
        """What a client does: heartbeats, and joins again where it has to."""
        while self.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            assert self.sync().error_code == 0

    def leave(self) -> LeaveGroupResponse:
        answers: list[LeaveGroupResponse] = []
        request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.id)])
        self.world.shard.group_metadata_manager.classic_group_leave(
            request, now_ms=self.world.clock.ms, answer=answers.append
        )
        return answers[0]


@pytest.fixture
def world() -> World:
    world = World()
    world.topic("t", 4)
    return world


def _alone(world: World, **options: Any) -> Classic:
    """A stable classic group of one."""
    old = Classic(world, "old", "t", **options)
    old.join()
    old.sync({old.id: {"t": {0, 1, 2, 3}}})
    assert world.shard.classic.groups[GROUP].state is ClassicGroupState.STABLE
    return old


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_new_member_takes_a_share_of_a_classic_group(world: World, cooperative: bool) -> None:
    old = _alone(world, cooperative=cooperative)
    new = Client(world, "new", ("t",))
    new.join()
    assert GROUP not in world.shard.classic.groups
    assert (new.owned, world.group.epoch) == ({}, 2)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    old.follow()
    new.heartbeat()
    assert (old.owned, new.owned) == ({"t": {0, 1}}, {"t": {2, 3}})
    assert (old.generation, old.heartbeat(), world.group.state) == (2, ErrorCode.NONE, "Stable")


def test_the_last_of_the_new_ones_leaves_a_classic_group_behind(world: World) -> None:
    old = _alone(world, cooperative=True)
    new = Client(world, "new", ("t",))
    new.join()
    old.follow()
    new.heartbeat()
    world.heartbeat("new", -1)
    assert GROUP not in world.protocol.groups
    classic = world.shard.classic.groups[GROUP]
    assert (list(classic.members), classic.generation) == ([old.id], 2)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS  # not ILLEGAL_GENERATION: it loses nothing
    reply = old.join()
    assert (reply.leader, reply.generation_id) == (old.id, 3)
    old.sync({old.id: {"t": {0, 1, 2, 3}}})
    assert old.heartbeat() is ErrorCode.NONE


def test_it_also_goes_back_when_the_new_one_falls_silent(world: World) -> None:
    old = _alone(world)
    world.join("new", "t")
    for _ in range(9):
        old.follow()
        world.pass_time(5_000)
    assert GROUP in world.shard.classic.groups
    assert GROUP not in world.protocol.groups


def test_classic_members_are_there_after_a_restart(world: World) -> None:
    old = _alone(world, cooperative=True)
    new = Client(world, "new", ("t",))
    new.join()
    old.follow()
    new.heartbeat()
    world.restart()
    assert old.heartbeat() is ErrorCode.NONE
    assert old.sync().error_code == 0
    assert old.owned == {"t": {0, 1}}


def test_who_waits_in_a_rebalance_is_told_to_join_again(world: World) -> None:
    old = _alone(world)
    other = Classic(world, "other", "t")
    other.id = other.ask_to_join()[0].member_id
    waiting = other.ask_to_join()
    assert waiting == []
    world.join("new", "t")
    assert waiting[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(1_000)
    other.join()
    other.sync()
    old.follow()
    assert len(world.group.members) == 3


def test_a_silent_classic_member_is_out_after_its_own_session(world: World) -> None:
    _alone(world)
    new = Client(world, "new", ("t",))
    new.join()
    world.pass_time(10_000)
    assert list(world.group.members) == ["new"]
    new.heartbeat()
    assert new.owned == {"t": {0, 1, 2, 3}}


def test_who_is_told_to_join_and_does_not_is_out(world: World) -> None:
    old = _alone(world)
    world.join("new", "t")
    for _ in range(6):
        world.pass_time(5_000)
        old.heartbeat()
        world.heartbeat("new", 2)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(5_000)
    assert list(world.group.members) == ["new"]


@pytest.mark.parametrize("policy", [{"upgrade": False}, {"downgrade": False}])
def test_the_policy_decides(policy: dict[str, bool]) -> None:
    world = World(settings=replace(GroupConfig(), **policy))
    world.topic("t", 2)
    old = _alone(world)
    reply = world.join("new", "t")
    if "upgrade" in policy:
        assert reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert old.heartbeat() is ErrorCode.NONE
    else:
        assert reply.error_code == ErrorCode.NONE
        world.heartbeat("new", -1)
        assert list(world.group.members) == [old.id]  # it stays a consumer group


def test_a_group_with_a_protocol_of_its_own_does_not_change(world: World) -> None:
    old = Classic(world, "old", "t")
    mine = [JoinGroupRequestProtocol("v1", b"?")]
    fields: dict[str, Any] = {"protocol_type": "connect", "protocols": mine}
    old.id = old.ask_to_join(**fields)[0].member_id
    old.ask_to_join(**fields)
    assert world.join("new", "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert GROUP not in world.protocol.groups


def test_a_consumer_group_takes_classic_members(world: World) -> None:
    new = Client(world, "new", ("t",))
    new.join()
    world.pass_time(1_000)
    old = Classic(world, "old", "t", cooperative=True)
    assert old.join().leader == ""
    old.sync()
    assert old.owned == {}
    new.heartbeat()
    new.heartbeat()
    old.follow()
    assert (new.owned, old.owned) == ({"t": {0, 1}}, {"t": {2, 3}})
    assert old.ask_to_join(protocol_type="other")[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    old.generation -= 1
    assert old.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert old.sync().error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_joins_again_for_new_partitions_only(world: World) -> None:
    old = _alone(world)
    new = Client(world, "new", ("t",))
    new.join()
    old.follow()
    new.heartbeat()
    world.pass_time(1_000)
    world.topic("another", 3)
    assert old.heartbeat() is ErrorCode.NONE
    world.topic("t", 6)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    old.follow()
    new.heartbeat()
    assert sorted(map(len, (old.owned["t"], new.owned["t"]))) == [3, 3]


def test_who_was_put_out_is_told_so_unless_it_has_let_go_of_everything(world: World) -> None:
    world.join("new", "t")
    old = Classic(world, "old", "t", cooperative=True)
    old.join()
    old.sync()
    world.pass_time(20_000)  # more than its session
    old.owned = {"t": {0}}
    (answer,) = old.ask_to_join()
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    old.owned = {}
    old.join()


def test_a_static_member_restarts_with_the_other_protocol(world: World) -> None:
    """A classic static member does not say when it leaves: its seat is taken as it comes back, both ways."""
    old = Classic(world, "old", "t")
    seat = {"group_instance_id": "seat"}
    joined = old.ask_to_join(**seat)[0]
    old.id, old.generation = joined.member_id, joined.generation_id
    world.shard.group_metadata_manager.classic_group_sync(
        SyncGroupRequest(
            GROUP,
            old.generation,
            old.id,
            "seat",
            assignments=[
                SyncGroupRequestAssignment(
                    old.id, encode_versioned(ConsumerProtocolAssignment(_wire({"t": {0, 1, 2, 3}})), 1)
                )
            ],
        ),
        now_ms=world.clock.ms,
        answer=lambda reply: None,
    )
    back = world.join("new", "t", instance_id="seat")
    assert given(back) == {"t": {0, 1, 2, 3}}
    assert list(world.group.members) == ["new"]
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    again = Classic(world, "old", "t")
    reply = again.ask_to_join(**seat)[0]
    assert reply.error_code == 0
    assert list(world.shard.classic.groups[GROUP].members) == [reply.member_id]
    assert GROUP not in world.protocol.groups


def test_leaving_as_a_classic_member_does(world: World) -> None:
    old = _alone(world)
    new = Client(world, "new", ("t",))
    new.join()
    assert old.leave().members[0].error_code == 0
    assert old.leave().members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.pass_time(1_000)
    new.heartbeat()
    assert new.owned == {"t": {0, 1, 2, 3}}


def test_an_empty_group_becomes_what_its_next_member_is(world: World) -> None:
    world.join("new", "t")
    world.heartbeat("new", -1)
    old = _alone(world)
    assert GROUP not in world.protocol.groups
    old.leave()
    assert world.shard.classic.groups[GROUP].state is ClassicGroupState.EMPTY
    assert given(world.join("new", "t")) == {"t": {0, 1, 2, 3}}
    assert GROUP not in world.shard.classic.groups


def test_an_id_that_was_given_and_not_used_keeps_nobody_out(world: World) -> None:
    old = Classic(world, "old", "t")
    (asked,) = old.ask_to_join()
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert given(world.join("new", "t")) == {"t": {0, 1, 2, 3}}
    old.id = asked.member_id
    assert old.join().member_id == asked.member_id
