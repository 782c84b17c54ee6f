"""Disks that refuse. Only the disk in memory can be told to."""

import errno

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import (
    NOW_MS,
    LogBuilder,
    append,
    append_marker,
    batch_of,
    offsets_of,
    read_all,
    sequenced,
)

SIZE = len(batch_of())


@pytest.fixture
def disk():
    disk = VirtualDisk()
    disk.make_folder("/data")
    return disk


@pytest.fixture
def logs(disk):
    return LogBuilder(disk, "/data")


def storage_error(act, *args, **kwargs):
    with pytest.raises(ApiError) as raised:
        act(*args, **kwargs)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_refuses_and_corrupts_nothing(logs, disk):
    log = logs.open()
    append(log, batch_of())
    disk.faults.is_full = True
    for _ in range(20):
        storage_error(append, log, sequenced(7, 0, 0, 50))
        storage_error(log.append_as_follower, batch_of(50, base_offset=1), now_ms=NOW_MS)
        assert disk.size(log.segments.active.path) == SIZE
    assert (log.log_end_offset, log.failure, logs.failures) == (1, None, [])
    assert offsets_of(read_all(log)) == [0]
    disk.faults.is_full = False
    assert append(log, sequenced(7, 0, 0)).first_offset == 1
    assert offsets_of(read_all(logs.open())) == [0, 1]


def test_a_full_disk_refuses_a_large_batch_of_the_leader(logs, disk):
    log, large = logs.open(), bytes(batch_of(value=bytes(3 << 20), base_offset=1))
    append(log, batch_of())
    disk.faults.is_full = True
    storage_error(lambda: list(log.append_as_follower_in_slices(large, now_ms=NOW_MS)))
    assert (log.log_end_offset, log.large_write, disk.size(log.segments.active.path)) == (1, None, SIZE)
    disk.faults.is_full = False
    list(log.append_as_follower_in_slices(large, now_ms=NOW_MS))
    assert offsets_of(read_all(logs.open(), max_bytes=100 << 20)) == [0, 1]


def test_a_roll_on_a_full_disk_leaves_the_log_as_it_was(logs, disk):
    log = logs.open(segment_bytes=3 * SIZE, index_interval_bytes=0)
    for sequence in range(3):
        append(log, sequenced(7, 0, sequence))
    disk.faults.is_full = True
    names = set(logs.names())
    for _ in range(20):
        storage_error(append, log, sequenced(7, 0, 3))
    assert log.failure is None
    assert {name for name in logs.names() if name.endswith(".log")} == {
        n for n in names if n.endswith(".log")
    }
    assert offsets_of(read_all(log)) == [0, 1, 2]
    disk.faults.is_full = False
    assert append(log, sequenced(7, 0, 3)).first_offset == 3
    assert len(log.segments) == 2
    assert offsets_of(read_all(logs.open())) == [0, 1, 2, 3]
    assert offsets_of(read_all(logs.reopen(log))) == [0, 1, 2, 3]


