"""Flushing: one sync for all that came during the one before, and failures told to who waits."""

from collections.abc import Iterator

import pytest

from headrace.base.ids import TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.replication.drivers.log_flusher import LogFlusher
from headrace.testing.loop import SimulatedLoop
from tests.replication.building import NODE, append, image, lone_partition


class Bench:
    """A log, a loop, and whoever is told that something became durable."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop(seed=3)
        self.partition, self.parts = lone_partition()
        self.partition.follow_metadata(image(NODE))
        self.told: list[TopicPartition] = []
        self.log_flusher = LogFlusher(loop=self.loop, clock=self.parts.clock, on_durable=self.told.append)

    @property
    def log(self) -> UnifiedLog:
        assert self.partition.log is not None
        return self.partition.log

    @property
    def disk_operations(self) -> int:
        return self.parts.disk.faults.operations

    def run(self, seconds: float = 1.0) -> None:
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    assert bench.loop.uncaught == []
    bench.loop.kill()


def test_what_was_written_is_durable_when_it_is_told(bench: Bench) -> None:
    append(bench.partition, 3)
    bench.log_flusher.request(bench.log)
    assert (bench.log.recovery_point, bench.told) == (0, [])  # the loop goes on meanwhile
    bench.run()
    assert bench.log.recovery_point == 3
    assert bench.told == [TopicPartition("t", 0)]


def test_many_requests_during_a_sync_make_one_more(bench: Bench) -> None:
    append(bench.partition)
    bench.log_flusher.request(bench.log)
    for _ in range(50):
        append(bench.partition)
        bench.log_flusher.request(bench.log)
    bench.run()
    assert bench.log.recovery_point == 51
    assert bench.told == [TopicPartition("t", 0)] * 2


def test_a_request_with_nothing_to_do_costs_nothing(bench: Bench) -> None:
    append(bench.partition)
    bench.log_flusher.request(bench.log)
    bench.run()
    before = bench.disk_operations
    bench.log_flusher.request(bench.log)
    bench.run()
    assert bench.disk_operations == before
    assert len(bench.told) == 1


def test_a_failed_sync_fails_the_log_and_is_told(bench: Bench) -> None:
    append(bench.partition)
    bench.parts.disk.faults.sync_error_rate = 1.0
    bench.log_flusher.request(bench.log)
    bench.log_flusher.request(bench.log)  # one more was asked for: it is not tried
    bench.run()
    assert bench.log.failure is not None
    assert bench.log.recovery_point == 0
    assert bench.told == [TopicPartition("t", 0)]
    assert bench.parts.failed == ["/a"]


def test_a_log_that_failed_before_is_told_at_once(bench: Bench) -> None:
    append(bench.partition)
    bench.parts.store.handle_log_dir_failure(bench.parts.store.log_dirs[0], OSError("gone"))
    bench.log_flusher.request(bench.log)
    assert bench.told == [TopicPartition("t", 0)]


def test_logs_are_flushed_beside_each_other(bench: Bench) -> None:
    other, _ = lone_partition()
    other.follow_metadata(image(NODE))
    append(bench.partition)
    append(other)
    assert other.log is not None
    for log in (bench.log, other.log):
        bench.log_flusher.request(log)
    bench.run()
    assert (bench.log.recovery_point, other.log.recovery_point) == (1, 1)


def test_a_log_that_is_deleted_while_it_is_synced(bench: Bench) -> None:
    append(bench.partition)
    bench.log.roll(0)
    bench.partition.follow_metadata(image(NODE, epoch=1))  # its file of leader epochs is to be written
    append(bench.partition)
    bench.log_flusher.request(bench.log)
    bench.log_flusher.request(bench.log)
    bench.parts.store.delete(TopicPartition("t", 0))
    bench.run()
    assert bench.told
    assert bench.parts.failed == []  # what it did not find is no fault of the disk


def test_settled_means_that_no_thread_syncs_any_more(bench: Bench) -> None:
    async def script() -> None:
        await bench.log_flusher.wait_idle()  # nothing is under way
        append(bench.partition)
        bench.log_flusher.request(bench.log)
        append(bench.partition)
        bench.log_flusher.request(bench.log)
        await bench.log_flusher.wait_idle()
        assert bench.log.recovery_point == 2

    bench.loop.run_until_complete(script())
