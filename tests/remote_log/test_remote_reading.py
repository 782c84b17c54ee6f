"""Clients of a whole node, in virtual time, read what has left its disk."""

import asyncio
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.records.batch import batches
from headrace.testing.loop import SimulatedLoop
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.remote_log.test_remote_log_manager import TOPIC, TieredWorld, tiered
from tests.server.node_world import Client

NAMES_ONLY = 12
NEWEST = 11


async def with_remote_part(world: TieredWorld, topic: str = "rows", *, count: int = 30) -> Client:
    """A topic of which only the last segment is on the node's disk."""
    await world.create_topic(topic, configs=TOPIC)
    for number in range(count):
        world.write(topic, 1)
        if number % 3 == 2:
            await asyncio.sleep(1)
    await world.copied_to(topic, count - 3)
    await world.until(lambda: world.log(topic).local_start_offset >= count - 3, "the disk is let go")
    return await world.connect()


def wish(offset: int, *, partition_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=partition_bytes)


async def fetch(client: Client, wanted: dict[str, FetchPartition], **limits: Any) -> dict[str, PartitionData]:
    limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, **limits}
    request = FetchRequest(topics=[FetchTopic(topic, partitions=[each]) for topic, each in wanted.items()])
    for name, value in limits.items():
        setattr(request, name, value)
    response = await client.ask(request, NAMES_ONLY)
    assert response.error_code == 0
    return {topic.topic: topic.partitions[0] for topic in response.responses}


def bases(data: PartitionData) -> list[int]:
    assert isinstance(data.records, bytes | memoryview)
    return [header.base_offset for _, header in batches(data.records)]