def test_a_flush_on_a_full_disk_waits_for_room(logs, disk):
    log = logs.open()
    append(log, batch_of(), leader_epoch=3)
    disk.faults.is_full = True
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert (log.recovery_point, log.failure) == (0, None)
    disk.faults.is_full = False
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 1
    assert disk.read_file(f"{log.folder}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"


@pytest.mark.parametrize("rate", ["write_error_rate", "name_error_rate"])
def test_a_broken_disk_fails_the_log_for_good(logs, disk, rate):
    log = logs.open(segment_bytes=SIZE)
    append(log, batch_of())
    setattr(disk.faults, rate, 1.0)
    storage_error(append, log, batch_of())
    disk.faults.clear()
    ((folder, error),) = logs.failures
    assert (folder, error.errno) == (log.folder, errno.EIO)
    for act in (
        lambda: append(log, batch_of()),
        lambda: log.read(0, max_bytes=1),
        lambda: log.append_as_follower(batch_of(base_offset=1), now_ms=NOW_MS),
        lambda: log.roll(NOW_MS),
        lambda: log.delete_old_segments(NOW_MS),
        log.begin_flush,
        log.close,
        log.offset_of_max_timestamp,
    ):
        storage_error(act)
    assert len(logs.failures) == 1
    assert logs.open().log_end_offset in (1, 2)


def test_a_read_that_fails(logs, disk):
    log = logs.open()
    for _ in range(600):
        append(log, batch_of())
    assert log.read(599, max_bytes=1000).chunk, "the tail needs no reading"
    disk.faults.read_error_rate = 1.0
    assert log.read(599, max_bytes=1000).chunk
    storage_error(log.read, 0, max_bytes=10)
    assert logs.failures


def test_a_transaction_whose_abort_cannot_be_indexed_fails_the_log(logs, disk):
    log = logs.open()
    append(log, sequenced(7, 0, 0, transactional=True))
    disk.faults.concerns = lambda path: path.endswith(".txnindex")
    disk.faults.write_error_rate = 1.0
    storage_error(append_marker, log, 7, 0, commit=False)
    disk.faults.clear()
    reopened = logs.open()
    reopened.maybe_increment_high_watermark(2)
    assert reopened.last_stable_offset == 2
    assert reopened.aborted_transactions(0, 2) == [(7, 0)]


@pytest.mark.parametrize("seed", range(30))
def test_what_was_synced_survives_a_power_cut(seed):
    disk = VirtualDisk()
    disk.rng.seed(seed)
    disk.make_folder("/data")
    disk.sync_folder("/")
    logs = LogBuilder(disk, "/data")
    settings = {"segment_bytes": 5 * SIZE, "index_interval_bytes": SIZE}
    log = logs.open(**settings)
    synced = 0
    for i in range(60):
        append(log, sequenced(7, 0, i, timestamp=NOW_MS + i), leader_epoch=i // 20)
        if disk.rng.random() < 0.1:
            flush = log.begin_flush()
            flush.sync()
            log.finish_flush(flush, now_ms=NOW_MS)
            synced = i + 1
    point = disk.rng.choice([0, log.recovery_point])
    logs = LogBuilder(disk.crash(Crash.POWER_CUT), "/data")
    log = logs.open(recovery_point=point, **settings)
    records = read_all(log)
    assert offsets_of(records) == list(range(log.log_end_offset))
    assert [record.timestamp for record in records] == [NOW_MS + i for i in range(len(records))]
    assert log.log_end_offset >= synced
    assert log.leader_epoch_cache.entries() == [(e, 20 * e) for e in range(3) if 20 * e < log.log_end_offset]
    if records:
        assert log.producer_state_manager.producers[7].last_sequence == log.log_end_offset - 1


@pytest.mark.parametrize("segment_batches", [2, 1000])
@pytest.mark.parametrize("flushes", [True, False])
def test_what_a_failed_sync_dropped_is_durable_after_the_next_one(logs, disk, segment_batches, flushes):
    """The pages of a failed sync count as clean: a sync after a restart would not write them."""
    settings = {"flush_messages": 1} if flushes else {}
    settings["segment_bytes"] = segment_batches * SIZE
    log = logs.open(**settings)
    append(log, batch_of())
    log.begin_flush().sync()
    for _ in range(4):
        append(log, batch_of())
    disk.faults.sync_error_rate = 1.0
    with pytest.raises(OSError, match="error"):
        log.begin_flush().sync()
    logs = LogBuilder(disk.crash(Crash.KILL), "/data")
    logs.storage.sync_may_have_failed = not flushes  # as a folder without the mark of a running process says
    log = logs.open(recovery_point=1, **settings)
    assert log.log_end_offset == 5
    log.begin_flush().sync()
    logs = LogBuilder(logs.disk.crash(Crash.POWER_CUT), "/data")
    log = logs.open(recovery_point=5, **settings)
    assert offsets_of(read_all(log)) == [0, 1, 2, 3, 4]
