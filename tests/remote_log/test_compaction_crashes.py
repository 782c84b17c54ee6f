"""A node that is killed at every step of a compaction in the remote store, before, in the middle of and after
it.

A step is a call of the store, or a record in `__remote_log_metadata`. Values are in the store when others
take their place and delete markers follow; the next round writes several groups anew, drops the markers with
what they delete, and removes the old copies. After each kill the node is started again: each key has its last
value, no deleted one has come back, and the store holds what the records say, no more.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest

from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.log.append import AppendOrigin
from headrace.records.batch import Record, build_batch
from headrace.testing.disk import Crash
from headrace.testing.machine import Surroundings
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from tests.remote_log.test_compaction import COMPACTED, CompactedWorld
from tests.remote_log.test_crashes import AFTER, BEFORE, HALF, DeadlyStore, Plan
from tests.remote_log.test_remote_log_manager import ROOT

READING = "reading"
# A marker goes with the first round that finds what it deletes gone.
TOPIC = COMPACTED | {
    "delete.retention.ms": "100",
    "min.cleanable.dirty.ratio": "0.1",
    # By age the active segment would be closed, too.
    "local.retention.ms": "-2",
    "local.retention.bytes": "1",
}
KEPT, RENEWED, DELETED = b"kept", b"renewed", b"deleted"
# Two copies of what is new and five that take the places of all, 5 puts each; five are removed.
CALLS = 7 * 5 + 5
# The new ones are read for the table of keys; all are, with two small objects each, to be written anew.
READS = 2 + 5 * 3
RECORDS = 7 * 2 + 5 * 2


class DeadlyReads(DeadlyStore):
    """Counts what is read where the plan says so, and everything else otherwise."""

    def read(self, name: str, start: int, end: int) -> bytes:
        if self._plan.when == READING:
            self._die(super()._fate())
        return super().read(name, start, end)

    def _fate(self) -> str | None:
        return None if self._plan.when == READING else super()._fate()


class KilledWorld(CompactedWorld):
    """Killed as the plan says, or when so many records have been written, once it is armed."""

    def __init__(self, plan: Plan, *, records: int) -> None:
        super().__init__()
        self.plan = plan
        self._at, plan.at = plan.at, 0
        self.is_armed = False
        self._records = records
        self._records_before = 0
        self.make_remote_store = self._deadly
        self.world.check_every_step(self._kill_at_record)

    def _deadly(self, own: Surroundings) -> DeadlyReads:
        own.disk.make_folder(ROOT)
        return DeadlyReads(own, self.machine, self.plan)

    def arm(self) -> None:
        self.is_armed = True
        self.plan.calls, self.plan.at = 0, self._at
        self._records_before += self.records()

    def records(self) -> int:
        """Written since it was armed."""
        replicas = list(self.node.parts.replica_manager)
        logs = [each.log for each in replicas if each.topic_partition.topic == REMOTE_LOG_TOPIC]
        return sum(log.log_end_offset for log in logs if log is not None) - self._records_before

    def _kill_at_record(self) -> None:
        is_due = self._records and self.is_armed and not self.plan.has_struck
        if is_due and self.is_running and self.machine.is_running and self.records() >= self._records:
            self.plan.has_struck = True
            self.machine.crash(Crash.KILL)

    def write_one(self, key: bytes, value: bytes | None) -> None:
        now_ms = self.machine.clock.now_ms()
        batch = build_batch([Record(timestamp=now_ms, key=key, value=value)])
        self.partition("rows").append(batch, now_ms=now_ms, origin=AppendOrigin.CLIENT, acks=1, api_version=9)
        self.model[key] = value

    def write_values(self, *kinds: bytes) -> None:
        """Three records to a segment."""
        for number in range(3):
            for kind in kinds:
                self.write_one(b"%s-%d" % (kind, number), b"%d/" % self.written + b"v" * 600)
                self.written += 1

    def is_settled(self) -> bool:
        """Every closed segment is in the store, once, and nothing is under way."""
        end = self.log("rows").segments.active.base_offset
        return (
            (self.log("rows").tiered_to or 0) >= end
            and self.log("rows").local_start_offset == end
            and all(each.state is RemoteLogSegmentState.COPY_FINISHED for each in self.segments("rows"))
            and all(a.end_offset < b.start_offset for a, b in pairwise(self.remote()))
        )

    def is_compacted(self) -> bool:
        return self.is_settled() and not any(key.startswith(DELETED) for key in self.found())

    async def until_or_killed(self, condition: Callable[[], bool], what: str) -> None:
        await self.until(lambda: not self.machine.is_running or condition(), what)


def run(plan: Plan, *, records: int = 0) -> int:
    """How many records were written since the store had the values."""

    async def script() -> int:
        await world.start()
        await world.create_topic("rows", configs=TOPIC)
        world.write_values(KEPT, RENEWED, DELETED)
        world.write_one(b"last", b"v")
        await world.until(lambda: len(world.remote()) == 3 and world.is_settled(), "the values are copied")
        world.arm()
        for number in range(3):
            world.write_one(b"%s-%d" % (DELETED, number), None)
        world.write_values(RENEWED)
        world.write_values(RENEWED)
        await world.until_or_killed(world.is_compacted, "compacted")
        if not world.machine.is_running:
            world.kill()
            await world.start()
            await world.until(lambda: world.log("rows").tiered_to is not None, "its records are read")
            world.check()
            await world.until(world.is_settled, "nothing is left half done")
            world.check()
            world.check_no_orphans("rows")
            # The round may have been over but for the markers: they go with the next one.
            world.write_values(RENEWED)
            world.write_values(RENEWED)
            await world.until(world.is_compacted, "compacted after a crash")
        world.check()
        world.check_no_orphans("rows")
        written = world.records()
        await world.stop()
        return written

    with KilledWorld(plan, records=records) as world:
        return world.run(script())


def test_every_step_is_one_of_these() -> None:
    calls, reads = Plan(0, BEFORE), Plan(0, READING)
    assert (run(calls), calls.calls) == (RECORDS, CALLS)
    assert (run(reads), reads.calls) == (RECORDS, READS)


# After a call is before the next one, but for records that are written between them, which follow.
@pytest.mark.parametrize("when", [BEFORE, HALF, pytest.param(AFTER, marks=pytest.mark.slow)])
@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_killed_at_a_call_of_the_store(at: int, when: str) -> None:
    plan = Plan(at, when)
    run(plan)
    assert plan.has_struck


@pytest.mark.parametrize("at", range(1, READS + 1))
def test_killed_when_it_reads(at: int) -> None:
    plan = Plan(at, READING)
    run(plan)
    assert plan.has_struck


@pytest.mark.parametrize("records", range(1, RECORDS + 1))
def test_killed_when_a_record_is_written(records: int) -> None:
    plan = Plan(0, BEFORE)
    run(plan, records=records)
    assert plan.has_struck
