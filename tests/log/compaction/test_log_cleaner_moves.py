"""Compaction and replicas that move between folders: no key that was deleted is back afterwards."""

import random

from headrace.base.ids import TopicPartition
from headrace.log.future_logs import future_log_dir
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import Record, build_batch
from tests.log.building import read_all
from tests.server.beside_kafka.produce import produce
from tests.server.node_world import NodeWorld, simulated

T = TopicPartition("t", 0)
TWO = "/data,/more"
SLOWLY = "2000"
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


async def put(world: NodeWorld, *rows: tuple[bytes, bytes | None]) -> None:
    client = await world.connect()
    batch = build_batch([Record(0, 0, key, value) for key, value in rows])
    reply = await client.ask(produce("t", batch), 12)
    assert reply.responses[0].partition_responses[0].error_code == 0


async def fill(world: NodeWorld, name: bytes = b"filler", count: int = 20) -> None:
    rng = random.Random(1)
    for number in range(count):
        await put(world, (b"%b %d" % (name, number), rng.randbytes(1000)))


async def begin_move(world: NodeWorld) -> UnifiedLog:
    """Have the replica begin to move to the other folder; its copy, which has a part of it."""
    target = "/more" if world.log("t").folder.startswith("/data/") else "/data"

    async def move() -> None:
        world.node.parts.replica_alter_log_dirs_manager.move(T, target)

    await world.on_node(move())
    await world.until(lambda: copy_of(world).log_end_offset > 1, "a part of it")
    assert copy_of(world).log_end_offset < world.log("t").log_end_offset
    return copy_of(world)


def copy_of(world: NodeWorld) -> UnifiedLog:
    home = future_log_dir(world.node.parts.log_manager, T)
    assert home is not None
    return home.future_logs[T]


def of_key(world: NodeWorld) -> list[bytes | None]:
    return [record.value for record in read_all(world.log("t")) if record.key == b"key"]


async def delete_key(world: NodeWorld) -> None:
    """And have what compaction needs to remove the delete marker, if it is allowed to: two more rounds."""
    await put(world, (b"key", None))
    for number in range(3):
        await fill(world, b"more %d" % number, 4)
        await world.pass_time(3000)


async def until_moved(world: NodeWorld, log: UnifiedLog) -> None:
    await world.until(lambda: world.log("t") is not log, "the move", timeout_s=3600)


@simulated(log_dirs=TWO, log_cleaner_backoff_ms="1000", replica_alter_log_dirs_io_max_bytes_per_second=SLOWLY)
async def test_a_deleted_key_stays_so_where_its_log_is_moved(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await put(world, (b"key", b"value"))
    await fill(world)
    log = world.log("t")
    await begin_move(world)
    cleaner_checkpoint = log.cleaner_checkpoint
    await delete_key(world)
    assert log.cleaner_checkpoint == cleaner_checkpoint
    await until_moved(world, log)
    assert of_key(world) in ([b"value", None], [None])
    # Then compaction goes on.
    await delete_key(world)
    await world.until(lambda: not of_key(world), "no delete marker")


@simulated(log_dirs=TWO, log_cleaner_backoff_ms="1000", replica_alter_log_dirs_io_max_bytes_per_second=SLOWLY)
async def test_a_move_that_goes_on_after_a_restart_keeps_compaction_off_too(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await put(world, (b"key", b"value"))
    await fill(world)
    await begin_move(world)
    await world.stop()
    await world.start()
    log = world.log("t")
    cleaner_checkpoint = log.cleaner_checkpoint
    await delete_key(world)
    assert log.cleaner_checkpoint == cleaner_checkpoint
    await until_moved(world, log)
    assert of_key(world)[-1] is None


@simulated(log_dirs=TWO, log_cleaner_backoff_ms="1000", replica_alter_log_dirs_io_max_bytes_per_second=SLOWLY)
async def test_a_copy_that_was_offline_while_its_log_was_compacted_begins_anew(world: NodeWorld) -> None:
    await world.create_topic("t", configs=CONFIGS)
    await put(world, (b"key", b"value"))
    await fill(world)
    log, copy = world.log("t"), await begin_move(world)
    world.handle_log_dir_failure(copy.folder.rpartition("/")[0])
    await delete_key(world)
    await world.until(lambda: not of_key(world), "no delete marker")
    await world.stop()
    world.machine.disk.faults.clear()
    await world.start()
    log = world.log("t")
    assert copy_of(world).log_end_offset > 1
    await until_moved(world, log)
    assert of_key(world) == []


@simulated(
    log_dirs=TWO,
    log_cleaner_backoff_ms="1000",
    log_cleaner_io_max_bytes_per_second="4000",
    replica_alter_log_dirs_io_max_bytes_per_second=SLOWLY,
)
async def test_a_round_ends_where_its_log_begins_to_move(world: NodeWorld) -> None:
    await world.create_topic("t", configs={**CONFIGS, "internal.segment.bytes": "6000"})
    for _ in range(3):
        await fill(world)
    log, disk = world.log("t"), world.machine.disk

    def in_the_making() -> list[str]:
        return [path for path in disk.files() if path.endswith(".cleaned")]

    await world.until(lambda: bool(in_the_making()), "a segment in the making")
    await begin_move(world)
    before = list(log.segments)
    await world.until(lambda: not in_the_making(), "the end of the round")
    assert list(log.segments) == before
    await until_moved(world, log)
    assert log.cleaner_checkpoint is None
    await world.until(lambda: world.log("t").cleaner_checkpoint is not None, "a round", timeout_s=3600)
