"""Closed segments that lost their end or are gone, damage that readers meet, and what is said of it."""

import errno
import logging

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.testing.disk import VirtualDisk
from tests.log.building import NOW_MS, LogBuilder, append, batch_of, offsets_of, read_all

SIZE = len(batch_of())
SETTINGS = {"segment_bytes": 5 * SIZE, "index_interval_bytes": 2 * SIZE}


@pytest.fixture
def disk():
    disk = VirtualDisk()
    disk.make_folder("/data")
    return disk


@pytest.fixture
def logs(disk):
    return LogBuilder(disk, "/data")


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "headrace")
    return lambda: caplog.text


def filled(logs, count=20):
    """Segments of five batches, one record each."""
    log = logs.open(**SETTINGS)
    for i in range(count):
        append(log, batch_of(timestamp=NOW_MS + i))
    log.maybe_increment_high_watermark(count)
    return log


def stop(log):
    flush = log.close()
    if flush is not None:
        flush.sync()


def cut(disk, path, size):
    disk.open(path).truncate(size)


def segment_path(logs, base_offset):
    return f"{logs.folder}/{base_offset:020}.log"


@pytest.mark.parametrize("left", [5 * SIZE - 1, 4 * SIZE + 30, 4 * SIZE, 3 * SIZE + 1, SIZE - 5, 0])
def test_who_reads_goes_on_behind_what_a_closed_segment_lost(logs, disk, said, left):
    stop(filled(logs))
    cut(disk, segment_path(logs, 5), left)
    log = logs.open(clean=True, recovery_point=20, **SETTINGS)
    whole = left // SIZE
    there = [*range(5 + whole), *range(10, 20)]
    assert offsets_of(read_all(log)) == there
    for offset in range(20):
        assert offsets_of(read_all(log, offset)) == [o for o in there if o >= offset]
    assert f"events-3: records are missing from offset {5 + whole} to 9" in said()
    assert "Consumers go on at offset 10" in said()
    assert (log.missing_from, log.lost_records) == (5 + whole, True)
    assert log.size_bytes == 15 * SIZE + whole * SIZE


@pytest.mark.parametrize("count", [2, 20], ids=["a short one leaves fewer files", "a long one"])
def test_nothing_is_said_of_a_log_that_is_whole(logs, said, count):
    log = filled(logs, count)
    stop(log)
    log = logs.open(clean=True, recovery_point=count, **SETTINGS)
    assert (log.missing_from, log.lost_records) == (None, False)
    assert log.leader_epoch_cache.entries() == [(0, 0)]
    assert [line for line in said().splitlines() if "partition.metadata is missing" not in line] == []


def test_epochs_that_a_log_should_have_beside_it_are_missed(logs, disk, said):
    stop(filled(logs))
    disk.remove(f"{logs.folder}/leader-epoch-checkpoint")
    log = logs.open(clean=True, recovery_point=20, **SETTINGS)
    assert "leader-epoch-checkpoint does not fit the log" in said()
    assert log.leader_epoch_cache.entries() == [(0, 0)]


@pytest.mark.parametrize("base_offset", [0, 5])
def test_a_closed_segment_that_is_gone(logs, disk, said, base_offset):
    stop(filled(logs))
    disk.lose(segment_path(logs, base_offset))
    log = logs.open(clean=True, recovery_point=20, **SETTINGS)
    assert f"{base_offset:020}.log is gone, with all its records" in said()
    assert log.missing_from == base_offset
    assert log.lost_records
    assert offsets_of(read_all(log)) == [o for o in range(20) if not base_offset <= o < base_offset + 5]


def test_an_active_segment_that_is_gone(logs, disk, said):
    stop(filled(logs))
    disk.lose(segment_path(logs, 15))
    log = logs.open(clean=True, recovery_point=20, **SETTINGS)
    assert log.log_end_offset == 15
    assert log.lost_records
    assert "events-3: 5 records are missing: the log ends at offset 15, it was flushed to 20" in said()


def test_a_gap_of_compaction_is_none(logs, disk, said):
    """Apache Kafka's leaves them."""
    stop(filled(logs))
    cut(disk, segment_path(logs, 5), 4 * SIZE)
    log = logs.open(clean=True, recovery_point=20, cleanup_policy=frozenset({"compact"}), **SETTINGS)
    assert log.missing_from is None
    assert "missing from" not in said()


