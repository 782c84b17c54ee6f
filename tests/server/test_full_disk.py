"""A node whose disk is full: what would need room is refused, nothing ends, and all goes on when there is."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.records.batch import Record, build_batch
from headrace.testing.disk import Crash
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from headrace.wire.schemas.find_coordinator import FindCoordinatorRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.node_world import Client, NodeWorld, simulated

NEARLY_FULL = 40 << 10
"""Left on the disk: enough for the metadata log to take what it is told."""


def fill(world: NodeWorld, left_bytes: int = 0) -> None:
    tree = world.machine.disk.tree
    tree.capacity_bytes = tree.used_bytes + left_bytes


def make_room(world: NodeWorld) -> None:
    world.machine.disk.tree.capacity_bytes += 64 << 20
    world.machine.disk.faults.clear()


async def create(client: Client, name: str, *, on: int | None = None) -> tuple[int, str]:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    if on is not None:
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(0, [on])],
        )
    response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    return response.topics[0].error_code, response.topics[0].error_message or ""


async def produce(world: NodeWorld, client: Client, name: str) -> int:
    batch = build_batch([Record(0, world.machine.clock.now_ms(), None, b"v")])
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(0, batch)])]
    response: Any = await client.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), 12)
    return int(response.responses[0].partition_responses[0].error_code)


@simulated()
async def test_a_topic_is_refused_before_anybody_hears_that_it_is_there(world: NodeWorld) -> None:
    client = await world.connect()
    assert (await create(client, "before"))[0] == ErrorCode.NONE
    fill(world, NEARLY_FULL)
    for on in (None, 1):
        code, message = await create(client, "x", on=on)
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "no room on the disks" in message
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic("before", 3, None)], timeout_ms=5_000)
    response: Any = await client.ask(more, 3)
    assert response.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "x" not in world.node.image.topics_by_name
    assert world.failures == []
    make_room(world)
    assert (await create(client, "x"))[0] == ErrorCode.NONE


@simulated()
async def test_the_first_commit_is_refused_and_leaves_the_node_up(world: NodeWorld) -> None:
    """It would make __consumer_offsets."""
    client = await world.connect()
    fill(world, NEARLY_FULL)
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    response: Any = await client.ask(find, 4)
    assert response.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.failures == []
    make_room(world)

    async def has_coordinator() -> bool:
        found: Any = await client.ask(find, 4)
        return bool(found.coordinators[0].error_code == ErrorCode.NONE)

    for _ in range(100):
        if await has_coordinator():
            return
        await world.pass_time(100)
    raise AssertionError("no coordinator, though there is room")


@simulated()
async def test_a_log_that_there_was_no_room_for_is_made_when_there_is(world: NodeWorld) -> None:
    """Other brokers than the controller's own learn only then that they have none."""
    client = await world.connect()
    world.machine.disk.faults.refuses_names = True
    assert (await create(client, "x"))[0] == ErrorCode.NONE
    await world.until(lambda: "x" in world.node.image.topics_by_name)
    assert await produce(world, client, "x") == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.failures == []
    assert (await create(client, "y"))[0] == ErrorCode.NONE, "and the next one is no worse"
    make_room(world)
    await world.until(lambda: world.partition("x").log is not None, "the log is made")
    assert await produce(world, client, "x") == ErrorCode.NONE
    metadata: Any = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="x")]), 12)
    assert metadata.topics[0].partitions[0].error_code == ErrorCode.NONE


@simulated()
async def test_a_node_starts_without_room_for_checkpoints_and_logs(world: NodeWorld) -> None:
    client = await world.connect()
    assert (await create(client, "x"))[0] == ErrorCode.NONE
    assert await produce(world, client, "x") == ErrorCode.NONE
    world.machine.disk.faults.refuses_names = True
    assert (await create(client, "y"))[0] == ErrorCode.NONE
    await world.until(lambda: "y" in world.node.image.topics_by_name)
    world.kill(Crash.KILL)
    starting = world.begin_start()
    faults = world.machine.disk.faults
    faults.refuses_names = False
    fill(world, 4_000)  # room for a vote, and not much more
    await starting
    client = await world.connect()
    make_room(world)
    await world.until(lambda: world.node.parts.replica_manager.get(TopicPartition("y", 0)) is not None)
    await world.until(lambda: world.partition("y").log is not None, "the log is made")
    assert await produce(world, client, "y") == ErrorCode.NONE
    assert await produce(world, client, "x") == ErrorCode.NONE
