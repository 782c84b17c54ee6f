"""The remote tier on a whole node, in virtual time: what is copied, what goes, what a crash leaves."""

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition, uuid_text
from headrace.log.append import AppendOrigin
from headrace.log.checkpoints import decode_epochs
from headrace.log.producer_snapshots import decode_snapshot
from headrace.records.batch import Record, batches, build_batch
from headrace.testing.disk import Crash
from headrace.testing.machine import Surroundings
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from headrace.tiered.stores.folder import FolderStore
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.beside_kafka.list_offsets import find
from tests.server.node_world import NodeWorld

ROOT = "/remote"
EARLIEST = -2
BROKER = 4
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "1000",
    "remote.log.manager.task.retry.backoff.max.ms": "2000",
    "log.retention.check.interval.ms": "1000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
TOPIC = {"remote.storage.enable": "true", "internal.segment.bytes": "2048", "local.retention.bytes": "1"}


class TieredWorld(NodeWorld):
    """A node with a folder for its remote store."""

    def __init__(self, settings: dict[str, str] | None = None, *, seed: int = 1) -> None:
        super().__init__(SETTINGS | (settings or {}), seed=seed)
        self.make_remote_store = self._store_on

    def _store_on(self, own: Surroundings) -> FolderStore:
        own.disk.make_folder(ROOT)
        return FolderStore(own.disk, ROOT)

    @property
    def store(self) -> FolderStore:
        return FolderStore(self.machine.disk, ROOT)

    def objects(self) -> list[str]:
        return [name for name, _ in self.store.list("")]

    def write(self, topic: str, count: int, *, producer_id: int = 7, number: int = 0) -> None:
        """So many batches of 600 bytes; three make a segment."""
        partition = self.partition(topic, number)
        log = partition.log
        assert log is not None
        for _ in range(count):
            known = log.producer_state_manager.producers.get(producer_id)
            sequence = 0 if known is None else known.last_sequence + 1
            batch = build_batch(
                [Record(timestamp=self.machine.clock.now_ms(), key=b"k", value=b"v" * 530)],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
            partition.append(
                batch, now_ms=self.machine.clock.now_ms(), origin=AppendOrigin.CLIENT, acks=1, api_version=9
            )

    def segments(self, topic: str, *states: RemoteLogSegmentState) -> list[RemoteLogSegmentMetadata]:
        assert self.node.remote_log_manager is not None
        name = TopicIdPartition(self.partition(topic).topic_id, TopicPartition(topic, 0))
        remote = self.node.remote_log_manager.logs.get(name)
        return [] if remote is None else remote.in_states(*(states or tuple(RemoteLogSegmentState)))

    async def copied_to(self, topic: str, offset: int) -> None:
        await self.until(lambda: (self.log(topic).tiered_to or 0) >= offset, f"copied to {offset}")

    async def configure(self, topic: str, **settings: str | None) -> None:
        assert await self.try_to_configure(topic, **settings) == 0

    async def try_to_configure(self, topic: str, **settings: str | None) -> int:
        """Change a topic's settings; None takes one back."""
        changes = [
            AlterableConfig(name.replace("_", "."), int(value is None), value)
            for name, value in settings.items()
        ]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, topic, changes)])

        async def ask() -> Any:
            return await self.node.parts.controller.ask(request)

        response = await self.on_node(ask())
        return int(response.responses[0].error_code)

    async def configure_node(self, name: str, number: int) -> None:
        """Change a setting of the running node."""
        resource = AlterConfigsResource(BROKER, "1", [AlterableConfig(name, 0, str(number))])

        async def ask() -> Any:
            controller = self.node.parts.controller
            return await controller.ask(IncrementalAlterConfigsRequest([resource]))

        response = await self.on_node(ask())
        assert response.responses[0].error_code == 0
        await self.until(lambda: self.node.config.int(name) == number, f"{name} holds")

    def check_no_orphans(self, *topics: str) -> None:
        """Every object belongs to a finished segment of the records, and each of those has its objects."""
        known = {
            name for topic in topics for segment in self.segments(topic) for name in segment.object_names()
        }
        assert set(self.objects()) <= known
        for topic in topics:
            for segment in self.segments(topic):
                assert segment.state is RemoteLogSegmentState.COPY_FINISHED
                assert segment.object_name(".log") in self.objects()


