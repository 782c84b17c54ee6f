"""ListOffsets by time."""

import random

import pytest

from headrace.log.unified_log import AppendOrigin
from headrace.records.batch import Record, build_batch
from tests.log.building import NOW_MS, append, batch_of, read_all


def expected(records, timestamp, start=0):
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start:
            return record.timestamp, record.offset
    return None


def found(log, timestamp):
    result = log.offset_for_timestamp(timestamp)
    return None if result is None else result[:2]


@pytest.mark.parametrize("seed", range(5))
def test_the_first_record_that_is_young_enough(logs, seed):
    rng = random.Random(seed)
    log = logs.open(segment_bytes=600, index_interval_bytes=150)
    for _ in range(40):
        times = [NOW_MS + rng.randrange(300) for _ in range(rng.randint(1, 5))]
        append(log, build_batch([Record(0, t, None, b"v") for t in times], codec=rng.randrange(5)))
    records = read_all(log)
    assert len(log.segments) > 4
    for reopened in (log, logs.reopen(log), logs.open()):
        for timestamp in range(NOW_MS - 1, NOW_MS + 301, 7):
            assert found(reopened, timestamp) == expected(records, timestamp)
        largest = max(records, key=lambda record: record.timestamp)
        assert reopened.offset_of_max_timestamp()[:2] == (largest.timestamp, largest.offset)


def test_not_below_the_logs_start(logs):
    log = logs.open(segment_bytes=600)
    for i in range(30):
        append(log, batch_of(2, timestamp=NOW_MS - i))
    log.maybe_increment_high_watermark(60)
    log.maybe_increment_log_start_offset(31)
    assert found(log, NOW_MS - 100) == expected(read_all(log), NOW_MS - 100)
    assert found(log, NOW_MS - 14) == (NOW_MS - 14, 31)
    assert found(log, NOW_MS - 13) is None


def test_empty_and_without_time(logs):
    log = logs.open()
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None
    append(log, batch_of(timestamp=-1), origin=AppendOrigin.COORDINATOR)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


def test_the_batchs_epoch_is_told(logs):
    log = logs.open()
    append(log, batch_of(timestamp=NOW_MS), leader_epoch=5)
    append(log, batch_of(timestamp=NOW_MS + 9), leader_epoch=6)
    assert log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 9, 1, 6)
    assert log.offset_of_max_timestamp() == (NOW_MS + 9, 1, 6)


def test_append_time_is_the_time_of_every_record(logs):
    log = logs.open(message_timestamp_type="LogAppendTime")
    append(log, batch_of(3, timestamp=5), now_ms=NOW_MS)
    append(log, batch_of(3, timestamp=5), now_ms=NOW_MS + 10)
    assert found(log, NOW_MS + 1) == (NOW_MS + 10, 3)
    assert log.offset_of_max_timestamp()[:2] == (NOW_MS + 10, 3)


@pytest.mark.parametrize("suffix", [".timeindex", ".index"])
def test_lost_indexes_are_made_anew(logs, suffix):
    log = logs.open(segment_bytes=600, index_interval_bytes=100)
    for i in range(40):
        append(log, batch_of(timestamp=NOW_MS + i))
    log = logs.reopen(log)
    for segment in log.segments:
        logs.disk.remove(segment.stem + suffix)
    log = logs.open(clean=True)
    for i in range(40):
        assert found(log, NOW_MS + i) == (NOW_MS + i, i)
