"""The regular work on logs, at its intervals, in virtual time."""

import pytest

from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.records.batch import Record, build_batch
from headrace.replication.drivers.log_manager_tasks import RETENTION_SLICE
from tests.server.beside_kafka.produce import produce
from tests.server.beside_kafka.talk import RECORD_MS, batch
from tests.server.node_world import NodeWorld, simulated

TP = TopicPartition("t", 0)
MINUTE_MS = 60_000


async def put(world: NodeWorld, count: int = 1, **options: int) -> None:
    client = await world.connect()
    response = await client.ask(produce("t", batch(count, **options)), 12)
    assert response.responses[0].partition_responses[0].error_code == 0


def checkpoint(world: NodeWorld, name: str) -> dict[TopicPartition, int]:
    return decode_offsets(world.machine.disk.read_file(f"/data/{name}"))


def segments(world: NodeWorld) -> list[str]:
    return [name for name in world.machine.disk.list("/data/t-0") if name.endswith(".log")]


@simulated()
async def test_high_watermarks_are_written_every_five_seconds_where_one_moved(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world, 3)
    await world.pass_time(5_100)
    assert checkpoint(world, "replication-offset-checkpoint") == {TP: 3}
    await world.pass_time(20_000)  # whatever else goes on at a start is over
    before = world.machine.disk.faults.operations
    await world.pass_time(10_000)
    assert world.machine.disk.faults.operations == before
    await put(world, 2)
    await world.pass_time(5_100)
    assert checkpoint(world, "replication-offset-checkpoint") == {TP: 5}


@simulated()
async def test_recovery_points_are_written_every_minute(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"flush.messages": "1"})
    await put(world, 3)
    assert checkpoint(world, "recovery-point-offset-checkpoint").get(TP, 0) == 0
    await world.pass_time(MINUTE_MS + 100)
    assert checkpoint(world, "recovery-point-offset-checkpoint")[TP] == 3


@simulated()
async def test_flush_ms_is_kept(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"flush.ms": "1000"})
    await put(world, 3)
    assert world.log("t").recovery_point == 0
    await world.pass_time(6_200)
    assert world.log("t").recovery_point == 3


@simulated()
async def test_without_settings_the_page_cache_is_trusted(world: NodeWorld) -> None:
    await world.create_topic("t")
    await put(world, 3)
    await world.pass_time(60 * MINUTE_MS)
    assert world.log("t").recovery_point == 0


@simulated()
async def test_a_segment_that_was_closed_is_made_durable_soon(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"segment.bytes": "1048576"})
    for _ in range(4):
        await put(world, 10, size=60_000)
    assert len(segments(world)) > 1
    await world.pass_time(1_100)
    assert world.log("t").recovery_point >= world.log("t").segments.active.base_offset


@simulated()
async def test_old_segments_go_by_time(world: NodeWorld) -> None:
    settings = {"segment.ms": "60000", "retention.ms": "600000", "file.delete.delay.ms": "1000"}
    await world.create_topic("t", configs=settings)
    now_ms = world.machine.clock.now_ms()
    for minute in range(3):
        await put(world, at_ms=now_ms + minute * (MINUTE_MS + 1_000))
        await world.pass_time(MINUTE_MS + 1_000)
    assert len(segments(world)) == 3
    assert world.log("t").log_start_offset == 0
    await world.pass_time(16 * MINUTE_MS)  # log.retention.check.interval.ms is five minutes
    assert world.log("t").log_start_offset == 3
    await world.pass_time(5_000)
    assert len(segments(world)) == 1


@simulated()
async def test_old_segments_go_by_size(world: NodeWorld) -> None:
    settings = {"segment.bytes": "1048576", "retention.bytes": "2000000", "file.delete.delay.ms": "1000"}
    await world.create_topic("t", configs=settings)
    for _ in range(10):
        await put(world, 10, size=60_000)
    assert len(segments(world)) == 10
    await world.pass_time(5 * MINUTE_MS + 5_000)
    assert 3 <= len(segments(world)) <= 4
    assert world.log("t").log_start_offset == world.log("t").segments.first.base_offset


@simulated()
async def test_retention_begins_half_a_minute_after_the_start(world: NodeWorld) -> None:
    settings = {"segment.ms": "60000", "retention.ms": "60000"}
    await world.create_topic("t", configs=settings)
    now_ms = world.machine.clock.now_ms()
    await put(world, at_ms=now_ms)
    await world.pass_time(MINUTE_MS + 1_000)
    await put(world, at_ms=now_ms + MINUTE_MS)
    await world.stop()
    world.machine.clock.advance(10 * MINUTE_MS)
    await world.start()
    await world.pass_time(29_000)
    assert world.log("t").log_start_offset == 0
    await world.pass_time(2_000)
    assert world.log("t").log_start_offset == 2