def tiered(
    test: Callable[[TieredWorld], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    def run() -> None:
        async def script(world: TieredWorld) -> None:
            await world.start()
            await test(world)
            if world.is_running:
                await world.stop()

        with TieredWorld() as world:
            world.run(script(world))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@tiered
async def test_closed_segments_are_copied_with_all_that_belongs_to_them(world: TieredWorld) -> None:
    topic_id = await world.create_topic("rows", configs=TOPIC | {"local.retention.bytes": "-2"})
    world.write("rows", 10)
    await world.copied_to("rows", 9)
    segments = world.segments("rows")
    assert [(s.start_offset, s.end_offset, s.state.name) for s in segments] == [
        (0, 2, "COPY_FINISHED"),
        (3, 5, "COPY_FINISHED"),
        (6, 8, "COPY_FINISHED"),
    ]
    prefix = f"rows-{uuid_text(topic_id)}/0/"
    assert all(name.startswith(prefix) for name in world.objects())
    assert len(world.objects()) == 3 * 5, "no transaction was aborted"
    middle, log = segments[1], world.log("rows")
    data = world.store.read(middle.object_name(".log"), 0, 1 << 20)
    assert data == log.segments[1].file.read(0, 1 << 20)
    assert [header.base_offset for _, header in batches(data)] == [3, 4, 5]
    snapshot = decode_snapshot(world.store.read(middle.object_name(".snapshot"), 0, 1 << 20))
    assert [(entry.producer_id, entry.last_offset) for entry in snapshot] == [(7, 5)]
    epochs = decode_epochs(world.store.read(middle.object_name(".epochs"), 0, 1 << 20))
    assert [start for _, start in epochs] == [0]
    assert middle.size == len(data)


@tiered
async def test_the_local_tail_is_short_and_a_restart_knows_it(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 10)
    await world.copied_to("rows", 9)
    await world.until(lambda: world.log("rows").local_start_offset == 9)
    assert world.log("rows").log_start_offset == 0
    world.kill()
    await world.start()
    log = world.log("rows")
    assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (0, 9, 10)
    await world.copied_to("rows", 9)
    world.write("rows", 6)
    await world.copied_to("rows", 15)
    world.check_no_orphans("rows")


@tiered
async def test_total_retention_by_size_removes_remote_segments(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC | {"retention.bytes": "6000", "retention.ms": "-1"})
    world.write("rows", 19)
    await world.copied_to("rows", 18)
    await world.until(lambda: world.log("rows").log_start_offset > 0)
    await world.until(lambda: len(world.segments("rows")) == 3)
    assert world.log("rows").log_start_offset == 9
    assert [s.start_offset for s in world.segments("rows")] == [9, 12, 15]
    world.check_no_orphans("rows")


@tiered
async def test_total_retention_by_time_removes_remote_segments(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC | {"retention.ms": "60000"})
    world.write("rows", 7)
    await world.copied_to("rows", 6)
    await world.pass_time(40_000)
    world.write("rows", 3)
    await world.copied_to("rows", 9)
    await world.until(lambda: world.log("rows").log_start_offset == 6, timeout_s=60)
    await world.until(lambda: len(world.segments("rows")) == 1)
    world.check_no_orphans("rows")


@tiered
async def test_an_idle_topic_expires_to_its_last_record(world: TieredWorld) -> None:
    """As one does that is not tiered: the active segment is closed, copied, and removed in its time."""
    limits = {"retention.ms": "60000", "local.retention.ms": "5000"}
    await world.create_topic("rows", configs=TOPIC | limits)
    world.write("rows", 7)
    log = world.log("rows")
    await world.until(lambda: log.local_start_offset == 7, "all of it is in the store alone")
    assert (log.log_start_offset, log.log_end_offset) == (0, 7)
    await world.until(lambda: log.log_start_offset == 7, "all of it has expired", timeout_s=120)
    await world.until(lambda: not world.segments("rows"))
    assert world.objects() == []
    world.write("rows", 1)
    assert (log.log_start_offset, log.log_end_offset) == (7, 8)


@tiered
async def test_deleted_records_leave_the_store(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 10)
    await world.copied_to("rows", 9)
    world.partition("rows").delete_records(5)
    await world.until(lambda: len(world.segments("rows")) == 2)
    assert [s.start_offset for s in world.segments("rows")] == [3, 6]
    world.partition("rows").delete_records(-1)
    await world.until(lambda: not world.segments("rows"))
    assert world.objects() == []


@tiered
async def test_a_deleted_topic_leaves_nothing(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 10)
    await world.copied_to("rows", 9)
    await world.delete_topic("rows")
    await world.until(lambda: not world.objects())


@tiered
async def test_a_topic_deleted_right_before_a_crash_leaves_nothing(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 10)
    await world.copied_to("rows", 6)
    await world.delete_topic("rows")
    world.kill(Crash.KILL)
    assert world.objects() != []
    await world.start()
    await world.until(lambda: not world.objects())


@tiered
async def test_turning_tiering_off_takes_everything_back(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 10)
    await world.copied_to("rows", 9)
    await world.until(lambda: world.log("rows").local_start_offset == 9)
    assert await world.try_to_configure("rows", remote_storage_enable="false") == ErrorCode.INVALID_CONFIG
    await world.configure("rows", remote_log_delete_on_disable="true", remote_storage_enable="false")
    await world.until(lambda: not world.objects())
    assert world.log("rows").log_start_offset == 9
    world.write("rows", 6)
    await world.pass_time(5_000)
    assert world.objects() == []


async def with_a_short_tail(world: TieredWorld) -> None:
    await world.start()
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 10)
    await world.until(lambda: world.log("rows").local_start_offset == 9)


def seldom() -> TieredWorld:
    """A node that looks for what to remove every ten minutes only."""
    return TieredWorld({"remote.log.manager.task.interval.ms": "600000"})


OFF = {"remote_storage_enable": "false", "remote_log_delete_on_disable": "true"}


def test_turned_off_the_copies_go_at_once() -> None:
    async def script(world: TieredWorld) -> None:
        await with_a_short_tail(world)
        await world.configure("rows", **OFF)
        await world.until(lambda: not world.objects(), timeout_s=5)
        await world.stop()

    with seldom() as world:
        world.run(script(world))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_turned_off_the_copies_go_whatever_is_set_later(both: bool, ends: bool) -> None:
    async def script(world: TieredWorld) -> None:
        await with_a_short_tail(world)
        await world.configure("rows", **OFF)
        unset = {"remote_log_delete_on_disable": None, **({"remote_storage_enable": None} if both else {})}
        await world.configure("rows", **unset)
        assert world.objects() != [], "nobody has heard of it yet"
        if ends:
            world.kill()
            await world.start()
        await world.until(lambda: not world.objects(), timeout_s=1_000 if ends else 5)
        log = world.log("rows")
        assert (log.log_start_offset, log.local_start_offset) == (9, 9)
        await world.stop()

    with seldom() as world:
        world.run(script(world))


@pytest.mark.parametrize("pause_ms", range(0, 200, 10))
@pytest.mark.parametrize("unset", [False, True])
def test_turned_on_again_nothing_is_lost(pause_ms: int, unset: bool) -> None:
    """What was to go is the log's again, as far as it was not removed."""

    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC | {"local.retention.ms": "-2"})
        world.write("rows", 30)
        await world.copied_to("rows", 27)
        await world.configure("rows", **OFF)
        if unset:
            await world.configure("rows", remote_log_delete_on_disable=None)
        await world.pass_time(pause_ms)
        await world.configure("rows", remote_storage_enable="true", local_retention_ms="1")
        world.write("rows", 4)
        await world.until(lambda: world.log("rows").local_start_offset >= 30, "a short tail again")
        log = world.log("rows")
        copies = world.segments("rows", RemoteLogSegmentState.COPY_FINISHED)
        held = {n for each in copies for n in range(each.start_offset, each.end_offset + 1)}
        assert set(range(log.log_start_offset, log.local_start_offset)) <= held
        assert log.log_start_offset == 0, "all of it was on the disk"
        await world.until(lambda: len(world.segments("rows")) == len(copies))
        world.check_no_orphans("rows")
        await world.stop()

    with TieredWorld({"log.retention.check.interval.ms": "10"}) as world:
        world.run(script(world))


