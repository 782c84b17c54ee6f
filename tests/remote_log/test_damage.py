"""Files that tell where a tiered log starts and who wrote it are damaged while the node is down: the store
tells it again, and nothing goes from there.
"""

from collections.abc import Callable

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.log.checkpoints import encode_epochs
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.log_segments import roll_to
from headrace.remote_log.expiration import remove
from headrace.testing.disk import VirtualDisk
from tests.remote_log.test_remote_log_manager import TOPIC, TieredWorld
from tests.server.beside_kafka.list_offsets import find

EPOCHS = "/data/rows-0/leader-epoch-checkpoint"
STARTS = "/data/log-start-offset-checkpoint"
EARLIEST = -2

Damage = Callable[[VirtualDisk], None]


def put(path: str, data: bytes) -> Damage:
    return lambda disk: disk.replace_file(path, data)


def lose(path: str) -> Damage:
    return lambda disk: disk.lose(path)


def both(one: Damage, other: Damage) -> Damage:
    def damage(disk: VirtualDisk) -> None:
        one(disk)
        other(disk)

    return damage


async def killed_with_epochs(world: TieredWorld) -> list[tuple[int, int]]:
    """A log of five leaderships, of which at most the last one is on this disk; the node is down."""
    await world.create_topic("rows", configs=TOPIC | {"retention.ms": "-1"})
    for _ in range(4):
        world.write("rows", 5)
        await world.pass_time(100)
        world.kill()
        await world.start()
    world.write("rows", 4)
    await world.until(lambda: world.log("rows").local_start_offset >= 20, "four of them have left the disk")
    log = world.log("rows")
    assert log.log_start_offset == 0
    entries = log.leader_epoch_cache.entries()
    assert len([start for _, start in entries if start < log.local_start_offset]) >= 4
    world.kill()
    return entries


@pytest.mark.parametrize(
    "damage",
    [
        lose(EPOCHS),
        put(EPOCHS, b"0\n1\nnonsense\n"),
        # A bit of the text has flipped: the first epoch, or one in the middle, or its start is another.
        lambda disk: disk.replace_file(EPOCHS, disk.read_file(EPOCHS).replace(b"\n0 0\n", b"\n1 0\n")),
        lambda disk: disk.replace_file(EPOCHS, disk.read_file(EPOCHS).replace(b"\n2 5\n", b"\n3 5\n")),
        lambda disk: disk.replace_file(EPOCHS, disk.read_file(EPOCHS).replace(b"\n2 5\n", b"\n2 7\n")),
        put(EPOCHS, encode_epochs([])),
        lose(STARTS),
        put(STARTS, b"4\nrows"),
        both(lose(EPOCHS), lose(STARTS)),
    ],
)
def test_nothing_is_lost(damage: Damage) -> None:
    async def script(world: TieredWorld) -> None:
        await world.start()
        entries = await killed_with_epochs(world)
        objects = world.objects()
        damage(world.machine.disk)
        await world.start()
        await world.until(lambda: world.partition("rows").knows_remote, "it knows what is in the store")
        log = world.log("rows")
        assert log.leader_epoch_cache.entries()[: len(entries)] == entries
        assert log.log_start_offset == 0
        result = (await (await world.connect()).ask(find("rows", EARLIEST), 7)).topics[0].partitions[0]
        assert (result.error_code, result.offset) == (ErrorCode.NONE, 0)
        await world.pass_time(10_000)
        assert set(objects) <= set(world.objects()), "something was taken for a stranger's"
        world.check_no_orphans("rows")
        world.kill()
        await world.start()
        assert world.log("rows").leader_epoch_cache.entries()[: len(entries)] == entries, (
            "it must be on the disk again"
        )
        await world.stop()

    with TieredWorld() as world:
        world.run(script(world))


def test_an_epoch_that_never_was_keeps_nobody_from_writing() -> None:
    """Nothing is on this disk that would contradict it."""

    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC | {"local.retention.ms": "1", "retention.ms": "-1"})
        world.write("rows", 5)
        roll_to(world.log("rows"), 5, world.machine.clock.now_ms())
        await world.until(lambda: world.log("rows").local_start_offset == 5, "all has left", timeout_s=60)
        world.kill()
        disk = world.machine.disk
        disk.replace_file(EPOCHS, encode_epochs([(64, 0)]))
        await world.start()
        await world.until(lambda: world.partition("rows").knows_remote, "it knows what is in the store")
        world.write("rows", 1)
        log, epoch = world.log("rows"), world.partition("rows").leader_epoch
        assert log.leader_epoch_cache.entries() == [(0, 0), (epoch, 5)]
        assert (log.log_start_offset, log.log_end_offset) == (0, 6)

    with TieredWorld() as world:
        world.run(script(world))


