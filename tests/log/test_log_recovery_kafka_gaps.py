"""Logs that Apache Kafka compacted and was killed over: what lies behind a gap between segments is kept."""

import pytest

from headrace.log.file_names import TIME_INDEX
from headrace.records.batch import Record, batches, build_batch
from tests.log.building import NOW_MS, append, batch_of, read_all
from tests.log.compaction.keyed_log import COMPACT, KeyedLog, chunks, clean_log

INDEX_BYTES = 1_000  # of which a time index reserves 996
SETTINGS = {
    "cleanup_policy": COMPACT,
    "segment_bytes": 1_000,
    "index_interval_bytes": 150,
    "segment_index_bytes": INDEX_BYTES,
}


def as_kafka_leaves_it(logs, disk, *, reserve_bytes=INDEX_BYTES // 12 * 12):
    """A log of which Kafka has compacted all but the last segment, with gaps, and a segment without a byte;
    what is in it. The process was killed: no checkpoint says anything."""
    log = logs.open(**SETTINGS)
    for number in range(40):
        is_hot = number % 6 in (4, 5) or 12 <= number < 18
        row = Record(0, NOW_MS + number, b"hot" if is_hot else b"key %d" % number, b"v" * 80)
        append(log, build_batch([row]), leader_epoch=number // 20)
        if number % 6 == 5:
            log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    records = read_all(log)
    bases = [segment.base_offset for segment in log.segments]
    flush = log.close()
    flush.sync()
    for base in bases:
        path = f"{logs.folder}/{base:020}"
        data = disk.read_file(f"{path}.log")
        kept = b"".join(data[at : at + header.size] for at, header in batches(data) if header.record_count)
        disk.open(f"{path}.log").truncate(0)
        disk.open(f"{path}.log").write(0, (kept,))
        for suffix in (".index", ".timeindex"):
            disk.remove(path + suffix)
    if reserve_bytes:
        time_index = disk.open(f"{path}{TIME_INDEX}", create=True)
        time_index.truncate(reserve_bytes)
    sizes = [disk.size(f"{logs.folder}/{base:020}.log") for base in bases]
    assert 0 in sizes[1:-1]
    return records, bases


def open_after_a_kill(logs, **settings):
    progress = []
    log = logs.open(clean=False, recovery_point=0, on_progress=progress.append, **SETTINGS, **settings)
    log.maybe_increment_high_watermark(log.log_end_offset)
    return log, sum(each.bytes_lost for each in progress)


def test_everything_is_kept_and_the_gaps_are_closed(logs, disk):
    records, bases = as_kafka_leaves_it(logs, disk)
    log, lost = open_after_a_kill(logs)
    assert (read_all(log), lost) == (records, 0)
    assert [segment.base_offset for segment in log.segments] == bases
    assert [segment.next_offset() for segment in log.segments][:-1] == bases[1:]
    KeyedLog.check_segments(log)
    places = [header for header, _ in chunks(log) if not header.record_count]
    assert {(header.size, header.max_timestamp, header.producer_id) for header in places} == {(61, -1, -1)}
    assert log.leader_epoch_cache.entries() == [(0, 0), (1, min(r.offset for r in records if r.offset >= 20))]


def test_they_stay_closed_when_nothing_tells_of_kafka_any_more(logs, disk):
    records, _ = as_kafka_leaves_it(logs, disk)
    log, _ = open_after_a_kill(logs)
    log.roll(NOW_MS)
    append(log, batch_of(), leader_epoch=1)
    log, lost = open_after_a_kill(logs)
    assert lost == 0
    assert read_all(log)[:-1] == records


@pytest.mark.parametrize("reserve_bytes", [0, 12, 984])
def test_a_gap_in_a_log_of_ours_is_a_lost_end(logs, disk, reserve_bytes):
    records, _ = as_kafka_leaves_it(logs, disk, reserve_bytes=reserve_bytes)
    log, lost = open_after_a_kill(logs)
    assert lost > 0
    found = read_all(log)
    assert found == records[: len(found)]
    assert len(found) < len(records)


def test_a_full_time_index_is_no_reserve(logs, disk):
    _, bases = as_kafka_leaves_it(logs, disk)
    file = disk.open(f"{logs.folder}/{bases[-1]:020}{TIME_INDEX}")
    file.write(0, (bytes(range(1, 13)) * (INDEX_BYTES // 12),))
    assert open_after_a_kill(logs)[1] > 0


def test_damage_behind_a_gap_is_cut_as_anywhere(logs, disk):
    records, bases = as_kafka_leaves_it(logs, disk)
    path = f"{logs.folder}/{bases[-1]:020}.log"
    disk.open(path).write(disk.size(path) - 5, (b"\xff",))
    log, lost = open_after_a_kill(logs)
    assert lost > 0
    found = read_all(log)
    assert bases[-1] - 10 < found[-1].offset < records[-1].offset
    assert found == records[: len(found)]
