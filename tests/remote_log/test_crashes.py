"""A node that is killed at every step of a copy and of a removal, before, in the middle of and after it.

A step is a call of the store, or a record in `__remote_log_metadata`. After each the node is started again:
what was written is all there, in one tier or the other, and the store holds what the records say, no more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.log.disk import File
from headrace.records.batch import batches, read_records
from headrace.testing.disk import Crash
from headrace.testing.disk_faults import ProcessEndedError
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from headrace.tiered.stores.folder import FolderStore
from tests.remote_log.test_remote_log_manager import ROOT, TOPIC, TieredWorld

BEFORE, HALF, AFTER = "before", "half", "after"
COUNT = 7  # two closed segments, and one record more


@dataclass
class Plan:
    """Which call of the store the process does not survive; calls are counted over all its lives."""

    at: int
    when: str
    calls: int = 0
    has_struck: bool = False


class DeadlyStore(FolderStore):
    """A folder store that ends the process which asks it."""

    def __init__(self, own: Surroundings, machine: SimulatedMachine, plan: Plan) -> None:
        super().__init__(own.disk, ROOT)
        self._machine = machine
        self._plan = plan

    def put(self, name: str, source: File, size: int) -> None:
        self.put_bytes(name, source.read(0, size))

    def put_bytes(self, name: str, data: bytes) -> None:
        when = self._fate()
        if when != BEFORE:
            super().put_bytes(name, data[: len(data) // 2] if when == HALF else data)
        self._die(when)

    def delete(self, names: list[str]) -> None:
        when = self._fate()
        if when != BEFORE:
            super().delete(names[:2] if when == HALF else names)
        self._die(when)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        return super().list(prefix)

    def _fate(self) -> str | None:
        self._plan.calls += 1
        return self._plan.when if self._plan.calls == self._plan.at else None

    def _die(self, when: str | None) -> None:
        if when is not None:
            self._plan.has_struck = True
            self._machine.crash(Crash.KILL)
            raise ProcessEndedError


def contents(world: TieredWorld) -> list[int]:
    """The offsets that can be read, from the log's start on."""
    log, found = world.log("rows"), []
    offset = log.log_start_offset
    segments = {s.start_offset: s for s in world.segments("rows", RemoteLogSegmentState.COPY_FINISHED)}
    while offset < log.local_start_offset:
        segment = segments[offset]
        data = world.store.read(segment.object_name(".log"), 0, segment.size + 1)
        assert len(data) == segment.size
        found += [record.offset for at, _ in batches(data) for record in read_records(data, at)]
        offset = segment.end_offset + 1
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes=1 << 20)
        data = result.chunk if isinstance(result.chunk, bytes) else result.chunk.read()
        found += [record.offset for at, _ in batches(data) for record in read_records(data, at)]
        offset = result.upper_offset
    return found


async def settle(world: TieredWorld, start: int) -> None:
    """Start the node again if it was killed, and wait until there is nothing to do."""
    if not world.machine.is_running:
        world.kill()
        await world.start()
    await world.copied_to("rows", 6)
    await world.until(lambda: world.log("rows").local_start_offset == 6)
    await world.until(lambda: world.log("rows").log_start_offset == start)
    finished = RemoteLogSegmentState.COPY_FINISHED
    await world.until(lambda: all(each.state is finished for each in world.segments("rows")))
    known = {name for each in world.segments("rows") for name in each.object_names()}
    await world.until(lambda: set(world.objects()) <= known, "nothing is left over")
    assert contents(world) == list(range(start, COUNT))
    world.check_no_orphans("rows")


def run(plan: Plan, *, records: int = 0, at_end: Callable[[TieredWorld], None] = lambda world: None) -> None:
    """Write, copy, delete the first segment; be killed at the plan's call of the store, or when the topic of
    the records has so many.
    """

    def deadly(own: Surroundings) -> DeadlyStore:
        own.disk.make_folder(ROOT)
        return DeadlyStore(own, world.machine, plan)

    def kill_at_record() -> None:
        if records and not plan.has_struck and world.is_running and world.machine.is_running:
            replicas = list(world.node.parts.replica_manager)
            logs = [each.log for each in replicas if each.topic_partition.topic == REMOTE_LOG_TOPIC]
            if sum(log.log_end_offset for log in logs if log is not None) >= records:
                plan.has_struck = True
                world.machine.crash(Crash.KILL)

    async def script() -> None:
        await world.start()
        await world.create_topic("rows", configs=TOPIC)
        world.write("rows", COUNT)
        await world.until(
            lambda: not world.machine.is_running or world.log("rows").local_start_offset == 6, "copied"
        )
        await settle(world, 0)
        world.partition("rows").delete_records(3)
        await world.until(
            lambda: not world.machine.is_running or len(world.segments("rows")) == 1, "one is removed"
        )
        if not world.machine.is_running:
            world.kill()
            await world.start()
            if world.log("rows").log_start_offset < 3:  # what was told to a client a moment ago
                world.partition("rows").delete_records(3)
        await settle(world, 3)
        await world.delete_topic("rows")
        await world.until(lambda: not world.machine.is_running or not world.objects(), "nothing is left")
        if not world.machine.is_running:
            world.kill()
            await world.start()
            await world.until(lambda: not world.objects(), "nothing is left after a crash")
        at_end(world)
        await world.stop()

    with TieredWorld() as world:
        world.make_remote_store = deadly
        world.world.check_every_step(kill_at_record)
        world.run(script())
    assert plan.has_struck


# Two copies are 5 calls each, the removals of the two segments one each.
@pytest.mark.parametrize("when", [BEFORE, HALF, AFTER])
@pytest.mark.parametrize("at", range(1, 13))
def test_killed_at_a_call_of_the_store(at: int, when: str) -> None:
    run(Plan(at, when))


# Two copies are two records each, and so are the removals of the two segments.
@pytest.mark.parametrize("records", range(1, 9))
def test_killed_when_a_record_is_written(records: int) -> None:
    run(Plan(0, BEFORE), records=records)
