"""Compaction as a node runs it: in the background, within its bounds, whatever happens meanwhile."""

import asyncio
import random
from dataclasses import replace

import pytest

from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.log.compaction.drivers.uncleanable_partitions import (
    UNCLEANABLE,
    UncleanablePartition,
    UncleanablePartitions,
    read_uncleanable,
)
from headrace.records.batch import Record, build_batch
from headrace.testing.disk import Crash
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.log.building import read_all
from tests.server.beside_kafka.produce import produce
from tests.server.node_world import NodeWorld, simulated

CONFIGS = {"cleanup.policy": "compact", "internal.segment.bytes": "3000", "file.delete.delay.ms": "1000"}
CHECKPOINT = "/data/cleaner-offset-checkpoint"


def keyed(seed: int, count: int = 20, keys: int = 5, size: int = 30) -> bytes:
    rng = random.Random(seed)
    rows = [Record(0, 0, b"key %d" % rng.randrange(keys), rng.randbytes(size)) for _ in range(count)]
    return bytes(build_batch(rows))


async def fill(world: NodeWorld, topic: str = "t", batches: int = 20, **fields: int) -> dict[bytes, bytes]:
    """Write to a topic; the last value of each key."""
    client = await world.connect()
    for seed in range(batches):
        reply = await client.ask(produce(topic, keyed(seed, **fields)), 12)
        assert reply.responses[0].partition_responses[0].error_code == 0
    return latest(world, topic)


def latest(world: NodeWorld, topic: str = "t") -> dict[bytes, bytes]:
    return {record.key: record.value for record in read_all(world.log(topic))}


def is_clean(world: NodeWorld, topic: str = "t") -> bool:
    log = world.log(topic)
    return log.cleaner_checkpoint == log.segments.active.base_offset


def in_the_making(world: NodeWorld) -> list[str]:
    return [path for path in world.machine.disk.files() if path.endswith(".cleaned")]


@simulated(log_cleaner_backoff_ms="1000")
async def test_a_topic_is_compacted_and_stays_so(world: NodeWorld) -> None:
    await world.create_topic("t", configs={**CONFIGS, "flush.messages": "1"})
    values = await fill(world)
    before = world.log("t").size_bytes
    await world.until(lambda: is_clean(world), "a clean log")
    assert world.log("t").size_bytes < before / 4
    assert latest(world) == values
    await world.until(lambda: world.machine.disk.exists(CHECKPOINT), "a checkpoint")
    cleaner_checkpoint = world.log("t").cleaner_checkpoint
    assert decode_offsets(world.machine.disk.read_file(CHECKPOINT)) == {
        TopicPartition("t", 0): cleaner_checkpoint
    }
    await world.pass_time(3000)
    names = world.machine.disk.list("/data/t-0")
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))]
    world.kill(Crash.POWER_CUT)
    await world.start()
    assert latest(world) == values
    assert world.log("t").cleaner_checkpoint == cleaner_checkpoint


