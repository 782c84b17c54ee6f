"""Taking offsets back, and everything that remembers them."""

import random

import pytest

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


def filled(logs, count=10, **settings):
    log = logs.open(**({"segment_bytes": 3 * SIZE, "index_interval_bytes": SIZE} | settings))
    for i in range(count):
        append(log, batch_of(timestamp=NOW_MS + i), leader_epoch=i // 4)
    log.maybe_increment_high_watermark(count)
    return log


@pytest.mark.parametrize("offset", range(11))
def test_to_any_offset_and_on(logs, offset):
    log = filled(logs)
    assert log.truncate_to(offset, now_ms=NOW_MS) == (offset < 10)
    assert log.log_end_offset == log.high_watermark == offset
    assert offsets_of(read_all(log)) == list(range(offset))
    assert log.leader_epoch_cache.entries() == [(e, e * 4) for e in range(3) if e * 4 < offset]
    assert log.recovery_point <= offset
    append(log, batch_of(timestamp=NOW_MS - 5), leader_epoch=9)
    append(log, batch_of(timestamp=NOW_MS - 4), leader_epoch=9)
    for reopened in (log, logs.open(), logs.reopen(log)):
        assert offsets_of(read_all(reopened)) == list(range(offset + 2))
        assert reopened.leader_epoch_cache.end_offset_for(9, reopened.log_end_offset) == (9, offset + 2)
        largest = max(NOW_MS + offset - 1 if offset else 0, NOW_MS - 4)
        assert reopened.offset_of_max_timestamp().timestamp == largest


def test_a_batch_that_holds_the_offset_goes_whole(logs):
    log = logs.open()
    append(log, batch_of(5))
    append(log, batch_of(5))
    log.truncate_to(7, now_ms=NOW_MS)
    assert log.log_end_offset == 5
    assert append(log, batch_of()).first_offset == 5


def test_below_the_first_segment_starts_anew(logs):
    log = filled(logs)
    log.maybe_increment_log_start_offset(7)
    log.delete_old_segments(NOW_MS)
    log.truncate_to(2, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("is_full", [False, True])
def test_no_power_cut_brings_back_a_batch_before_those_written_after_it_was_cut(kept, is_full):
    """Batches of the same size: nothing but their epochs tells them apart."""
    for seed in range(60):
        disk = VirtualDisk(rng=random.Random(seed))
        disk.make_folder("/data")
        disk.sync_folder("/")
        logs = LogBuilder(disk, "/data")
        log = logs.open(segment_bytes=1_000_000)
        for _ in range(kept + 2):
            append(log, batch_of(value=b"dead"), leader_epoch=1)
        log.segments.active.file.sync()  # as the system may do by itself
        disk.faults.is_full = is_full
        log.truncate_to(kept, now_ms=NOW_MS)
        disk.faults.is_full = False
        for _ in range(4):
            append(log, batch_of(value=b"live"), leader_epoch=2)
        after = LogBuilder(disk.crash(Crash.POWER_CUT), "/data").open()
        values = [record.value for record in read_all(after)[kept:]]
        assert values in ([b"dead"] * len(values), [b"live"] * len(values)), seed


def test_dropped_segments_are_removed_later(logs):
    log = filled(logs)
    log.truncate_to(2, now_ms=NOW_MS)
    assert [s.base_offset for s in log.segments] == [0, 2]
    assert [name for name in logs.names() if name.endswith(".log")] == [f"{0:020}.log", f"{2:020}.log"]
    # Two closed segments with their indexes, and the active one, which has none on disk yet.
    assert len(logs.storage.removals.take_due(NOW_MS + 60_000)) == 7
    assert log.snapshots.offsets == [2]


def test_fully_and_start_elsewhere(logs):
    log = filled(logs)
    append(log, sequenced(7, 0, 0), leader_epoch=2)
    log.truncate_fully_and_start_at(500, now_ms=NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (500, 500, 500)
    assert log.leader_epoch_cache.entries() == []
    assert len(log.producer_state_manager) == 0
    assert log.size_bytes == 0
    append(log, batch_of(), leader_epoch=5)
    for reopened in (logs.open(log_start_offset=500), logs.reopen(log)):
        assert offsets_of(read_all(reopened)) == [500]
        assert reopened.leader_epoch_cache.entries() == [(5, 500)]


def test_fully_to_where_it_starts_already(logs):
    log = filled(logs)
    log.truncate_fully_and_start_at(0, now_ms=NOW_MS)
    append(log, batch_of())
    assert offsets_of(read_all(log)) == [0]
    assert offsets_of(read_all(logs.reopen(log))) == [0]


def test_producers_go_back_to_what_the_log_says(logs):
    log = logs.open(segment_bytes=3 * SIZE)
    for sequence in range(10):
        append(log, sequenced(7, 0, sequence))
    append(log, sequenced(8, 0, 0))
    log.truncate_to(6, now_ms=NOW_MS)
    assert set(log.producer_state_manager.producers) == {7}
    assert log.producer_state_manager.producers[7].last_sequence == 5
    assert append(log, sequenced(7, 0, 6)).first_offset == 6


def test_transactions_open_again_when_their_marker_goes(logs):
    log = logs.open()
    append(log, sequenced(7, 0, 0, transactional=True))  # 0
    append(log, sequenced(8, 0, 0, transactional=True))  # 1
    append_marker(log, 8, 0, commit=False)  # 2
    append_marker(log, 7, 0, commit=False)  # 3
    log.maybe_increment_high_watermark(4)
    assert log.last_stable_offset == 4
    assert log.aborted_transactions(0, 4) == [(8, 1), (7, 0)]
    log.truncate_to(3, now_ms=NOW_MS)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 4) == [(8, 1)]
    log.truncate_to(2, now_ms=NOW_MS)
    assert log.aborted_transactions(0, 4) == []
    assert not logs.disk.exists(f"{log.segments.active.stem}.txnindex")


def test_a_flush_on_its_way_proves_nothing_after_a_truncation(logs):
    log = filled(logs)
    flush = log.begin_flush()
    flush.sync()
    log.truncate_to(5, now_ms=NOW_MS)
    for _ in range(8):
        append(log, batch_of(), leader_epoch=9)
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 0


def test_a_recovery_point_that_goes_back_is_told(logs):
    told = []
    logs.storage.on_recovery_point_back = told.append
    log = filled(logs)
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    append(log, batch_of(), leader_epoch=9)
    log.truncate_to(10, now_ms=NOW_MS)
    assert told == []
    log.truncate_to(5, now_ms=NOW_MS)
    assert told == [log]
    assert log.recovery_point == 5
