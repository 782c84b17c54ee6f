"""Indexes of remote segments on a node's disk: no more than is allowed, and none that nobody can ask for."""

from headrace.tiered.remote_index_cache import FOLDER
from tests.remote_log.test_remote_log_manager import TieredWorld, tiered
from tests.remote_log.test_remote_reading import NEWEST, fetch, lookup, wish, with_remote_part


def index_files(world: TieredWorld) -> list[str]:
    return world.machine.disk.list(f"/data/{FOLDER}")


def index_bytes(world: TieredWorld) -> int:
    return sum(world.machine.disk.size(f"/data/{FOLDER}/{name}") for name in index_files(world))


@tiered
async def test_indexes_take_no_more_of_the_disk_than_is_allowed_now(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    for offset in range(0, 27, 3):
        await fetch(client, {"rows": wish(offset, partition_bytes=1)})
        await client.ask(lookup(0), NEWEST)
    assert index_bytes(world) > 1
    await world.configure_node("remote.log.index.file.cache.total.size.bytes", 1)
    await world.until(lambda: index_bytes(world) <= 1, "they are removed", timeout_s=0.5)


@tiered
async def test_indexes_of_what_was_removed_go(world: TieredWorld) -> None:
    client = await with_remote_part(world)
    await with_remote_part(world, "others", count=12)
    for topic, offset in (("rows", 1), ("rows", 4), ("rows", 16), ("others", 1)):
        before = len(index_files(world))
        await fetch(client, {topic: wish(offset, partition_bytes=1)})
        await world.until(lambda before=before: len(index_files(world)) > before, "an index is fetched")
    kept = [name for name in index_files(world) if name.startswith(f"{15:020}")]
    assert len(kept) == 1
    assert len(index_files(world)) > 3
    await world.delete_topic("others")
    world.partition("rows").delete_records(10)
    await world.until(lambda: index_files(world) == kept, "only what can be read is left", timeout_s=10)
    world.kill()
    await world.start()
    await world.pass_time(5_000)
    assert index_files(world) == kept
