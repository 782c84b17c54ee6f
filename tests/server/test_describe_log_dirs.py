"""DescribeLogDirs: several directories, full ones, broken ones, closed ones."""

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult
from tests.server.beside_kafka.compare import assert_answers_as_kafka
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import batch
from tests.server.node_world import NodeWorld, simulated
from tests.server.partition_states import two_replicas

NEWEST = 5


def test_answers_as_kafka_does() -> None:
    assert_answers_as_kafka("describe_log_dirs")


async def describe(world: NodeWorld, version: int = NEWEST) -> dict[str, DescribeLogDirsResult]:
    client = await world.connect()
    response = await client.ask(DescribeLogDirsRequest(None), version)
    return {each.log_dir: each for each in response.results}


def partitions(result: DescribeLogDirsResult) -> list[tuple[str, int]]:
    return [(topic.name, each.partition_index) for topic in result.topics for each in topic.partitions]


@simulated(log_dirs="/data,/more")
async def test_every_directory_shows_what_it_holds(world: NodeWorld) -> None:
    await world.create_topic("t", 4)
    found = await describe(world)
    assert list(found) == ["/data", "/more"]
    held = {path: partitions(result) for path, result in found.items()}
    assert sorted(held["/data"] + held["/more"]) == [("t", index) for index in range(4)]
    assert len(held["/data"]) == 2
    assert all(result.total_bytes > result.usable_bytes > 0 for result in found.values())
    assert all(result.total_bytes == -1 for result in (await describe(world, 3)).values())


@simulated(log_dirs="/data,/more")
async def test_a_broken_directory_is_an_error_with_nothing_in_it(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    world.handle_log_dir_failure("/more")
    found = await describe(world)
    broken, good = found["/more"], found["/data"]
    assert (broken.error_code, broken.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert (broken.total_bytes, broken.usable_bytes) == (-1, -1)
    assert (good.error_code, len(partitions(good))) == (0, 1)


@simulated(log_dirs="/data,/more", cordoned_log_dirs="/more")
async def test_a_cordoned_directory_takes_no_new_partitions_and_says_so(world: NodeWorld) -> None:
    await world.create_topic("t", 2)
    found = await describe(world)
    assert {path: result.is_cordoned for path, result in found.items()} == {"/data": False, "/more": True}
    assert len(partitions(found["/data"])) == 2


@simulated()
async def test_size_and_lag(world: NodeWorld) -> None:
    await world.create_topic("t")
    client = await world.connect()
    await client.ask(produce("t", batch(2)), 12)
    world.partition("t").follow_metadata(two_replicas(1, 2))
    await client.ask(produce("t", batch(3)), 12)
    shown = (await describe(world))["/data"].topics[0].partitions[0]
    assert (shown.partition_size, shown.offset_lag) == (len(batch(2)) + len(batch(3)), 3)
    assert not shown.is_future_key