@tiered
async def test_a_topic_may_stop_copying_and_stay_readable(world: TieredWorld) -> None:
    await world.create_topic("rows", configs=TOPIC | {"local.retention.bytes": "-2"})
    world.write("rows", 4)
    await world.copied_to("rows", 3)
    await world.configure("rows", remote_log_copy_disable="true")
    world.write("rows", 9)
    await world.pass_time(10_000)
    assert len(world.segments("rows")) == 1
    await world.configure("rows", remote_log_copy_disable="false")
    await world.copied_to("rows", 12)


@tiered
async def test_an_orphan_in_the_store_is_found_by_the_next_leader(world: TieredWorld) -> None:
    """Somebody put an object when the segment had been removed already."""
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 7)
    await world.copied_to("rows", 6)
    late = world.segments("rows")[0]
    world.partition("rows").delete_records(3)
    await world.until(lambda: len(world.segments("rows")) == 1)
    world.store.put_bytes(late.object_name(".log"), b"late")
    await world.stop()
    await world.start()
    await world.until(lambda: late.object_name(".log") not in world.objects())
    await world.copied_to("rows", 6)
    world.check_no_orphans("rows")


@tiered
async def test_what_a_killed_writer_began_is_found_by_the_next_leader(world: TieredWorld) -> None:
    """What the records name may be under way, and stays until its segment goes."""
    await world.create_topic("rows", configs=TOPIC)
    world.write("rows", 7)
    await world.copied_to("rows", 6)
    removed, kept = world.segments("rows")
    world.partition("rows").delete_records(3)
    await world.until(lambda: len(world.segments("rows")) == 1)
    named, stray = kept.object_name(".txnindex"), removed.object_name(".log")
    for name in (named, stray):
        world.machine.disk.open(f"{ROOT}/{name}~", create=True).write(0, [b"half of it"])
    await world.stop()
    await world.start()
    await world.until(lambda: stray not in world.store.begun(""))
    assert named in world.store.begun("")
    assert named not in world.objects()
    await world.delete_topic("rows")
    await world.until(lambda: not list(world.store.begun("")), "nothing is left")


