"""OffsetCommit: what was acknowledged is there after a restart, and nobody commits over a new owner."""

import asyncio

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.testing.disk import Crash
from headrace.wire.schemas.offset_commit import OffsetCommitResponse
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_members import GroupMember, stable_group
from tests.server.group_requests import commit, fetch_offsets
from tests.server.node_world import Client, NodeWorld, simulated
from tests.server.partition_states import two_replicas

BY_NAME, NEWEST = 9, 10


def code(response: OffsetCommitResponse, partition: int = 0) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[partition].error_code)


async def committed(client: Client, group: str, topic: str, partition: int = 0) -> int:
    response = await client.ask(fetch_offsets(BY_NAME, group, topic, [partition]), BY_NAME)
    return int(response.groups[0].topics[0].partitions[0].committed_offset)


async def with_coordinator(world: NodeWorld) -> Client:
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    return client


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("offset_commit")


@pytest.mark.parametrize("end", ["stop", "kill", "power cut"])
@simulated(log_flush_interval_messages="1")
async def test_commits_survive(world: NodeWorld, end: str) -> None:
    await world.create_topic("t", 3)
    client = await with_coordinator(world)
    for offset in range(10):
        for group in ("g", "h", "i"):
            assert (
                code(await client.ask(commit(group, "t", {0: offset, 1: 2 * offset}), BY_NAME))
                is ErrorCode.NONE
            )
    if end == "stop":
        await world.stop()
    else:
        await world.pass_time(
            6_000
        )  # coordinators do not wait for the disk: `flush.ms` is looked at so often
        world.kill(Crash.KILL if end == "kill" else Crash.POWER_CUT)
    await world.start()
    client = await world.connect()
    for group in ("g", "h", "i"):
        assert [await committed(client, group, "t", index) for index in range(3)] == [9, 18, -1]


@simulated()
async def test_a_member_of_an_older_generation_cannot_commit(world: NodeWorld) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 2)
    request = commit("g", "t", {0: 5}, member=members[0].id, generation=members[0].generation)
    assert code(await members[0].client.ask(request, BY_NAME)) is ErrorCode.NONE
    members[1].client.close()
    await members[0].join(protocols=["range", "new"])
    late = await world.connect()
    request = commit("g", "t", {0: 1}, member=members[1].id, generation=2)
    assert code(await late.ask(request, BY_NAME)) is not ErrorCode.NONE
    assert await committed(late, "g", "t") == 5


@simulated()
async def test_a_commit_of_an_abandoned_connection_does_not_undo_a_newer_one(world: NodeWorld) -> None:
    """Over the older connection a member may do what it likes until it would go back behind the newer."""
    await world.create_topic("t")
    (member,) = await stable_group(world, "g", 1)

    def of_member(offset: int) -> object:
        return commit("g", "t", {0: offset}, member=member.id, generation=member.generation)

    older = await world.connect()
    assert code(await older.ask(of_member(5), BY_NAME)) is ErrorCode.NONE
    assert code(await older.ask(of_member(3), BY_NAME)) is ErrorCode.NONE
    await world.pass_time(10)
    newer = await world.connect()
    assert code(await newer.ask(of_member(7), BY_NAME)) is ErrorCode.NONE
    assert code(await older.ask(of_member(8), BY_NAME)) is ErrorCode.NONE
    with pytest.raises(ConnectionError):
        await older.ask(of_member(6), BY_NAME)
    assert await committed(newer, "g", "t") == 8
    assert code(await newer.ask(of_member(2), BY_NAME)) is ErrorCode.NONE
    again = await world.connect()
    assert code(await again.ask(of_member(1), BY_NAME)) is ErrorCode.NONE
    assert await committed(newer, "g", "t") == 1


@simulated()
async def test_offsets_may_be_committed_while_members_rejoin_and_not_while_they_sync(
    world: NodeWorld,
) -> None:
    await world.create_topic("t")
    members = await stable_group(world, "g", 2)
    joining = asyncio.ensure_future(members[1].join(protocols=["range", "new"]))
    await world.pass_time(100)
    request = commit("g", "t", {0: 5}, member=members[0].id, generation=2)
    assert code(await members[0].client.ask(request, BY_NAME)) is ErrorCode.NONE
    await members[0].join()
    await joining
    request = commit("g", "t", {0: 6}, member=members[0].id, generation=3)
    assert code(await members[0].client.ask(request, BY_NAME)) is ErrorCode.REBALANCE_IN_PROGRESS


