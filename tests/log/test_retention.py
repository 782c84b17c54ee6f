"""Dropping old segments, and DeleteRecords."""

import logging

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from tests.log.building import NOW_MS, append, batch_of, offsets_of, read_all, sequenced

SIZE = len(batch_of())
HOUR_MS = 3_600_000


def filled(logs, count=6, *, replicated=True, **settings):
    """Segments of two batches; batch i is an hour younger than the one before."""
    log = logs.open(segment_bytes=2 * SIZE, **settings)
    for hour in range(count):
        append(log, batch_of(timestamp=NOW_MS + hour * HOUR_MS), now_ms=NOW_MS + hour * HOUR_MS)
    if replicated:
        log.maybe_increment_high_watermark(log.log_end_offset)
    return log


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_by_age_of_the_youngest_record(logs):
    log = filled(logs, retention_ms=HOUR_MS)
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS) == 0
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS + 1) == 1
    assert (bases(log), log.log_start_offset) == ([2, 4], 2)
    assert offsets_of(read_all(log)) == [2, 3, 4, 5]
    with pytest.raises(ApiError):
        log.read(1, max_bytes=1)


def test_everything_old_goes_and_the_log_goes_on(logs):
    log = filled(logs, retention_ms=HOUR_MS)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([6], 6, 6)
    append(log, batch_of(timestamp=NOW_MS))
    assert offsets_of(read_all(log)) == [6]
    assert logs.reopen(log).log_end_offset == 7


def test_an_empty_log_is_left_alone(logs):
    log = logs.open(retention_ms=0)
    assert log.delete_old_segments(NOW_MS + 10**12) == 0


def test_by_size(logs):
    log = filled(logs, retention_bytes=4 * SIZE, retention_ms=-1)
    assert log.delete_old_segments(NOW_MS) == 1
    assert (bases(log), log.size_bytes) == ([2, 4], 4 * SIZE)
    assert log.delete_old_segments(NOW_MS) == 0
    log.update_config(type(log.config)(retention_bytes=3 * SIZE, retention_ms=-1))
    assert log.delete_old_segments(NOW_MS) == 0, "what is left must not fall below the limit"


def test_never_without_limits(logs):
    log = filled(logs, retention_ms=-1, retention_bytes=-1)
    assert log.delete_old_segments(NOW_MS + 10**12) == 0


def test_never_past_the_high_watermark(logs):
    log = filled(logs, retention_ms=HOUR_MS, replicated=False)
    log.maybe_increment_high_watermark(3)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 1
    assert bases(log) == [2, 4]


def test_compacted_topics_keep_their_age_but_not_what_is_below_the_start(logs):
    log = filled(logs, retention_ms=HOUR_MS, retention_bytes=1)
    log.update_config(type(log.config)(cleanup_policy=frozenset({"compact"}), retention_ms=HOUR_MS))
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 0
    log.maybe_increment_log_start_offset(5)
    assert log.delete_old_segments(NOW_MS) == 2
    assert bases(log) == [4]


def test_records_without_time_age_by_their_file(logs):
    log = logs.open(retention_ms=HOUR_MS)
    append(log, batch_of(timestamp=-1))
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(1)
    modified_ms = logs.disk.modified_ms(log.segments.first.path)
    assert log.delete_old_segments(modified_ms + HOUR_MS) == 0
    assert log.delete_old_segments(modified_ms + HOUR_MS + 1) == 1


def test_files_are_renamed_at_once_and_removed_later(logs):
    log = filled(logs, retention_ms=HOUR_MS, file_delete_delay_ms=500)
    now_ms = NOW_MS + 2 * HOUR_MS + 1
    log.delete_old_segments(now_ms)
    zero = "0" * 20
    assert [name for name in logs.names() if name.startswith(zero)] == [
        f"{zero}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")
    ]
    removals = logs.storage.removals
    assert removals.take_due(now_ms + 499) == []
    assert len(removals.take_due(now_ms + 500)) == 3
    assert len(removals) == 0


def test_a_segments_snapshot_goes_with_it(logs):
    log = logs.open(segment_bytes=2 * SIZE, retention_ms=HOUR_MS)
    for sequence in range(6):
        now_ms = NOW_MS + sequence * HOUR_MS
        append(log, sequenced(7, 0, sequence, timestamp=now_ms), now_ms=now_ms)
    log.maybe_increment_high_watermark(6)
    assert log.snapshots.offsets == [2, 4]
    log.delete_old_segments(NOW_MS + 4 * HOUR_MS + 1)
    assert log.snapshots.offsets == [4]
    assert not logs.disk.exists(f"{logs.folder}/{2:020}.snapshot")


def test_delete_records(logs):
    log = filled(logs)
    assert log.maybe_increment_log_start_offset(3)
    assert not log.maybe_increment_log_start_offset(2)
    assert log.log_start_offset == 3
    assert offsets_of(read_all(log)) == [3, 4, 5]
    assert log.leader_epoch_cache.entries() == [(0, 3)]
    assert log.delete_old_segments(NOW_MS) == 1
    assert bases(log) == [2, 4]
    log = logs.reopen(log)
    assert (log.log_start_offset, log.leader_epoch_cache.entries()) == (3, [(0, 3)])
    assert logs.open(clean=True).log_start_offset == 2, "only a checkpoint knows a start inside of a segment"


def test_delete_records_up_to_the_high_watermark(logs):
    log = filled(logs, replicated=False)
    log.maybe_increment_high_watermark(4)
    with pytest.raises(ApiError) as raised:
        log.maybe_increment_log_start_offset(5)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.maybe_increment_log_start_offset(4)
    assert log.last_stable_offset == log.high_watermark == 4


def test_delete_all_records_and_restart(logs):
    log = filled(logs)
    log.maybe_increment_log_start_offset(6)
    log.delete_old_segments(NOW_MS)
    assert read_all(log) == []
    log = logs.reopen(log)
    assert (log.log_start_offset, log.log_end_offset) == (6, 6)
    assert append(log, batch_of()).first_offset == 6


def test_a_broken_time_index_deletes_nothing_early(logs):
    log = filled(logs, retention_ms=HOUR_MS)
    log = logs.reopen(log, retention_ms=HOUR_MS)
    path = f"{log.segments.first.stem}.timeindex"
    data = bytearray(logs.disk.read_file(path))
    data[-10] ^= 1
    logs.disk.replace_file(path, bytes(data))
    log = logs.open(clean=True, retention_ms=HOUR_MS)
    log.maybe_increment_high_watermark(6)
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS) == 0
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS + 1) == 1


def test_rolls_and_deletions_are_told_at_debug(logs, caplog):
    with caplog.at_level(logging.DEBUG, "headrace.log"):
        log = filled(logs, retention_ms=HOUR_MS)
        rolls = [each.getMessage() for each in caplog.records]
        assert [text.partition(": ")[2] for text in rolls] == [
            f"a new segment begins at offset 2; the one from offset 0 on has {2 * SIZE} bytes",
            f"a new segment begins at offset 4; the one from offset 2 on has {2 * SIZE} bytes",
        ]
        caplog.clear()
        log.delete_old_segments(NOW_MS + 2 * HOUR_MS + 1)
    [told] = [each.getMessage() for each in caplog.records]
    assert told == (
        f"{log.folder}: the segment from offset 0 on, of {2 * SIZE} bytes, is deleted; "
        f"its files go in {log.config.file_delete_delay_ms} ms"
    )