def test_copies_keep_to_their_bound() -> None:
    """Each copy is some 2.3 KB with its indexes; what was copied is waited for before the next one."""

    async def script() -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC)
        world.write("rows", 10)
        await world.copied_to("rows", 3)
        began_ms = world.now_ms()
        await world.copied_to("rows", 9)
        assert 2_000 < world.now_ms() - began_ms < 12_000
        await world.stop()

    with TieredWorld({"remote.log.manager.copy.max.bytes.per.second": "1000"}) as world:
        world.run(script())


def test_what_was_removed_does_not_come_back_with_the_files_that_a_crash_left() -> None:
    async def script(world: TieredWorld) -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC | {"retention.bytes": "6000", "retention.ms": "-1"})
        world.write("rows", 19)
        await world.until(lambda: world.log("rows").log_start_offset > 0, "the log starts later")
        start = world.log("rows").log_start_offset
        assert world.log("rows").segments.first.base_offset == 0, "all of it is still on this disk"
        world.kill()
        await world.start()
        assert world.log("rows").log_start_offset == 0, "no crash has forgotten it"
        client = await world.connect()
        found = (await client.ask(find("rows", EARLIEST), 7)).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (0, start), "who asks waits until it is known"

    with TieredWorld({"log.retention.check.interval.ms": "1000000"}) as world:
        world.run(script(world))


def run_at_once(executor: Executor, count: int) -> None:
    """So many jobs that all wait for each other: they end only if each has a thread."""
    barrier = threading.Barrier(count)
    for job in [executor.submit(barrier.wait, 60) for _ in range(count)]:
        job.result()


@tiered
async def test_pools_grow_with_their_settings(world: TieredWorld) -> None:
    remote_log_manager = world.node.remote_log_manager
    assert remote_log_manager is not None
    await world.configure_node("remote.log.reader.threads", 90)
    await world.configure_node("remote.log.manager.copier.thread.pool.size", 60)
    assert remote_log_manager.reading.reader._limits.threads() == 90
    run_at_once(remote_log_manager.reading.executor, 90)
    run_at_once(remote_log_manager._executor, 60)