@simulated()
async def test_it_is_answered_when_all_replicas_have_it(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await with_coordinator(world)
    partition = world.partition("__consumer_offsets", world.node.parts.groups.partition_of("g"))
    partition.follow_metadata(two_replicas(1, 2))
    waiting = client.ask(commit("g", "t", {0: 5}), BY_NAME)
    await world.pass_time(1_000)
    assert not waiting.done()
    partition.follow_metadata(two_replicas(1))
    assert code(await waiting) is ErrorCode.NONE


@simulated()
async def test_a_coordinator_that_moved_away_says_so_to_who_waits(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await with_coordinator(world)
    groups = world.node.parts.groups
    partition = world.partition("__consumer_offsets", groups.partition_of("g"))
    partition.follow_metadata(two_replicas(1, 2))
    waiting = client.ask(commit("g", "t", {0: 5}), BY_NAME)
    await world.pass_time(100)
    partition.follow_metadata(two_replicas(1, 2, leader=2, epoch=1))
    groups.runtime.on_leadership_change(partition)
    assert code(await waiting) is ErrorCode.NOT_COORDINATOR
    assert code(await client.ask(commit("g", "t", {0: 5}), BY_NAME)) is ErrorCode.NOT_COORDINATOR


@simulated(offset_metadata_max_bytes="10", message_max_bytes="1000")
async def test_limits(world: NodeWorld) -> None:
    await world.create_topic("t", 100)
    client = await with_coordinator(world)
    assert code(await client.ask(commit("g", "t", {0: 5}, metadata="x" * 10), BY_NAME)) is ErrorCode.NONE
    response = await client.ask(commit("g", "t", {0: 5}, metadata="x" * 11), BY_NAME)
    assert code(response) is ErrorCode.OFFSET_METADATA_TOO_LARGE


@simulated()
async def test_topics_by_id(world: NodeWorld) -> None:
    old_id = await world.create_topic("t")
    client = await with_coordinator(world)
    assert code(await client.ask(commit("g", "", {0: 5}, topic_id=old_id), NEWEST)) is ErrorCode.NONE
    await world.delete_topic("t")
    new_id = await world.create_topic("t")
    assert await committed(client, "g", "t") == -1  # another topic, though of the same name
    response = await client.ask(commit("g", "", {0: 9}, topic_id=old_id), NEWEST)
    assert code(response) is ErrorCode.UNKNOWN_TOPIC_ID
    assert code(await client.ask(commit("g", "", {0: 7}, topic_id=new_id), NEWEST)) is ErrorCode.NONE
    assert await committed(client, "g", "t") == 7


@simulated()
async def test_no_coordinator_yet(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    assert code(await client.ask(commit("g", "t", {0: 5}), BY_NAME)) is ErrorCode.NOT_COORDINATOR


@simulated()
async def test_a_broken_disk_is_another_coordinators_matter(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await with_coordinator(world)
    world.machine.disk.faults.concerns = lambda path: "__consumer_offsets" in path
    world.machine.disk.faults.write_error_rate = 1.0
    assert code(await client.ask(commit("g", "t", {0: 5}), BY_NAME)) is ErrorCode.NOT_COORDINATOR
    world.machine.disk.faults.calm()
    world.kill()


@simulated()
async def test_a_static_member_that_was_replaced_is_fenced(world: NodeWorld) -> None:
    await world.create_topic("t")
    old = (await stable_group(world, "g", 1, instance="seat"))[0]
    new = await GroupMember.connect(world, "g", "new", instance="seat")
    assert await new.join() is ErrorCode.NONE
    request = commit("g", "t", {0: 5}, member=old.id, generation=1, instance="seat")
    assert code(await old.client.ask(request, BY_NAME)) is ErrorCode.FENCED_INSTANCE_ID
    request = commit("g", "t", {0: 5}, member=new.id, generation=1, instance="seat")
    assert code(await new.client.ask(request, BY_NAME)) is ErrorCode.NONE


@simulated()
async def test_a_group_that_is_only_offsets_has_no_members(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await with_coordinator(world)
    assert code(await client.ask(commit("g", "t", {0: 1}, generation=0), 8)) is ErrorCode.ILLEGAL_GENERATION
    assert code(await client.ask(commit("g", "t", {0: 1}), 8)) is ErrorCode.NONE
    for member in ("", "m"):
        request = commit("g", "t", {0: 2}, member=member, generation=0)
        assert code(await client.ask(request, 8)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await committed(client, "g", "t") == 1