@tiered
async def test_a_consumer_reads_from_the_beginning_to_the_end(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    offset, seen = 0, []
    while offset < 30:
        data = (await fetch(client, {"rows": wish(offset)}))["rows"]
        assert data.error_code == 0
        assert (data.high_watermark, data.log_start_offset) == (30, 0)
        seen += bases(data)
        offset = seen[-1] + 1
    assert seen == list(range(30))


@tiered
async def test_partitions_with_data_are_answered_at_once(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    await world.create_topic("local")
    world.write("local", 2)
    found = await fetch(client, {"rows": wish(0), "local": wish(0)})
    assert (bases(found["rows"]), bases(found["local"])) == ([], [0, 1])
    await asyncio.sleep(1)
    found = await fetch(client, {"rows": wish(0), "local": wish(0)})
    assert bases(found["rows"])[0] == 0


@tiered
async def test_a_fetch_waits_for_the_store_also_where_it_would_not_wait_for_records(
    world: TieredWorld,
) -> None:
    client = await with_remote_part(world)
    found = await fetch(client, {"rows": wish(3)}, max_wait_ms=0, min_bytes=0)
    assert bases(found["rows"])[0] == 3


@tiered
async def test_what_came_from_the_store_is_not_held_back_for_more(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    started = world.world.driver.time()
    found = await fetch(client, {"rows": wish(3)}, max_wait_ms=20_000, min_bytes=1 << 19)
    assert bases(found["rows"])[0] == 3
    assert world.world.driver.time() - started < 1


@tiered
async def test_deleted_records_are_gone_from_both_tiers(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    request = DeleteRecordsRequest([DeleteRecordsTopic("rows", [DeleteRecordsPartition(0, 10)])], 5_000)
    result = (await client.ask(request, 2)).topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 10)
    assert (await fetch(client, {"rows": wish(9)}))["rows"].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert bases((await fetch(client, {"rows": wish(10)}))["rows"])[0] == 10
    assert (await place(client, -2))[1] == (await place(client, 0))[1] == 10


@tiered
async def test_a_store_that_fails_is_an_error_of_that_partition_alone(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    for segment in world.segments("rows"):
        world.store.delete([segment.object_name(".log")])
    await world.create_topic("local")
    world.write("local", 2)
    found = await fetch(client, {"rows": wish(0)})
    assert found["rows"].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    found = await fetch(client, {"rows": wish(0), "local": wish(0)})
    assert (found["rows"].error_code, bases(found["local"])) == (0, [0, 1])


@tiered
async def test_what_retention_has_removed_is_out_of_range(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    await world.configure("rows", retention_bytes="6000")
    await world.until(lambda: world.log("rows").log_start_offset > 0, "the oldest are removed")
    start = world.log("rows").log_start_offset
    assert (await fetch(client, {"rows": wish(0)}))["rows"].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert bases((await fetch(client, {"rows": wish(start)}))["rows"])[0] == start


@tiered
async def test_a_follower_is_sent_to_the_local_part(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    found = (await fetch(client, {"rows": wish(0)}, replica_id=2))["rows"]
    assert found.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert (found.high_watermark, found.log_start_offset) == (30, 0)


@tiered
async def test_places_and_times_over_both_tiers(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    log = world.log("rows")
    first_ms = (await place(client, 0))[0]
    times = [(await place(client, first_ms + seconds * 1_000 - 500)) for seconds in range(10)]
    assert [offset for _, offset in times] == list(range(0, 30, 3))
    assert [(stamp - first_ms + 500) // 1_000 for stamp, _ in times] == list(range(10))
    for timestamp, offset in ((-1, 30), (-2, 0), (-4, log.local_start_offset), (-5, 26), (-6, 27)):
        assert await place(client, timestamp) == (-1, offset)
    assert (await place(client, -3))[1] == 27
    assert (await place(client, first_ms + 100_000))[1] == -1


def lookup(timestamp: int, **fields: Any) -> ListOffsetsRequest:
    wanted = ListOffsetsTopic("rows", [ListOffsetsPartition(0, timestamp=timestamp)])
    return ListOffsetsRequest(replica_id=-1, topics=[wanted], **fields)


async def place(client: Client, timestamp: int) -> tuple[int, int]:
    found = (await client.ask(lookup(timestamp), NEWEST)).topics[0].partitions[0]
    assert found.error_code == 0
    assert found.offset < 0 or found.leader_epoch >= 0
    return found.timestamp, found.offset


def loop_of(world: TieredWorld) -> SimulatedLoop:
    """The node's: how long its threads take can be changed there."""
    loop = world.node.parts.loop
    assert isinstance(loop, SimulatedLoop)
    return loop


@tiered
async def test_a_lookup_that_the_store_does_not_answer_well_or_in_time(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    started = world.world.driver.time()
    loop_of(world).job_seconds = (60.0, 60.0)
    found = (await client.ask(lookup(0, timeout_ms=1_500), NEWEST)).topics[0].partitions[0]
    assert found.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert 1.5 <= world.world.driver.time() - started < 2
    loop_of(world).run_jobs_at_usual_speed()
    for segment in world.segments("rows"):
        world.store.delete([segment.object_name(".timeindex")])
    found = (await client.ask(lookup(0), NEWEST)).topics[0].partitions[0]
    assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@tiered
async def test_lookups_that_nobody_waits_for_any_more_are_forgotten(world: TieredWorld) -> None:
    await with_remote_part(world)
    await world.configure_node("remote.list.offsets.request.timeout.ms", 300)
    await world.configure_node("remote.log.reader.threads", 4)
    assert world.node.remote_log_manager is not None
    jobs = world.node.remote_log_manager.reading.offset_reader.jobs
    loop_of(world).job_seconds = (60.0, 60.0)
    clients = [await world.connect() for _ in range(20)]
    started = world.now_ms()
    asked = [client.ask(lookup(0), NEWEST) for client in clients]
    await world.until(lambda: jobs.running + jobs.waiting == 20)
    assert (jobs.running, jobs.waiting) == (4, 16)
    answers = [(await each).topics[0].partitions[0].error_code for each in asked]
    assert set(answers) == {ErrorCode.REQUEST_TIMED_OUT}
    assert 300 <= world.now_ms() - started < 1_000
    assert (jobs.running, jobs.waiting) == (4, 0)
    loop_of(world).run_jobs_at_usual_speed()
    assert bases((await fetch(clients[0], {"rows": wish(0)}))["rows"])[0] == 0, "readers do not wait for them"


@tiered
async def test_a_store_that_is_slower_than_a_fetch_waits_is_read_by_a_later_one(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    loop_of(world).job_seconds = (2.0, 2.0)
    answers = [(await fetch(client, {"rows": wish(0)}))["rows"] for _ in range(12)]
    assert {answer.error_code for answer in answers} == {0}
    assert bases(answers[0]) == []
    assert bases(answers[-1])[0] == 0


@tiered
async def test_places_where_nothing_was_copied_or_everything_is_gone(world: TieredWorld) -> None:
    """As in Apache Kafka 4.3.1's UnifiedLog: -5 is the highest offset that was ever copied, -6 lies behind it
    and not before the log's start.
    """

    async def places() -> list[int]:
        client = await world.connect()
        answers = [await client.ask(lookup(each), NEWEST) for each in (-2, -4, -5, -6)]
        return [answer.topics[0].partitions[0].offset for answer in answers]

    await world.create_topic("rows", configs=TOPIC | {"internal.segment.bytes": "1048576"})
    world.write("rows", 10)
    world.partition("rows").delete_records(5)
    await world.pass_time(5_000)
    assert await places() == [5, 5, -1, 5]
    await world.stop()
    await world.start()
    await world.until(lambda: world.log("rows").tiered_to is not None)
    assert await places() == [5, 5, -1, 5]
    await world.configure("rows", internal_segment_bytes="2048")
    world.write("rows", 1)
    await world.copied_to("rows", 10)
    await world.until(lambda: world.log("rows").local_start_offset == 10)
    assert await places() == [5, 10, 9, 10]
    world.write("rows", 1)
    world.partition("rows").delete_records(12)
    await world.until(lambda: not world.objects())
    assert await places() == [12, 12, 9, 12]
    await world.stop()
    await world.start()
    await world.until(lambda: world.log("rows").tiered_to is not None)
    assert await places() == [12, 12, 9, 12]
