"""AlterReplicaLogDirs: a replica moves to another folder under its readers and writers, and over restarts."""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.log.future_logs import log_dir_at
from headrace.testing.disk import Crash
from headrace.wire.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest
from tests.server.beside_kafka.fetch import fetch
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import Client, NodeWorld, simulated

TWO = "/data,/more"
VERSION = 2
T = TopicPartition("t", 0)


async def move(client: Client, path: str, topic: str = "t", partition: int = 0) -> ErrorCode:
    request = AlterReplicaLogDirsRequest(
        [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [partition])])]
    )
    response = await client.ask(request, VERSION)
    return ErrorCode(response.results[0].partitions[0].error_code)


async def write(client: Client, count: int = 1) -> None:
    for _ in range(count):
        response = await client.ask(produce("t", batch(2)), 12)
        assert response.responses[0].partition_responses[0].error_code == 0


async def places(client: Client) -> dict[str, list[tuple[bool, int]]]:
    """Of each folder, what it has of the partition: whether as a future replica, and its lag."""
    response = await client.ask(DescribeLogDirsRequest(None), 5)
    return {
        each.log_dir: [(p.is_future_key, p.offset_lag) for topic in each.topics for p in topic.partitions]
        for each in response.results
    }


async def read_all(client: Client) -> Any:
    response = await client.ask(fetch("t", 0), 12)
    return response.responses[0].partitions[0]


async def until_moved(world: NodeWorld, client: Client, path: str) -> None:
    for _ in range(200):
        if (await places(client))[path] == [(False, 0)]:
            return
        await world.pass_time(50)
    raise AssertionError(f"not in {path}: {await places(client)}")


def home(world: NodeWorld) -> str:
    return world.log("t").folder.rpartition("/")[0]


def other(world: NodeWorld) -> str:
    return "/more" if home(world) == "/data" else "/data"


@simulated(log_dirs=TWO)
async def test_a_replica_moves_with_all_it_has(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await write(client, 20)
    before = await read_all(client)
    target = other(world)
    assert await move(client, target) is ErrorCode.NONE
    await write(client, 3)
    await until_moved(world, client, target)
    assert home(world) == target
    await write(client, 2)
    after = await read_all(client)
    assert after.high_watermark == 50
    assert bytes(after.records).startswith(bytes(before.records))
    assert world.log("t").leader_epoch_cache.entries() == [(0, 0)]
    await world.pass_time(70_000)
    assert not [path for path in world.machine.disk.files() if "-delete" in path or "-future" in path]


@simulated(log_dirs=TWO)
async def test_it_stays_there_after_a_restart(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await write(client, 5)
    target = other(world)
    await move(client, target)
    await until_moved(world, client, target)
    world.kill(Crash.POWER_CUT)
    await world.start()
    client = await world.connect()
    assert home(world) == target
    assert (await read_all(client)).high_watermark == 10


@simulated(log_dirs=TWO)
async def test_where_it_cannot_go(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    assert await move(client, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert await move(client, "/more", "no-such-topic") is ErrorCode.REPLICA_NOT_AVAILABLE
    assert await move(client, home(world)) is ErrorCode.NONE  # it is there
    target = other(world)
    world.handle_log_dir_failure(target)
    assert await move(client, target) is ErrorCode.KAFKA_STORAGE_ERROR


@simulated(log_dirs=TWO, replica_alter_log_dirs_io_max_bytes_per_second="100")
async def test_a_throttled_move_shows_how_far_it_is_and_can_be_called_back(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await write(client, 5)
    start, target = home(world), other(world)
    assert await move(client, target) is ErrorCode.NONE
    await world.pass_time(10)
    await write(client, 5)
    found = await places(client)
    assert found[start] == [(False, 0)]
    assert found[target] == [(True, 10)]
    assert await move(client, target) is ErrorCode.NONE  # it is on its way there
    assert await move(client, start) is ErrorCode.NONE
    assert (await places(client))[target] == []
    assert home(world) == start


@simulated(log_dirs=TWO, replica_alter_log_dirs_io_max_bytes_per_second="100")
async def test_a_move_goes_on_after_a_restart(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await write(client, 5)
    target = other(world)
    await move(client, target)
    await world.pass_time(10)
    await write(client, 5)
    await world.stop()
    await world.start()
    client = await world.connect()
    await until_moved(world, client, target)
    assert (await read_all(client)).high_watermark == 20


@simulated(log_dirs=TWO, replica_alter_log_dirs_io_max_bytes_per_second="100")
async def test_a_deleted_topic_takes_its_copy_along(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await write(client, 5)
    await move(client, other(world))
    await world.pass_time(10)
    await write(client, 5)
    await world.delete_topic("t")
    await world.pass_time(70_000)
    assert (await places(client)) == {"/data": [], "/more": []}
    assert not [path for path in world.machine.disk.files() if "/t-0" in path]


@pytest.mark.parametrize("path", ["/data", "/more"])
def test_a_replica_is_made_where_it_was_asked_to_be(path: str) -> None:
    @simulated(log_dirs=TWO)
    async def script(world: NodeWorld) -> None:
        client = await world.connect()
        assert await move(client, path) is ErrorCode.REPLICA_NOT_AVAILABLE
        await world.create_topic("t")
        assert home(world) == path

    script()


@simulated(log_dirs="/data,/more,/third", replica_alter_log_dirs_io_max_bytes_per_second="100")
async def test_a_log_that_cannot_be_read_is_not_moved_and_others_are(world: NodeWorld) -> None:
    client = await world.connect()
    for topic in ("t", "u"):
        await world.create_topic(topic)
        for _ in range(5):
            await client.ask(produce(topic, batch(2)), 12)
    homes = [world.log(topic).folder.rpartition("/")[0] for topic in ("t", "u")]
    (target,) = {"/data", "/more", "/third"} - set(homes)
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path.startswith(homes[0])
    faults.read_error_rate = 1.0
    for topic in ("t", "u"):
        assert await move(client, target, topic) is ErrorCode.NONE
    await world.until(lambda: world.log("u").folder.startswith(target), "one that moved", timeout_s=600)
    store = world.node.parts.log_manager
    assert [folder.path for folder in store.log_dirs if not folder.online] == [homes[0]]
    assert len(world.node.parts.replica_alter_log_dirs_manager) == 0


@simulated(log_dirs=TWO)
async def test_a_copy_whose_folder_fails_at_the_last_moment_is_given_up(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await write(client, 5)
    start, target = home(world), other(world)
    assert await move(client, target) is ErrorCode.NONE
    folder = log_dir_at(world.node.parts.log_manager, target)
    await world.until(lambda: folder.future_logs[T].recovery_point == 10, "a copy that is whole and synced")
    world.handle_log_dir_failure(target)
    await world.until(
        lambda: len(world.node.parts.replica_alter_log_dirs_manager) == 0, "the end of the move"
    )
    assert home(world) == start
    await write(client, 1)