def test_a_segment_that_is_cut_while_it_is_open(logs, disk, said):
    log = filled(logs)
    cut(disk, segment_path(logs, 5), 3 * SIZE + 9)
    chunk = log.read(5, max_bytes=1 << 20).chunk
    assert len(chunk.read()) < chunk.size
    chunk.file.on_fault(OSError(errno.EIO, "it ended early"))  # as the outbox does
    assert offsets_of(read_all(log, 5)) == [5, 6, 7, *range(10, 20)]
    assert "records are missing from offset 8 to 9" in said()
    assert log.failure is None


def test_an_active_segment_that_is_cut_while_it_is_open(logs, disk, said):
    """What was just written is gone: this disk lies."""
    log = filled(logs)
    cut(disk, segment_path(logs, 15), SIZE)
    chunk = log.read(15, max_bytes=1 << 20).chunk
    chunk.file.on_fault(OSError(errno.EIO, "it ended early"))
    with pytest.raises(ApiError) as raised:
        log.read(15, max_bytes=1 << 20)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(logs.failures) == 1


def test_a_read_error_is_logged_and_answered(logs, disk, said):
    log = filled(logs)
    chunk = log.read(5, max_bytes=1 << 20).chunk
    disk.faults.read_error_rate = 1.0
    with pytest.raises(OSError) as raised:  # noqa: PT011 - any of the disk's
        chunk.read()
    chunk.file.on_fault(raised.value)
    assert "00000000000000000005.log cannot be read" in said()
    with pytest.raises(ApiError) as answered:
        log.read(5, max_bytes=1 << 20)
    assert answered.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(logs.failures) == 1, "its folder goes offline, as on Kafka"


def test_a_read_error_that_is_over_is_forgotten(logs, disk):
    log = filled(logs)
    log.read(5, max_bytes=1 << 20).chunk.file.on_fault(OSError(errno.EIO, "once"))
    assert offsets_of(read_all(log)) == list(range(20))
    assert logs.failures == []


def test_damage_that_a_reader_meets_is_said(logs, disk, said):
    stop(filled(logs))
    disk.tree.file(segment_path(logs, 5)).data[SIZE + 8] ^= 0x40  # the length of the second batch
    log = logs.open(clean=True, recovery_point=20, **SETTINGS)
    with pytest.raises(ApiError) as raised:
        log.read(7, max_bytes=1 << 20)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert "events-3: a reader is told CORRUPT_MESSAGE" in said()


# -- recovery ------------------------------------------------------------------------------------------------


def test_recovery_tells_what_it_cut(logs, disk, said):
    filled(logs, 23)
    disk.tree.file(segment_path(logs, 15)).data[2 * SIZE + 50] ^= 1
    log = logs.open(**SETTINGS)
    assert log.log_end_offset == 17
    assert (
        f"events-3: cut {3 * SIZE} bytes with about 3 records, from offset 17 on, at byte {2 * SIZE}"
        in said()
    )
    assert "the CRC of the batch at byte" in said()
    assert f"events-3: dropped 1 segments from offset 20 on, {3 * SIZE} bytes with about 3 records" in said()


def test_recovery_tells_of_a_write_that_did_not_come_to_its_end(logs, disk, said):
    filled(logs, 8)
    cut(disk, segment_path(logs, 5), 3 * SIZE - 10)
    log = logs.open(**SETTINGS)
    assert log.log_end_offset == 7
    assert f"events-3: cut {SIZE - 10} bytes from byte {2 * SIZE}" in said()
    assert "nobody was told of it" in said()


def test_reserved_room_is_no_loss(logs, disk, said):
    log = logs.open(preallocate=True, **SETTINGS)
    append(log, batch_of())
    assert disk.size(segment_path(logs, 0)) == 5 * SIZE
    assert logs.open(preallocate=True, **SETTINGS).log_end_offset == 1
    assert " cut " not in said()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("leader-epoch-checkpoint", "epochs are read from"),
        ("partition.metadata", "the topic's id is taken from the cluster's metadata"),
        ("00000000000000000005.index", "is rebuilt from the log's batches"),
        ("00000000000000000005.timeindex", "is rebuilt from the log's batches"),
        ("00000000000000000020.snapshot", "producers are found from an older one"),
    ],
)
def test_a_file_that_is_damaged_is_named(logs, disk, said, name, words):
    log = filled(logs, 20)
    log.assign_topic_id(b"\x07" * 16)
    stop(log)
    path = f"{logs.folder}/{name}"
    cut(disk, path, disk.size(path) // 2 + 1)
    log = logs.open(clean=True, recovery_point=20, **SETTINGS)
    for segment in log.segments:
        segment.offset_index(), segment.time_index()
    assert offsets_of(read_all(log)) == list(range(20))
    assert any(words in line and name in line for line in said().splitlines())