def test_where_all_that_lay_in_the_store_was_removed_the_log_starts_on_this_disk() -> None:
    """Found by the simulator (tiers, seed 3006128): no copy is left to ask, and none to lose."""

    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC | {"retention.ms": "-1"})
        world.write("rows", 5)
        await world.until(lambda: world.log("rows").local_start_offset == 3, "three have left the disk")
        world.partition("rows").delete_records(3)
        await world.until(lambda: not world.segments("rows"), "they are removed", timeout_s=60)
        world.kill()
        both(put(EPOCHS, encode_epochs([(0, 3)])), lose(STARTS))(world.machine.disk)
        await world.start()
        await world.until(lambda: world.partition("rows").knows_remote, "it knows what is in the store")
        assert world.log("rows").log_start_offset == 3

    with TieredWorld() as world:
        world.run(script(world))


def test_a_store_that_is_away_is_waited_for() -> None:
    """Until it tells, nobody is told where the log starts, and nothing goes."""

    async def script(world: TieredWorld) -> None:
        await world.start()
        entries = await killed_with_epochs(world)
        disk = world.machine.disk
        disk.lose(EPOCHS)
        away = {path: disk.read_file(path) for path in disk.files() if path.endswith(".epochs")}
        for path in away:
            disk.lose(path)
        await world.start()
        await world.pass_time(20_000)
        assert not world.partition("rows").knows_remote
        client = await world.connect()
        for version, code in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (7, ErrorCode.OFFSET_NOT_AVAILABLE)):
            result = (await client.ask(find("rows", EARLIEST), version)).topics[0].partitions[0]
            assert result.error_code == code
        for path, data in away.items():
            world.machine.disk.replace_file(path, data)
        await world.until(lambda: world.partition("rows").knows_remote, "it knows what is in the store")
        assert world.log("rows").leader_epoch_cache.entries()[: len(entries)] == entries
        result = (await client.ask(find("rows", EARLIEST), 7)).topics[0].partitions[0]
        assert (result.error_code, result.offset) == (ErrorCode.NONE, 0)
        await world.stop()

    with TieredWorld() as world:
        world.run(script(world))


def test_what_lies_in_a_hole_between_copies_stays_on_the_disk() -> None:
    """A copy that was made with damaged leader epochs goes once they are mended; later ones stay."""

    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic(
            "rows", configs=TOPIC | {"local.retention.bytes": "-2", "retention.ms": "-1"}
        )
        world.write("rows", 13)
        await world.copied_to("rows", 12)
        middle = world.segments("rows")[1]
        assert world.node.remote_log_manager is not None
        runner = world.node.remote_log_manager.tasks._runner
        steps = remove(middle, runner.store, runner.publisher)
        assert await world.on_node(runner.run(steps, lambda: True))
        assert world.log("rows").tiered_to == middle.start_offset
        await world.configure("rows", local_retention_bytes="1")
        await world.until(lambda: world.log("rows").local_start_offset == 12, "all of it is in the store")
        spans = [(each.start_offset, each.end_offset) for each in world.segments("rows")]
        assert sorted(spans) == [(0, 2), (3, 5), (6, 8), (9, 11)]
        await world.stop()

    with TieredWorld() as world:
        world.run(script(world))


def test_a_copy_that_is_not_known_again_is_not_made_in_haste(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is wrong with the log's leader epochs: the store is not filled with copies."""

    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic(
            "rows", configs=TOPIC | {"retention.ms": "-1", "local.retention.bytes": "-2"}
        )
        world.log("rows").leader_epoch_cache.take_over(LeaderEpochFileCache([(0, 1)]))
        world.write("rows", 4)
        await world.pass_time(60_000)
        said = [each for each in caplog.records if "does not count" in each.getMessage()]
        assert 2 <= len(said) <= 4, "every half minute"
        world.log("rows").leader_epoch_cache.reach_back_to(0)
        await world.until(lambda: world.log("rows").tiered_to == 3, "it is copied once more", timeout_s=60)
        await world.until(lambda: len(world.segments("rows")) == 1, "the others are removed", timeout_s=90)
        await world.stop()

    with TieredWorld({"remote.log.manager.task.retry.backoff.max.ms": "30000"}) as world:
        world.run(script(world))
