"""Slices: where they start, where they end, what they cost."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.log_segment import TAIL_MAX
from headrace.log.segment_indexes import OBJECT_BYTES
from headrace.records.batch import batches
from tests.log.building import NOW_MS, append, batch_of, offsets_of, read_all

SIZE = len(batch_of(2))


def filled(logs, count, **settings):
    """Batches of two records each, `count` of them."""
    log = logs.open(**settings)
    for _ in range(count):
        append(log, batch_of(2))
    return log


def batches_read(log, offset, **bounds):
    chunk = log.read(offset, **bounds).chunk
    data = chunk if isinstance(chunk, bytes) else chunk.read()
    return [header.base_offset for _, header in batches(data)], len(data)


def test_reading_starts_with_the_batch_that_holds_the_offset(logs):
    log = filled(logs, 5)
    assert batches_read(log, 0, max_bytes=1 << 20) == ([0, 2, 4, 6, 8], 5 * SIZE)
    assert batches_read(log, 5, max_bytes=1 << 20) == ([4, 6, 8], 3 * SIZE)
    assert batches_read(log, 10, max_bytes=1 << 20) == ([], 0)


@pytest.mark.parametrize("offset", [-1, 11])
def test_offsets_out_of_range_are_refused(logs, offset):
    log = filled(logs, 5)
    with pytest.raises(ApiError) as raised:
        log.read(offset, max_bytes=100)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_bytes_bound_the_slice_but_for_the_first_batch(logs):
    log = filled(logs, 5)
    assert batches_read(log, 2, max_bytes=2 * SIZE) == ([2, 4], 2 * SIZE)
    assert batches_read(log, 2, max_bytes=2 * SIZE + 7) == ([2, 4], 2 * SIZE + 7)
    assert batches_read(log, 2, max_bytes=1) == ([2], SIZE)
    assert batches_read(log, 2, max_bytes=0) == ([2], SIZE)
    assert batches_read(log, 2, max_bytes=SIZE - 1, at_least_one=False) == ([], 0)
    assert batches_read(log, 2, max_bytes=SIZE, at_least_one=False) == ([2], SIZE)


@pytest.mark.parametrize("count", [5, TAIL_MAX * 3])
def test_an_offset_bound_cuts_between_batches(logs, count):
    log = filled(logs, count, index_interval_bytes=10 * SIZE)
    assert batches_read(log, 2, max_bytes=1 << 20, max_offset=8) == ([2, 4, 6], 3 * SIZE)
    assert batches_read(log, 2, max_bytes=1 << 20, max_offset=7) == ([2, 4], 2 * SIZE)
    assert batches_read(log, 2, max_bytes=1 << 20, max_offset=2) == ([], 0)
    assert batches_read(log, 2, max_bytes=1 << 20, max_offset=1) == ([], 0)
    assert batches_read(log, 3, max_bytes=1, max_offset=3) == ([], 0)
    end = log.log_end_offset
    assert batches_read(log, end - 2, max_bytes=1, max_offset=end + 50) == ([end - 2], SIZE)


@pytest.mark.parametrize("interval", [0, 1, 3 * SIZE, 1 << 20])
def test_every_offset_is_found_in_old_and_new_segments(logs, interval):
    log = filled(logs, 200, segment_bytes=60 * SIZE, index_interval_bytes=interval)
    assert len(log.segments) == 4
    for reopened in (False, True):
        if reopened:
            log = logs.reopen(log, segment_bytes=60 * SIZE, index_interval_bytes=interval)
        for offset in range(400):
            assert batches_read(log, offset, max_bytes=1) == ([offset // 2 * 2], SIZE)


def test_a_slice_ends_with_its_segment(logs):
    log = filled(logs, 5, segment_bytes=2 * SIZE)
    assert batches_read(log, 0, max_bytes=1 << 20) == ([0, 2], 2 * SIZE)
    assert offsets_of(read_all(log)) == list(range(10))
    assert batches_read(log, 0, max_bytes=1 << 20, max_offset=6) == ([0, 2], 2 * SIZE)
    assert batches_read(log, 4, max_bytes=1 << 20, max_offset=6) == ([4], SIZE)


def test_reading_steps_over_offsets_that_are_gone(logs):
    log = logs.open(segment_bytes=2 * SIZE)
    for offset in (0, 2, 20, 50):
        log.append_as_follower(batch_of(2, base_offset=offset), now_ms=NOW_MS)
    assert batches_read(log, 3, max_bytes=1) == ([2], SIZE)
    assert batches_read(log, 10, max_bytes=1) == ([20], SIZE)
    assert batches_read(log, 10, max_bytes=1, max_offset=21) == ([], 0)
    log = logs.reopen(log)
    assert batches_read(log, 30, max_bytes=1) == ([50], SIZE)
    assert batches_read(log, 30, max_bytes=1, max_offset=40) == ([], 0)


def test_the_upper_offset_bounds_what_is_in_the_slice(logs):
    log = filled(logs, 200, segment_bytes=100 * SIZE, index_interval_bytes=5 * SIZE)
    for reader in (log, logs.reopen(log, segment_bytes=100 * SIZE, index_interval_bytes=5 * SIZE)):
        for offset in range(0, 400, 7):
            for max_bytes in (1, SIZE * 3, SIZE * 30, SIZE * 1000):
                result = reader.read(offset, max_bytes=max_bytes)
                held = [header.last_offset for _, header in batches(result.chunk.read())]
                assert held[-1] < result.upper_offset <= held[-1] + 20


def test_a_slice_stays_readable_when_its_segment_is_deleted(logs):
    log = filled(logs, 6, segment_bytes=2 * SIZE, retention_ms=10)
    log.maybe_increment_high_watermark(log.log_end_offset)
    chunk = log.read(0, max_bytes=1 << 20).chunk
    expected = chunk.read()
    assert log.delete_old_segments(NOW_MS + 1000) == 3
    for path in log.storage.removals.take_due(NOW_MS + 10**9):
        logs.disk.remove(path)
    assert chunk.read() == expected


def test_files_and_indexes_stay_bounded(logs):
    logs.storage.files.limit = 4
    logs.storage.indexes.limit = 3 * OBJECT_BYTES
    log = filled(logs, 100, segment_bytes=2 * SIZE)
    log = logs.reopen(log, segment_bytes=2 * SIZE)
    for _ in range(3):
        assert offsets_of(read_all(log)) == list(range(200))
    assert sum(segment._file is not None for segment in log.segments) <= 4
    assert (
        sum(segment.indexes._offsets is not None for segment in log.segments if not segment.indexes.active)
        <= 3
    )
    append(log, batch_of(2))
    assert log.log_end_offset == 202
