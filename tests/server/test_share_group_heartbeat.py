"""ShareGroupHeartbeat gives every member its partitions, and takes those away that are silent."""

import asyncio
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.node_world import NodeWorld, simulated
from tests.server.share_members import ShareMember


@simulated()
async def test_a_member_has_its_partitions_with_its_first_heartbeat(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t", 3)
    member = await ShareMember.connect(world)
    reply = await member.join("t", "none")
    assert (reply.error_code, reply.member_id) == (0, "m1")
    assert member.assigned == [(topic_id, 0), (topic_id, 1), (topic_id, 2)]
    quiet = await member.heartbeat()
    assert (quiet.member_epoch, quiet.assignment) == (reply.member_epoch, None)


@simulated()
async def test_partitions_are_shared_out_among_members_and_again_when_one_is_gone(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t", 2)
    one, two = [await ShareMember.connect(world, member_id=each) for each in ("m1", "m2")]
    await one.join("t")
    await two.join("t")
    while not two.assigned:
        await world.pass_time(500)
        await two.heartbeat()
    while len(one.assigned) > 1:
        await world.pass_time(500)
        await one.heartbeat()
    assert sorted(one.assigned + two.assigned) == [(topic_id, 0), (topic_id, 1)]
    left = await two.heartbeat(-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    while len(one.assigned) < 2:
        await world.pass_time(500)
        await one.heartbeat()


@simulated()
async def test_more_members_than_partitions_read_the_same_ones(world: NodeWorld) -> None:
    topic_id = await world.create_topic("t")
    members = [await ShareMember.connect(world, member_id=f"m{number}") for number in range(3)]
    for member in members:
        await member.join("t")
    while not all(member.assigned for member in members):
        await world.pass_time(500)
        for member in members:
            await member.heartbeat()
    assert [member.assigned for member in members] == [[(topic_id, 0)]] * 3


@simulated(group_share_initialize_retry_interval_ms="1000")
async def test_state_is_begun_once_however_many_join_and_wait(world: NodeWorld) -> None:
    """A second request that comes late would begin anew what members have accepted records of."""
    topic_id = await world.create_topic("t", 2)
    asked: list[tuple[bytes, int]] = []
    answers = []

    def initialize_at(offsets: Any, state_epoch: int, done: Any) -> None:
        asked.extend((key.topic_id, key.partition) for key in offsets)
        answers.append(lambda: begin(offsets, state_epoch, done))

    persister = world.node.parts.share_groups.persister
    begin, persister.initialize_at = persister.initialize_at, initialize_at  # type: ignore[method-assign]
    members = [await ShareMember.connect(world, member_id=f"m{number}") for number in range(3)]
    joining = asyncio.ensure_future(members[0].join("t"))
    for member in members[1:]:
        await member.join("t")
    await world.pass_time(1500)
    await members[1].heartbeat()
    assert asked == [(topic_id, 0), (topic_id, 1)]
    answers.pop()()
    await joining
    await members[1].heartbeat()
    assert members[0].assigned
    assert members[1].assigned


@simulated()
async def test_what_was_begun_under_a_leadership_that_is_over_changes_nothing(world: NodeWorld) -> None:
    """It knows an old group (seed 248 of the simulator's `share`)."""
    topic_id = await world.create_topic("t", 2)
    member = await ShareMember.connect(world)
    await member.join("t")
    groups = world.node.parts.groups
    old, index = groups.shard_for("g"), groups.partition_of("g")
    groups.runtime.unload(index)
    groups.runtime.on_leadership_change(world.partition("__consumer_offsets", index))
    await world.pass_time(100)
    told: list[ErrorCode] = []
    old.share.groups["g"].initialized.clear()
    old.share.note_initialized("g", [(topic_id, 0)], told.append)
    assert told == [ErrorCode.NOT_COORDINATOR]
    assert groups.shard_for("g").share.groups["g"].initialized[topic_id].partitions == {0, 1}


@simulated()
async def test_a_silent_member_is_removed(world: NodeWorld) -> None:
    await world.create_topic("t")
    member = await ShareMember.connect(world)
    await member.join("t")
    await world.pass_time(46_000)
    assert (await member.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@simulated()
async def test_a_topic_that_is_made_later_is_assigned(world: NodeWorld) -> None:
    member = await ShareMember.connect(world)
    await member.join("t")
    assert member.assigned == []
    topic_id = await world.create_topic("t")
    await member.heartbeat()
    assert member.assigned == [(topic_id, 0)]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ShareGroupHeartbeatRequest("g", "", 0, subscribed_topic_names=["t"]), ErrorCode.INVALID_REQUEST),
        (ShareGroupHeartbeatRequest("g", "m", 0), ErrorCode.INVALID_REQUEST),
        (ShareGroupHeartbeatRequest("g", "m", -2), ErrorCode.INVALID_REQUEST),
        (ShareGroupHeartbeatRequest("g", "m", 0, " ", ["t"]), ErrorCode.INVALID_REQUEST),
        (ShareGroupHeartbeatRequest("g", "m", 5), ErrorCode.GROUP_ID_NOT_FOUND),
        (ShareGroupHeartbeatRequest("g", "m", -1), ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_makes_no_sense_is_refused(request_: ShareGroupHeartbeatRequest, code: ErrorCode) -> None:
    @simulated()
    async def ask(world: NodeWorld) -> None:
        member = await ShareMember.connect(world)
        assert (await member.client.ask(request_, 1)).error_code == code

    ask()


@simulated(group_share_max_size="1")
async def test_wrong_epochs_and_too_many_members_are_refused(world: NodeWorld) -> None:
    await world.create_topic("t")
    one, two = [await ShareMember.connect(world, member_id=each) for each in ("m1", "m2")]
    await one.join("t")
    assert (await two.join("t")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await one.heartbeat(one.epoch + 7)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await two.heartbeat(3)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@simulated()
async def test_the_group_is_as_before_after_a_restart(world: NodeWorld) -> None:
    await world.create_topic("t")
    member = await ShareMember.connect(world)
    await member.join("t")
    await world.stop()
    await world.start()
    again = await ShareMember.connect(world)
    again.epoch, again.assigned = member.epoch, member.assigned
    reply = await again.heartbeat()
    assert (reply.error_code, reply.member_epoch, reply.assignment) == (0, member.epoch, None)


@simulated()
async def test_a_request_that_makes_no_sense_is_told_so_wherever_its_group_would_be(world: NodeWorld) -> None:
    client = await world.connect()
    for group_id, member_id, code in (
        ("", "m1", ErrorCode.INVALID_REQUEST),
        ("g", "", ErrorCode.INVALID_REQUEST),
        ("g", "m1", ErrorCode.NOT_COORDINATOR),
    ):
        request = ShareGroupHeartbeatRequest(group_id, member_id, 0, subscribed_topic_names=["t"])
        assert (await client.ask(request, 1)).error_code == code
