"""Which logs wait for compaction: all are looked at, some each turn of the loop, the dirtiest first."""

import asyncio

from headrace.log.compaction.drivers.log_cleaner_manager import SLICE, LogCleanerManager
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import Record, build_batch
from tests.server.beside_kafka.produce import produce
from tests.server.node_world import NodeWorld, simulated

CONFIGS = {"cleanup.policy": "compact", "internal.segment.bytes": "300", "min.cleanable.dirty.ratio": "0.1"}
COUNT = 3 * SLICE


class Asked:
    """A queue over a node's logs, and what it asks for."""

    def __init__(self, world: NodeWorld) -> None:
        self.looked_at: list[UnifiedLog] = []
        self.faults: list[tuple[UnifiedLog, Exception]] = []
        self.is_filled = False
        assert world.machine.process is not None
        self.manager = LogCleanerManager(
            loop=world.machine.process.loop,
            log_manager=world.node.parts.log_manager,
            may_begin=self.may_begin,
            on_fault=lambda log, error: self.faults.append((log, error)),
            on_looked=self.filled,
        )

    def may_begin(self, log: UnifiedLog) -> bool:
        self.looked_at.append(log)
        return True

    def filled(self) -> None:
        self.is_filled = True

    async def fill(self) -> list[int]:
        """How many logs were looked at in each turn of the loop."""
        turns = []
        self.manager.look()
        while True:
            turns.append(len(self.looked_at) - sum(turns))
            if self.is_filled:
                return turns
            await asyncio.sleep(0)


async def write(world: NodeWorld, *partitions: int) -> None:
    client = await world.connect()
    for partition in partitions:
        for _ in range(6):
            batch = build_batch([Record(0, 0, b"key", bytes(80))])
            reply = await client.ask(produce("t", batch, partitions=[partition]), 12)
            assert reply.responses[0].partition_responses[0].error_code == 0


@simulated(log_cleaner_enable="false")
async def test_logs_are_looked_at_slice_by_slice(world: NodeWorld) -> None:
    await world.create_topic("t", COUNT, configs=CONFIGS)
    await write(world, 0, SLICE, COUNT - 1)
    world.log("t", 0).cleaner_checkpoint = world.log("t", 0).segments[1].base_offset
    asked = Asked(world)
    turns = await world.on_node(asked.fill())
    assert turns == [SLICE, SLICE, SLICE]
    assert len(set(asked.looked_at)) == COUNT
    found = [asked.manager.grab_filthiest_compacted_log() for _ in range(4)]
    numbers = [each and each.log.topic_partition.partition for each in found]
    assert sorted(numbers[:2]) == [SLICE, COUNT - 1]
    assert numbers[2:] == [0, None]  # a part of it is clean


@simulated(log_cleaner_enable="false")
async def test_a_log_is_looked_at_again_when_its_turn_comes(world: NodeWorld) -> None:
    await world.create_topic("t", 2, configs=CONFIGS)
    await write(world, 0, 1)
    asked = Asked(world)
    await world.on_node(asked.fill())
    gone = world.log("t", 0)
    gone.truncate_to(0, now_ms=0)
    found = asked.manager.grab_filthiest_compacted_log()
    assert found is not None
    assert found.log is world.log("t", 1)
    assert asked.manager.grab_filthiest_compacted_log() is None


@simulated(log_cleaner_enable="false")
async def test_a_log_that_cannot_be_looked_at_keeps_no_other_from_its_turn(world: NodeWorld) -> None:
    await world.create_topic("t", 2, configs={**CONFIGS, "max.compaction.lag.ms": "3600000"})
    await write(world, 0, 1)
    await world.stop()
    await world.start()
    faults = world.machine.disk.faults
    faults.concerns = lambda path: path.startswith("/data/t-0")
    faults.read_error_rate = 1.0
    asked = Asked(world)
    await world.on_node(asked.fill())
    ((log, error),) = asked.faults
    assert (log, type(error)) == (world.log("t", 0), OSError)
    found = asked.manager.grab_filthiest_compacted_log()
    assert found is not None
    assert found.log is world.log("t", 1)
