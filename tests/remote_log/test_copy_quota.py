"""The bound on bytes per second that copies to the remote store keep to, on a whole node in virtual time."""

from headrace.log.disk import File
from headrace.log.file_names import LOG
from headrace.testing.machine import Surroundings
from headrace.tiered.stores.folder import FolderStore
from tests.remote_log.test_compaction import COMPACTED, CompactedWorld
from tests.remote_log.test_remote_log_manager import ROOT, TOPIC, TieredWorld

COPY_RATE = "remote.log.manager.copy.max.bytes.per.second"


def copied_bytes(world: TieredWorld) -> int:
    return sum(size for name, size in world.store.list("") if name.endswith(".log"))


def test_copies_that_want_to_begin_at_once_share_the_bound() -> None:
    async def script() -> None:
        await world.start()
        topics = [f"rows{number}" for number in range(10)]
        for topic in topics:
            await world.create_topic(topic, configs=TOPIC)
        for topic in topics:
            world.write(topic, 4)
        await world.until(lambda: copied_bytes(world) > 0)
        began_ms, segment = world.now_ms(), copied_bytes(world)
        while copied_bytes(world) < 10 * segment:
            # A second's worth that was not used, and the copy that is under way.
            assert copied_bytes(world) <= 1_000 * (2 + (world.now_ms() - began_ms) / 1000) + segment
            await world.pass_time(100)
        assert world.now_ms() - began_ms < 1.2 * 9 * segment
        await world.stop()

    with TieredWorld({COPY_RATE: "1000"}) as world:
        world.run(script())


def test_a_bound_that_is_lifted_lets_those_go_that_wait_for_it() -> None:
    async def script() -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC)
        world.write("rows", 31)
        await world.copied_to("rows", 3)
        await world.pass_time(5_000)
        assert (world.log("rows").tiered_to or 0) < 9, "a segment takes two minutes"
        await world.configure_node(COPY_RATE, 1000000)
        began_ms = world.now_ms()
        await world.copied_to("rows", 30)
        assert world.now_ms() - began_ms < 5_000
        await world.stop()

    with TieredWorld({COPY_RATE: "15"}) as world:
        world.run(script())


class CountingStore(FolderStore):
    """Knows how many bytes of logs came and went."""

    moved = 0

    def put(self, name: str, source: File, size: int) -> None:
        CountingStore.moved += size if name.endswith(LOG) else 0
        super().put(name, source, size)

    def read(self, name: str, start: int, end: int) -> bytes:
        data = super().read(name, start, end)
        CountingStore.moved += len(data) if name.endswith(LOG) else 0
        return data


def test_compaction_in_the_store_waits_for_the_bound_on_bytes_too() -> None:
    def counting(own: Surroundings) -> CountingStore:
        own.disk.make_folder(ROOT)
        CountingStore.moved = 0
        return CountingStore(own.disk, ROOT)

    async def script() -> None:
        world.make_remote_store = counting
        await world.start(**{COPY_RATE: "2000"})
        await world.create_topic("rows", configs=COMPACTED)
        for _ in range(8):
            world.write_keys(30)
            await world.pass_time(1_500)
        began_ms, before = world.now_ms(), CountingStore.moved
        while world.now_ms() < began_ms + 60_000:
            # A second's worth that was not used, and the segment that is under way.
            seconds = 1 + (world.now_ms() - began_ms) / 1000
            assert CountingStore.moved - before <= 2_000 * seconds + 2_048
            await world.pass_time(100)
        assert CountingStore.moved > 5 * sum(each.size for each in world.remote()), "it was compacted"
        await world.stop()

    with CompactedWorld() as world:
        world.run(script())
