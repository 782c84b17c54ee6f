"""Directories that are closed to new replicas (KIP-1066): the broker tells, the controller and it obey."""

from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.node_world import Client, NodeWorld, simulated

BROKER = 4
TWO = {"log_dirs": "/a,/b"}


async def cordon(world: NodeWorld, client: Client, *paths: str) -> None:
    """Returns when the controller knows."""
    change = AlterableConfig("cordoned.log.dirs", 0, ",".join(paths))
    resource = AlterConfigsResource(BROKER, "1", [change])
    reply = await client.ask(IncrementalAlterConfigsRequest([resource]), 1)
    assert reply.responses[0].error_code == 0, reply
    count = 2 if "*" in paths else len(paths)
    await world.until(lambda: len(cordoned(world)) == count)


def cordoned(world: NodeWorld) -> tuple[bytes, ...]:
    return world.node.image.brokers[1].cordoned_directories or ()


async def create(client: Client, name: str, partitions: int = 1) -> int:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    reply = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    return int(reply.topics[0].error_code)


async def grow(client: Client, name: str, count: int) -> int:
    wish = CreatePartitionsTopic(name=name, count=count, assignments=None)
    reply = await client.ask(CreatePartitionsRequest(topics=[wish], timeout_ms=5000), 3)
    return int(reply.results[0].error_code)


def paths_of(world: NodeWorld, name: str) -> set[str]:
    folders = world.node.parts.log_manager.log_dirs
    return {each.path for each in folders for where in each.logs if where.topic == name}


@simulated(**TWO)
async def test_a_cordoned_broker_takes_no_new_replicas(world: NodeWorld) -> None:
    client = await world.connect()
    assert await create(client, "before") == 0
    await cordon(world, client, "*")
    assert await create(client, "after") == ErrorCode.INVALID_REPLICATION_FACTOR
    assert await grow(client, "before", 2) == ErrorCode.INVALID_REPLICATION_FACTOR
    reply = await client.ask(DescribeLogDirsRequest(topics=[]), 5)
    assert [each.is_cordoned for each in reply.results] == [True, True]
    await cordon(world, client, "/b")
    assert await create(client, "after", 4) == 0
    await world.until(lambda: paths_of(world, "after") == {"/a"})
    await cordon(world, client)
    assert await grow(client, "before", 2) == 0


@simulated(cordoned_log_dirs="*", **TWO)
async def test_a_file_can_cordon_too(world: NodeWorld) -> None:
    client = await world.connect()
    await world.until(lambda: len(cordoned(world)) == 2)
    assert await create(client, "t") == ErrorCode.INVALID_REPLICATION_FACTOR
    await world.stop()
    await world.start(cordoned_log_dirs="")
    client = await world.connect()
    await world.until(lambda: not cordoned(world))
    assert await create(client, "t") == 0


@simulated(**TWO)
async def test_no_replica_moves_to_a_cordoned_directory(world: NodeWorld) -> None:
    client = await world.connect()
    await world.create_topic("t")
    (here,) = paths_of(world, "t")
    other = {"/a": "/b", "/b": "/a"}[here]
    await cordon(world, client, other)

    async def move() -> int:
        wish = AlterReplicaLogDir(other, [AlterReplicaLogDirTopic("t", [0])])
        reply: Any = await client.ask(AlterReplicaLogDirsRequest([wish]), 2)
        return int(reply.results[0].partitions[0].error_code)

    assert await move() == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    await cordon(world, client)
    assert await move() == 0
    await world.until(lambda: paths_of(world, "t") == {other})