@simulated(log_dirs="/data,/more")
async def test_a_directory_that_fails_in_the_background_takes_only_itself_offline(world: NodeWorld) -> None:
    await world.create_topic("t", 2, configs={"flush.ms": "1000"})
    client = await world.connect()
    await client.ask(produce("t", batch(), batch()), 12)
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path.startswith("/more/")
    faults.sync_error_rate = 1.0
    await world.pass_time(7_000)
    folders = {folder.path: folder.online for folder in world.node.parts.log_manager.log_dirs}
    assert folders == {"/data": True, "/more": False}
    codes = [
        each.error_code
        for each in (await client.ask(produce("t", batch(), batch()), 12)).responses[0].partition_responses
    ]
    assert sorted(codes) == [0, 56]
    assert world.failures == []
    faults.calm()


@simulated(log_dirs="/data,/more")
async def test_retention_in_one_directory_does_not_mind_another_that_fails(world: NodeWorld) -> None:
    settings = {"segment.bytes": "1048576", "retention.bytes": "1"}
    await world.create_topic("t", 2, configs=settings)
    client = await world.connect()
    for _ in range(3):
        large = [batch(10, size=60_000) for _ in range(2)]
        await client.ask(produce("t", *large), 12)
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path.startswith("/data/t-")
    faults.name_error_rate = faults.write_error_rate = 1.0
    good = next(index for index in (0, 1) if world.log("t", index).folder.startswith("/more/"))
    await world.pass_time(31_000)
    assert world.log("t", good).log_start_offset == 20
    faults.calm()


@simulated()
async def test_nothing_happens_after_a_stop(world: NodeWorld) -> None:
    await world.create_topic("t", configs={"flush.ms": "1000"})
    await put(world, at_ms=RECORD_MS)
    node = world.node
    await world.on_node(node.stop())
    before = world.machine.disk.faults.operations
    await world.pass_time(30 * MINUTE_MS)
    assert world.machine.disk.faults.operations == before
    world.kill()


@simulated()
async def test_retention_reaches_every_log_slice_by_slice(world: NodeWorld) -> None:
    settings = {"segment.ms": "60000", "retention.ms": "60000", "file.delete.delay.ms": "0"}
    await world.create_topic("t", 3 * RETENTION_SLICE, settings)
    client = await world.connect()
    for partition in (0, RETENTION_SLICE, 3 * RETENTION_SLICE - 1):
        for timestamp in (RECORD_MS, RECORD_MS + 2 * MINUTE_MS):
            rows = [Record(0, timestamp, None, b"v", ())]
            await client.ask(produce("t", build_batch(rows), partitions=[partition]), 12)
        assert len(world.log("t", partition).segments) == 2
    await world.pass_time(6 * MINUTE_MS)
    starts = [world.log("t", partition).log_start_offset for partition in range(3 * RETENTION_SLICE)]
    assert {n: start for n, start in enumerate(starts) if start} == {0: 2, RETENTION_SLICE: 2, 299: 2}


async def damage(world: NodeWorld) -> None:
    """A batch of a closed segment is not what it was, when the node starts."""
    await world.create_topic("t", configs={"segment.bytes": "1048576"})
    for _ in range(3):
        await put(world, 10, size=60_000)
    (first, *_) = segments(world)
    await world.stop()
    path = f"/data/t-0/{first}"
    data = bytearray(world.machine.disk.read_file(path))
    data[-3] ^= 4
    world.machine.disk.open(path).write(0, (bytes(data),))


@simulated()
async def test_damage_at_rest_is_searched_at_the_rate_that_is_set(
    world: NodeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """A slice has a megabyte: at 65,536 bytes a second the first one comes after 16 s."""
    await damage(world)
    await world.start(headrace_log_scrub_bytes_per_second="65536")
    await world.pass_time(15_000)
    assert "are damaged" not in caplog.text
    await world.pass_time(2_000)
    assert "are damaged" in caplog.text


@simulated()
async def test_the_search_is_off_at_no_bytes_a_second_until_somebody_turns_it_on(
    world: NodeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await damage(world)
    await world.start(headrace_log_scrub_bytes_per_second="0")
    await world.pass_time(10 * MINUTE_MS)
    assert "are damaged" not in caplog.text
    world.node.config.set_dynamic(broker={"headrace.log.scrub.bytes.per.second": "10485760"}, default={})
    await world.pass_time(MINUTE_MS + 1_000)
    assert "are damaged" in caplog.text
