"""When a segment is closed, and what that leaves behind."""

import struct

from headrace.log.producer_snapshots import decode_snapshot
from headrace.log.unified_log import AppendOrigin
from tests.log.building import NOW_MS, append, batch_of, sequenced

SIZE = len(batch_of())


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_by_bytes(logs):
    log = logs.open(segment_bytes=3 * SIZE)
    for _ in range(7):
        append(log, batch_of())
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * SIZE, 3 * SIZE, SIZE]


def test_a_batch_larger_than_a_segment_gets_its_own(logs):
    log = logs.open(segment_bytes=SIZE)
    append(log, batch_of(20))
    append(log, batch_of(20))
    assert bases(log) == [0, 20]


def test_by_the_records_time(logs):
    log = logs.open(segment_ms=1000)
    append(log, batch_of(timestamp=NOW_MS))
    append(log, batch_of(timestamp=NOW_MS + 1000), now_ms=NOW_MS + 10**6)
    assert bases(log) == [0]
    append(log, batch_of(timestamp=NOW_MS + 1001), now_ms=NOW_MS)
    assert bases(log) == [0, 2]
    log = logs.reopen(log, segment_ms=1000)
    append(log, batch_of(timestamp=NOW_MS + 2001))
    append(log, batch_of(timestamp=NOW_MS + 2002))
    assert bases(log) == [0, 2, 4]


def test_by_the_clock_where_records_have_no_time(logs):
    log = logs.open(segment_ms=1000)
    for waited_ms in (0, 1000, 1001):
        append(log, batch_of(timestamp=-1), now_ms=NOW_MS + waited_ms, origin=AppendOrigin.COORDINATOR)
    assert bases(log) == [0, 2]


def test_jitter_rolls_earlier(logs):
    log = logs.open(segment_ms=1_000_000, segment_jitter_ms=1_000_000)
    append(log, batch_of(timestamp=NOW_MS))
    append(log, batch_of(timestamp=NOW_MS + 999_999))
    assert bases(log) == [0, 1]


def test_by_a_full_index(logs):
    log = logs.open(segment_index_bytes=48, index_interval_bytes=0)
    for _ in range(40):
        append(log, batch_of())
    assert len(log.segments) == 6
    for segment in list(log.segments)[:-1]:
        assert logs.disk.size(f"{segment.stem}.index") <= 48
        assert logs.disk.size(f"{segment.stem}.timeindex") <= 48


def test_by_offsets_that_no_longer_fit(logs):
    log = logs.open()
    log.append_as_follower(batch_of(), now_ms=NOW_MS)
    log.append_as_follower(batch_of(base_offset=2**31 - 1), now_ms=NOW_MS)
    log.append_as_follower(batch_of(base_offset=2**31), now_ms=NOW_MS)
    assert bases(log) == [0, 2**31]


def test_on_request_but_never_an_empty_one(logs):
    log = logs.open()
    log.roll(NOW_MS)
    assert bases(log) == [0]
    append(log, batch_of())
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert bases(log) == [0, 1]


def test_a_closed_segment_leaves_whole_indexes_and_a_snapshot(logs):
    log = logs.open(index_interval_bytes=SIZE)
    for sequence in range(5):
        append(log, sequenced(7, 0, sequence, timestamp=NOW_MS + sequence))
    log.roll(NOW_MS)
    stem = log.segments.first.stem
    assert logs.disk.read_file(f"{stem}.index") == struct.pack(">4i", 2, 2 * SIZE, 4, 4 * SIZE)
    times = struct.unpack(">qiqi", logs.disk.read_file(f"{stem}.timeindex"))
    assert times == (NOW_MS + 2, 2, NOW_MS + 4, 4)
    (entry,) = decode_snapshot(logs.disk.read_file(f"{logs.folder}/{5:020}.snapshot"))
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, 4, 4)


def test_the_last_time_entry_is_the_largest_timestamp(logs):
    log = logs.open()
    append(log, batch_of(timestamp=NOW_MS + 500))
    append(log, batch_of(timestamp=NOW_MS))
    log.roll(NOW_MS)
    assert struct.unpack(">qi", logs.disk.read_file(f"{log.segments.first.stem}.timeindex")) == (
        NOW_MS + 500,
        0,
    )


def test_room_reserved_ahead_is_given_back(logs):
    log = logs.open(segment_bytes=10 * SIZE, preallocate=True)
    for _ in range(12):
        append(log, batch_of())
    assert logs.disk.size(log.segments.first.path) == 10 * SIZE
    assert logs.disk.size(log.segments.active.path) == 10 * SIZE
    log.close()
    assert logs.disk.size(log.segments.active.path) == 2 * SIZE
    log = logs.open(clean=True)
    assert log.log_end_offset == 12


def test_segments_of_no_size_reserve_no_room(logs):
    """A real disk refuses to reserve nothing, and a node took its folder for broken."""
    log = logs.open(segment_bytes=0, preallocate=True)
    for _ in range(2):
        append(log, batch_of())
    assert log.log_end_offset == 2


def test_reserved_room_is_no_data_after_a_crash(logs):
    log = logs.open(segment_bytes=10 * SIZE, preallocate=True)
    for _ in range(3):
        append(log, batch_of())
    log = logs.open()
    assert log.log_end_offset == 3
    assert logs.disk.size(log.segments.active.path) == 3 * SIZE
