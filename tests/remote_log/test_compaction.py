"""Compacted topics in the remote tier: superseded records go from the store too, and nothing comes back."""

import random
from dataclasses import replace
from typing import Any

import pytest

from headrace.log.append import AppendOrigin
from headrace.log.compaction.drivers import log_cleaner
from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.remote_log import compactor
from headrace.remote_log.compactor import chain, group_remote
from headrace.remote_log.copier import cleaner_checkpoint
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.remote_log.test_remote_log_manager import TieredWorld
from tests.tiered.building import remote_segment

COMPACTED = {
    "remote.storage.enable": "true",
    "cleanup.policy": "compact",
    "internal.segment.bytes": "2048",
    "local.retention.ms": "1",
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": "3000",
    "file.delete.delay.ms": "500",
}
SETTINGS = {"log.cleaner.backoff.ms": "200"}
KEYS = 12


class CompactedWorld(TieredWorld):
    """Keeps what each key's last value is."""

    def __init__(self, *, seed: int = 1, **settings: str) -> None:
        super().__init__(SETTINGS | settings, seed=seed)
        self.model: dict[bytes, bytes | None] = {}
        self.rng = random.Random(seed)
        self.written = 0

    def write_keys(self, count: int) -> None:
        """One batch for each record; a tenth of them are delete markers."""
        partition = self.partition("rows")
        for _ in range(count):
            key = b"k%d" % self.rng.randrange(KEYS)
            value = None if self.rng.random() < 0.1 else b"%d/" % self.written + b"v" * 300
            self.written += 1
            now_ms = self.machine.clock.now_ms()
            batch = build_batch([Record(timestamp=now_ms, key=key, value=value)])
            partition.append(batch, now_ms=now_ms, origin=AppendOrigin.CLIENT, acks=1, api_version=9)
            self.model[key] = value

    def remote(self) -> list[RemoteLogSegmentMetadata]:
        return sorted(
            self.segments("rows", RemoteLogSegmentState.COPY_FINISHED), key=lambda each: each.start_offset
        )

    def found(self) -> dict[bytes, bytes | None]:
        """Each key's last value, read through both tiers from the log's start."""
        log = self.log("rows")
        assert self.node.remote_log_manager is not None
        remote = self.node.remote_log_manager.logs.get(self.node.remote_log_manager.tasks.held()[0])
        assert remote is not None
        offset, last = log.log_start_offset, {}
        while offset < log.log_end_offset:
            segment = remote.find(log.leader_epoch_cache, offset) if offset < log.local_start_offset else None
            if segment is not None:
                data, upper = self.store.read(segment.object_name(".log"), 0, 1 << 20), segment.end_offset + 1
                assert len(data) == segment.size
            else:
                result = log.read(offset, max_bytes=1 << 20)
                data = result.chunk if isinstance(result.chunk, bytes) else result.chunk.read()
                upper = result.upper_offset
            for at, _ in batches(data):
                for record in read_records(data, at):
                    if record.offset >= offset and record.key is not None:
                        last[record.key] = record.value
            offset = upper
        return last

    def check(self) -> None:
        there = {key: value for key, value in self.found().items() if value is not None}
        assert there == {key: value for key, value in self.model.items() if value is not None}


@pytest.mark.parametrize("seed", [1])
def test_superseded_records_go_from_the_store_too(seed: int) -> None:
    async def script() -> None:
        await world.start()
        await world.create_topic("rows", configs=COMPACTED)
        for _ in range(8):
            world.write_keys(30)
            await world.pass_time(1_500)
            world.check()
        await world.until(lambda: world.log("rows").local_start_offset > 100)
        end = world.log("rows").segments.active.base_offset
        await world.until(lambda: (world.log("rows").tiered_to or 0) >= end, "all closed segments copied")
        await world.pass_time(10_000)
        world.check()
        # Some 240 records of 380 bytes were written; a dozen keys are left, and what is new since.
        assert sum(segment.size for segment in world.remote()) < 240 * 380 / 3
        assert world.log("rows").log_start_offset == 0
        known = {name for each in world.segments("rows") for name in each.object_names()}
        assert set(world.objects()) <= known
        await world.stop()

    with CompactedWorld(seed=seed) as world:
        world.run(script())


