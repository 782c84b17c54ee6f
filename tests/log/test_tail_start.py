"""A log that starts in the remote store: made, killed on the way, cut back."""

import random

import pytest

from headrace.base.ids import TopicId
from headrace.log.log_loader import open_log
from headrace.log.producer_snapshots import ProducerEntry
from headrace.log.storage import Storage
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash, VirtualDisk
from headrace.testing.disk_faults import ProcessEndedError
from tests.log.building import NOW_MS, TP, append, batch_of, read_all, sequenced

CONFIG = TopicConfig(remote_storage_enable=True)
EPOCHS = [(0, 0), (3, 700)]
PRODUCERS = [ProducerEntry(7, 2, 41, 990, 4, NOW_MS, 0, -1)]


class Follower:
    """A log with some records of its own, on a disk that can be cut from power."""

    def __init__(self, seed=0):
        self.disk = VirtualDisk(rng=random.Random(seed))
        self.disk.make_folder("/data")
        self.disk.sync_folder("/")
        self.start = 0
        self.log = self.open()
        append(self.log, batch_of(5))
        self.log.maybe_increment_high_watermark(5)
        self.flush()

    def open(self, disk=None, **fields):
        self.disk = disk or self.disk
        storage = Storage(self.disk)
        storage.on_start_apart = self.note_start
        return open_log(
            storage,
            f"/data/{TP}",
            TP,
            CONFIG,
            topic_id=TopicId(b"i" * 16),
            now_ms=NOW_MS,
            log_start_offset=self.start,
            starts_elsewhere=True,
            **fields,
        )

    def note_start(self, log):
        self.start = log.log_start_offset

    def flush(self):
        flush = self.log.begin_flush()
        flush.sync()
        self.log.finish_flush(flush, now_ms=NOW_MS)

    def start_behind(self, log_start_offset=2):
        self.log.start_behind_remote(
            1000, log_start_offset=log_start_offset, epochs=EPOCHS, producers=PRODUCERS, now_ms=NOW_MS
        )


def is_there(log):
    """Whether all is known that lies before the local part."""
    return (
        log.leader_epoch_cache.entries() == [(0, 2), (3, 700)]
        and log.producer_state_manager.producers[7].last_sequence == 41
        and (log.log_start_offset, log.local_start_offset, log.high_watermark) == (2, 1000, 1000)
    )


def test_it_goes_on_behind_what_is_elsewhere():
    follower = Follower()
    follower.start_behind()
    log = follower.log
    assert is_there(log)
    append(log, sequenced(7, 2, 42), leader_epoch=3)
    assert (log.log_end_offset, log.leader_epoch_cache.entries()) == (1001, [(0, 2), (3, 700)])
    assert [record.offset for record in read_all(log, 1000)] == [1000]
    follower.flush()
    log = follower.open()
    assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (2, 1000, 1001)
    assert log.leader_epoch_cache.entries() == [(0, 2), (3, 700)]
    assert log.producer_state_manager.producers[7].last_sequence == 42


@pytest.mark.parametrize("how", list(Crash))
def test_a_crash_on_the_way_leaves_an_empty_log_or_all_of_it(how):
    follower = Follower()
    before = follower.disk.faults.operations
    follower.start_behind()
    total = follower.disk.faults.operations - before
    assert total > 8
    outcomes = set()
    for step in range(total):
        follower, after = Follower(step), []
        disk = follower.disk
        disk.rng.seed(step)
        disk.faults.stop_after(step, lambda disk=disk, after=after: after.append(disk.crash(how)))
        with pytest.raises(ProcessEndedError):
            follower.start_behind()
        log = follower.open(after[0], recovery_point=5)
        if log.log_end_offset == 1000:
            assert is_there(log)
            outcomes.add("all")
        elif log.log_end_offset == 5:
            assert [record.offset for record in read_all(log)] == list(range(log.log_start_offset, 5))
            outcomes.add("old")
        else:
            assert log.log_start_offset == log.local_start_offset == log.log_end_offset
            assert log.leader_epoch_cache.entries() in ([], [(0, 2)])
            outcomes.add("empty")
        follower.log = log
        follower.start_behind()  # a second time
        assert is_there(log)
    assert len(outcomes) > 1


def test_a_log_that_is_cut_below_its_local_part_starts_where_it_did():
    follower = Follower()
    follower.start_behind()
    append(follower.log, batch_of(1), leader_epoch=4)
    follower.log.truncate_to(800, now_ms=NOW_MS)
    log = follower.log
    assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (2, 800, 800)
    assert log.leader_epoch_cache.entries() == [(0, 2), (3, 700)]
    log.truncate_to(500, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epoch_cache.entries()) == (2, 500, [(0, 2)])
