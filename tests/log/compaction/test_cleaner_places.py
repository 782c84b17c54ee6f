"""What compaction leaves of a batch that has no record left: its place, or what is known of its producer."""

import pytest

from headrace.records.batch import Record, build_batch
from tests.log.building import NOW_MS, append, append_marker, sequenced
from tests.log.compaction.keyed_log import COMPACT, chunks, clean_log, follower_of

SETTINGS = {"cleanup_policy": COMPACT, "segment_bytes": 1_100, "index_interval_bytes": 100}
HOT = b"k0"  # as `batch_of` names its first key


def put(log, key, number, **fields):
    append(log, build_batch([Record(0, NOW_MS + number, key, b"v" * 80)], **fields), now_ms=NOW_MS + number)
    log.maybe_increment_high_watermark(log.log_end_offset)


def fill(log, count, first=1):
    """Records that stay."""
    for number in range(first, first + count):
        put(log, b"key %d" % number, number)


def no_record_of(log, append_last, *, count=6):
    """A group of segments whose last batch `append_last` writes, and which has no record left after a
    round; its header then."""
    fill(log, count)
    append_last()
    offset = log.log_end_offset - 1
    log.roll(NOW_MS)
    put(log, HOT, 900)
    fill(log, count, 100)
    log.roll(NOW_MS)
    clean_log(log)
    (header,) = [header for header, _ in chunks(log) if header.last_offset == offset]
    assert not header.record_count
    return header


def check_is_place(header, base_offset):
    assert (header.base_offset, header.size, header.record_count) == (base_offset, 61, 0)
    assert (header.attributes, header.leader_epoch) == (0, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def check_times(log):
    """What time indexes lead to has records, and the largest timestamp of them."""
    for segment in log.segments:
        found = {header.last_offset: header for _, header in segment.headers()}
        largest = max((h.max_timestamp for h in found.values() if h.record_count), default=-1)
        assert segment.max_timestamp()[0] == largest
        times = segment.time_index()
        for number in range(len(times)):
            timestamp, offset = times.entry(number)
            assert found[offset].record_count
            assert found[offset].max_timestamp == timestamp


@pytest.mark.parametrize("codec", range(5))
def test_of_the_last_batch_of_a_group_its_place_stays(logs, codec):
    log = logs.open(**SETTINGS)
    header = no_record_of(log, lambda: put(log, HOT, 500, codec=codec))
    check_is_place(header, 6)
    assert [s.next_offset() for s in log.segments][:-1] == [s.base_offset for s in log.segments][1:]
    check_times(log)
    log.cleaner_checkpoint = None
    clean_log(log)
    assert [h for h, _ in chunks(log) if h.last_offset == 6] == [header]


def test_so_it_does_of_a_producers_batch_that_is_not_its_last(logs):
    log = logs.open(**SETTINGS)
    fill(log, 6)
    append(log, sequenced(7, 0, 0, 1))
    log.roll(NOW_MS)
    append(log, sequenced(7, 0, 1, 1))
    fill(log, 6, 100)
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    check_is_place(next(header for header, _ in chunks(log) if header.last_offset == 6), 6)


def test_a_producers_last_batch_tells_of_the_producer_and_of_no_time(logs):
    log = logs.open(**SETTINGS)
    header = no_record_of(log, lambda: append(log, sequenced(7, 0, 5, timestamp=NOW_MS + 500)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 5)
    assert header.max_timestamp == NOW_MS + 500
    check_times(log)
    assert log.offset_for_timestamp(NOW_MS + 500).timestamp == NOW_MS + 900
    log = logs.reopen(log, **SETTINGS)
    check_times(log)
    for segment in log.segments:
        segment.rebuild_indexes()
    check_times(log)


def test_a_recovered_and_a_copied_log_have_no_time_of_such_a_batch_either(logs):
    log = logs.open(**SETTINGS)
    no_record_of(log, lambda: append(log, sequenced(7, 0, 5, timestamp=NOW_MS + 500)))
    copy = follower_of(logs, log, **SETTINGS)
    assert list(chunks(copy)) == list(chunks(log))
    check_times(copy)
    again = logs.open(clean=False, **SETTINGS)
    again.maybe_increment_high_watermark(again.log_end_offset)
    assert list(chunks(again)) == list(chunks(log))
    check_times(again)
    copy.truncate_to(7, now_ms=NOW_MS)
    assert copy.segments.active.next_offset() == 7
    check_times(copy)


@pytest.mark.parametrize("commit", [False, True])
def test_a_transactions_place_does_not_keep_its_marker(logs, commit):
    """Apache Kafka: the batch goes in the first round, the marker has a horizon in the second, and goes in
    the third."""
    log = logs.open(**SETTINGS, delete_retention_ms=0)
    fill(log, 6)
    append(log, sequenced(7, 0, 0, 1, transactional=True))
    log.roll(NOW_MS)
    append_marker(log, 7, 0, commit=commit)
    append(log, sequenced(7, 0, 1, 1, transactional=True))
    append_marker(log, 7, 0, commit=True)
    put(log, HOT, 90)
    fill(log, 6, 100)
    log.roll(NOW_MS)
    append(log, sequenced(7, 0, 2, 1, transactional=True))
    append_marker(log, 7, 0, commit=True)
    log.maybe_increment_high_watermark(log.log_end_offset)
    seen = []
    for number in range(1, 5):
        log.cleaner_checkpoint = None
        clean_log(log, now_ms=NOW_MS + 1000 * number)
        headers = [header for header, _ in chunks(log)]
        check_is_place(next(header for header in headers if header.last_offset == 6), 6)
        horizons = [header.delete_horizon_ms for header in headers if header.last_offset == 7]
        seen.append((horizons, [txn.first_offset for s in log.segments for txn in s.indexes.aborted()]))
    aborted = [] if commit else [6]
    assert seen == [([None], aborted), ([NOW_MS + 2000], []), ([], []), ([], [])]


def test_a_marker_that_ends_a_group_leaves_its_place_when_its_time_has_come(logs):
    log = logs.open(**SETTINGS, delete_retention_ms=0)
    append(log, sequenced(7, 0, 0, 1, transactional=True))
    fill(log, 6)
    append_marker(log, 7, 0, commit=False)
    log.roll(NOW_MS)
    append(log, sequenced(7, 0, 1, 1))
    fill(log, 6, 100)
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    for number in range(1, 4):
        log.cleaner_checkpoint = None
        clean_log(log, now_ms=NOW_MS + 1000 * number)
    check_is_place(next(header for header, _ in chunks(log) if header.last_offset == 7), 7)
    assert not [txn for segment in log.segments for txn in segment.indexes.aborted()]