@simulated(log_cleaner_backoff_ms="1000", log_cleaner_io_max_bytes_per_second="5000")
async def test_the_bound_on_bytes_holds(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await fill(world, size=300)
    size, began_ms = world.log("t").size_bytes, world.now_ms()
    assert size > 100_000
    await world.until(lambda: is_clean(world), "a clean log", timeout_s=600)
    # All of it is read twice, but for the active segment and what a burst allows.
    assert world.now_ms() - began_ms > 1000 * (2 * size - 30_000) / 5000


@simulated(log_cleaner_backoff_ms="1000")
async def test_a_damaged_log_is_set_aside_and_others_are_not(
    world: NodeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("bad", "good"):
        await world.create_topic(topic, configs={**CONFIGS, "min.cleanable.dirty.ratio": "1.0"})
        await fill(world, topic)
    path = world.log("bad").segments.first.path
    world.machine.disk.flip_bit(path, 100)
    damaged = world.machine.disk.read_file(path)
    for topic in ("bad", "good"):
        world.log(topic).update_config(
            world.log("good").config.__class__(cleanup_policy=frozenset({"compact"}))
        )
    await world.until(lambda: is_clean(world, "good"), "a clean log")
    await world.until(lambda: bool(world.node.log_cleaner.uncleanable), "a mark")
    assert list(world.node.log_cleaner.uncleanable) == [TopicPartition("bad", 0)]
    why = world.node.log_cleaner.uncleanable[TopicPartition("bad", 0)]
    assert why == f"{path}: byte 0 has a batch whose CRC does not match"
    assert world.machine.disk.read_file(path) == damaged
    assert world.log("bad").failure is None
    # People are told once in the log, and by a file.
    assert caplog.text.count("bad-0 cannot be compacted") == 1
    folder = world.log("bad").folder.rpartition("/")[0]

    def told() -> dict[TopicPartition, UncleanablePartition]:
        return read_uncleanable(world.machine.disk, folder)

    await world.until(lambda: bool(told()), "a file")
    assert {partition: given_up.why for partition, given_up in told().items()} == {
        TopicPartition("bad", 0): why
    }
    await world.delete_topic("bad")
    await world.until(lambda: not told(), "no file")
    assert not world.machine.disk.exists(f"{folder}/{UNCLEANABLE}")


async def open_again(world: NodeWorld, *topics: str) -> None:
    """Have logs with a limit on lag that looking at them reads the disk for: nothing is known of them yet."""
    for topic in topics:
        await world.create_topic(topic, configs={**CONFIGS, "max.compaction.lag.ms": "3600000"})
        await fill(world, topic)
    await world.stop()
    await world.start()


@simulated(log_cleaner_backoff_ms="1000", log_dirs="/data,/more")
async def test_a_disk_that_fails_while_logs_are_looked_at_takes_only_itself_offline(world: NodeWorld) -> None:
    await open_again(world, "a", "b")
    home = {topic: world.log(topic).folder.rpartition("/")[0] for topic in ("a", "b")}
    assert home["a"] != home["b"]
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path.startswith(home["a"])
    faults.read_error_rate = 1.0
    store = world.node.parts.log_manager
    await world.until(lambda: len(store.live_log_dirs()) == 1, "a folder offline")
    assert [folder.path for folder in store.live_log_dirs()] == [home["b"]]
    await world.until(lambda: is_clean(world, "b"), "a clean log")
    # Compaction goes on, for what comes later, too.
    await fill(world, "b")
    assert not is_clean(world, "b")
    await world.until(lambda: is_clean(world, "b"), "a clean log again")


@simulated(log_cleaner_backoff_ms="1000")
async def test_a_log_that_cannot_be_looked_at_is_set_aside_and_others_are_not(world: NodeWorld) -> None:
    await open_again(world, "bad", "good")
    path = world.log("bad").segments.first.path
    world.machine.disk.open(path).truncate(10)
    await world.until(lambda: is_clean(world, "good"), "a clean log")
    assert list(world.node.log_cleaner.uncleanable) == [TopicPartition("bad", 0)]
    assert world.log("bad").failure is None
    await world.until(lambda: bool(read_uncleanable(world.machine.disk, "/data")), "a file")


@simulated(log_cleaner_backoff_ms="1000", log_cleaner_io_max_bytes_per_second="20000")
async def test_a_round_ends_where_its_topic_shall_not_be_compacted_any_more(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await fill(world, size=300)
    await world.until(lambda: bool(in_the_making(world)), "a segment in the making")
    log, before = world.log("t"), read_all(world.log("t"))
    log.update_config(replace(log.config, cleanup_policy=frozenset({"delete"}), retention_ms=-1))
    await world.until(lambda: not in_the_making(world), "the end of the round")
    await world.pass_time(60_000)
    assert read_all(log) == before
    assert log.cleaner_checkpoint is None


@simulated(log_cleaner_backoff_ms="1000")
async def test_a_full_disk_ends_a_round_and_no_more(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    values = await fill(world)
    world.machine.disk.faults.is_full = True
    await world.pass_time(5000)
    assert world.log("t").cleaner_checkpoint is None
    assert world.log("t").failure is None
    world.machine.disk.faults.is_full = False
    await world.until(lambda: is_clean(world), "a clean log")
    assert latest(world) == values


@simulated(log_cleaner_backoff_ms="1000", log_cleaner_io_max_bytes_per_second="20000")
async def test_a_topic_is_deleted_under_a_round(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await fill(world, size=300)
    await world.until(lambda: bool(in_the_making(world)), "a segment in the making")
    await world.delete_topic("t")
    await world.create_topic("t", configs=CONFIGS)
    values = await fill(world, batches=5)
    await world.pass_time(60_000)
    assert latest(world) == values
    assert len(world.node.parts.log_manager.live_log_dirs()) == 1
    assert not in_the_making(world)


@simulated(log_cleaner_backoff_ms="1000", log_cleaner_io_max_bytes_per_second="20000")
async def test_a_node_is_stopped_under_a_round(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    values = await fill(world, size=300)
    await world.until(lambda: bool(in_the_making(world)), "a segment in the making")
    await world.stop()
    assert not in_the_making(world)
    await world.start()
    assert latest(world) == values


@simulated(log_cleaner_backoff_ms="1000", log_cleaner_enable="false")
async def test_compaction_can_be_switched_off(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await fill(world)
    await world.pass_time(10_000)
    assert world.log("t").cleaner_checkpoint is None


@simulated(log_cleaner_backoff_ms="1000", log_retention_check_interval_ms="2000")
async def test_a_log_that_compacts_and_deletes_does_both(world: NodeWorld) -> None:
    configs = {**CONFIGS, "cleanup.policy": "compact,delete", "retention.ms": "60000"}
    await world.create_topic("t", configs={**configs, "message.timestamp.type": "LogAppendTime"})
    await fill(world)
    await world.until(lambda: is_clean(world), "a clean log")
    assert world.log("t").log_start_offset == 0
    await world.pass_time(70_000)
    log = world.log("t")
    assert log.log_start_offset > 0
    assert log.segments.first.base_offset == log.log_start_offset


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="x"
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic])


@simulated(log_cleaner_backoff_ms="1000", offsets_topic_num_partitions="1")
async def test_committed_offsets_do_not_grow_for_ever(world: NodeWorld) -> None:
    await world.create_topic("t")
    await world.create_topic("__consumer_offsets", configs=CONFIGS)
    client = await world.connect()
    for offset in range(150):
        reply = await client.ask(commit(offset), 8)
        assert reply.topics[0].partitions[0].error_code == 0
    before = world.log("__consumer_offsets").size_bytes
    await world.until(lambda: is_clean(world, "__consumer_offsets"), "clean offsets")
    assert world.log("__consumer_offsets").size_bytes < before / 3
    world.kill()
    await world.start()
    client = await world.connect()
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    wish = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])

    async def fetched() -> int:
        reply = await client.ask(wish, 8)
        topics = reply.groups[0].topics
        return topics[0].partitions[0].committed_offset if topics else -1

    for _ in range(50):
        if await fetched() == 149:
            return
        await world.pass_time(200)
    raise AssertionError("the committed offset was not found again")


@simulated(log_cleaner_enable="false")
async def test_what_is_set_aside_while_a_file_is_written_is_told_too(world: NodeWorld) -> None:
    await world.create_topic("t", 2, configs=CONFIGS)
    assert world.machine.process is not None
    loop = world.machine.process.loop
    set_aside = UncleanablePartitions(loop, world.node.parts.log_manager)

    async def tell() -> None:
        set_aside.add(world.log("t", 0), "one")
        telling = loop.create_task(set_aside.write_files())
        await asyncio.sleep(0)
        set_aside.add(world.log("t", 1), "two")
        await set_aside.write_files()
        await telling

    await world.on_node(tell())
    told = read_uncleanable(world.machine.disk, "/data")
    assert {partition.partition: given_up.why for partition, given_up in told.items()} == {0: "one", 1: "two"}