@pytest.mark.parametrize("seed", range(2))
def test_nothing_comes_back_after_crashes(seed: int) -> None:
    async def script() -> None:
        await world.start()
        await world.create_topic("rows", configs=COMPACTED)
        for _ in range(5):
            world.write_keys(40)
            await world.pass_time(world.rng.randrange(300, 3_000))
            world.kill(Crash.KILL)
            await world.start()
            await world.until(lambda: world.log("rows").tiered_to is not None)
            world.check()
        end = world.log("rows").segments.active.base_offset
        await world.until(lambda: (world.log("rows").tiered_to or 0) >= end, "all closed segments copied")
        finished = RemoteLogSegmentState.COPY_FINISHED
        await world.until(lambda: all(each.state is finished for each in world.segments("rows")))
        await world.pass_time(5_000)
        world.check()
        await world.stop()

    with CompactedWorld(seed=seed) as world:
        world.run(script())


@pytest.mark.parametrize("threads", [1, 2])
def test_rounds_here_and_in_the_store_share_one_memory(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[Any, int] = {}
    windows: dict[Any, int] = {}

    def note(module: Any) -> None:
        table, limits = module.OffsetMap, module.CleanerLimits

        def noted_table(size_bytes: int, *words: Any, **more: Any) -> Any:
            tables[module] = size_bytes + sum(more.values())
            return table(size_bytes, *words, **more)

        def noted_limits(buffer_bytes: int, **more: Any) -> Any:
            windows[module] = buffer_bytes
            return limits(buffer_bytes, **more)

        monkeypatch.setattr(module, "OffsetMap", noted_table)
        monkeypatch.setattr(module, "CleanerLimits", noted_limits)

    note(log_cleaner)
    note(compactor)

    async def script() -> None:
        await world.start()
        await world.create_topic("rows", configs=COMPACTED)
        while len(tables) < 2:
            world.write_keys(30)
            await world.pass_time(1_500)
        await world.stop()

    memory = {"log.cleaner.dedupe.buffer.size": "4000000", "log.cleaner.io.buffer.size": "60000"}
    with CompactedWorld(**memory, **{"log.cleaner.threads": str(threads)}) as world:
        world.run(script())
    assert threads * tables[log_cleaner] + tables[compactor] <= 4_000_000
    assert threads * windows[log_cleaner] + windows[compactor] <= 60_000


def test_neighbours_that_overlap_become_one() -> None:
    segments = [remote_segment(1, 0, 9), remote_segment(2, 5, 19), remote_segment(3, 20, 29)]
    assert group_remote(segments, TopicConfig(segment_bytes=100)) == [segments[:2], segments[2:]]
    assert group_remote(segments, TopicConfig()) == [segments]


def test_what_lies_within_another_copy_is_left_out() -> None:
    """Found by the simulator (tiers, seed 3003434): the last one to start was not the one to end last."""
    first, long, within = remote_segment(1, 0, 9), remote_segment(2, 5, 29), remote_segment(3, 10, 19)
    last = remote_segment(4, 20, 35)
    assert chain([first, long, within]) == [first, long]
    assert chain([first, long, within, last]) == [first, long, last]


def test_a_mark_tells_how_far_compaction_has_been() -> None:
    plain = remote_segment(1, 5, 9)
    assert (cleaner_checkpoint(plain), plain.is_cleaned) == (5, False)
    marked = replace(plain, custom_metadata=b"clean-to=70")
    assert (cleaner_checkpoint(marked), marked.is_cleaned) == (70, True)
