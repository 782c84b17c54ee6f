"""Large batches: written in slices behind the log's end, whatever else happens to the log meanwhile."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.large_memory import LARGE_BYTES
from headrace.log.large_write import TRIES_MAX, LargeWriteError, LogBusyError
from headrace.records.batch import read_header
from headrace.records.validate import LargeBatchError, validate_produced
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import NOW_MS, LogBuilder, append, append_marker, batch_of, offsets_of, read_all

VALUE = b"v" * (LARGE_BYTES + 500_000)


def large(log, **fields):
    """A batch as a thread hands it over."""
    batch = batch_of(value=VALUE, **fields)
    with pytest.raises(LargeBatchError):
        append(log, batch)
    return validate_produced(batch, rules=log.rules, now_ms=NOW_MS, api_version=13, at_once=False)


def try_append(log, produced, leader_epoch=0):
    """Append it, or begin to write it: the result, or the write."""
    try:
        return log.append_as_leader(
            produced.buffer, leader_epoch=leader_epoch, now_ms=NOW_MS, produced=produced
        )
    except LargeWriteError as error:
        return error.write


def open_log(logs, **settings):
    return logs.open(max_message_bytes=50_000_000, **settings)


def file_size(logs, log):
    return logs.disk.size(log.segments.active.path)


def write_all(write):
    return sum(1 for _ in write.slices())


def test_it_is_part_of_the_log_when_all_of_it_is_there(logs):
    log = open_log(logs)
    append(log, batch_of(2))
    produced = large(log)
    write = try_append(log, produced)
    steps = 0
    for _ in write.slices():
        steps += 1
        assert (log.log_end_offset, log.size_bytes) == (2, len(batch_of(2)))
        assert offsets_of(read_all(log)) == [0, 1]
    assert steps > 4
    written = logs.disk.size(log.segments.active.path)
    result = try_append(log, produced)
    assert (result.first_offset, result.last_offset, log.large_write) == (2, 2, None)
    assert logs.disk.size(log.segments.active.path) == written
    append(log, batch_of())
    assert offsets_of(read_all(log, max_bytes=100 << 20)) == [0, 1, 2, 3]
    assert offsets_of(read_all(logs.open(), max_bytes=100 << 20)) == [0, 1, 2, 3]


def test_clients_wait_while_it_is_written(logs):
    log = open_log(logs)
    produced = large(log)
    write = try_append(log, produced)
    told = []
    next(write.slices())
    with pytest.raises(LogBusyError) as busy:
        append(log, batch_of())
    busy.value.write.on_over(lambda: told.append(log.log_end_offset))
    write_all(write)
    assert told == []
    try_append(log, produced)
    assert told == [1]
    assert append(log, batch_of()).first_offset == 1


def test_abandoned_it_leaves_nothing_behind(logs):
    log = open_log(logs)
    append(log, batch_of())
    size, told = file_size(logs, log), []
    write = try_append(log, large(log))
    write.on_over(lambda: told.append(True))
    next(write.slices())
    assert file_size(logs, log) > size
    write.abandon()
    assert (file_size(logs, log), log.large_write, told) == (size, None, [True])
    write.abandon()
    assert append(log, batch_of()).first_offset == 1
    assert offsets_of(read_all(logs.open())) == [0, 1]


def change_by_marker(log):
    append_marker(log, 7, 1, commit=True)


def change_by_roll(log):
    log.roll(NOW_MS)


def change_by_truncation(log):
    log.truncate_to(1, now_ms=NOW_MS)
    append_marker(log, 7, 1, commit=True)


def change_by_leader(log):
    log.append_as_follower(batch_of(base_offset=log.log_end_offset, leader_epoch=0), now_ms=NOW_MS)


CHANGES = [change_by_marker, change_by_roll, change_by_truncation, change_by_leader]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_written", [False, True])
def test_whoever_changes_the_log_comes_first(logs, change, is_written):
    log = open_log(logs)
    for _ in range(2):
        append_marker(log, 7, 0, commit=True)
    produced = large(log)
    write = try_append(log, produced)
    if is_written:
        write_all(write)
    else:
        next(write.slices())
    change(log)
    end, seen = log.log_end_offset, len(log.segments)
    if not is_written:
        assert write_all(write) == 0, "nothing is written over what came"
    again = try_append(log, produced)
    assert again is write, "it is not where the log ends"
    write_all(write)
    assert try_append(log, produced).first_offset == end
    assert read_header(produced.buffer).base_offset == end
    append_marker(log, 7, 2, commit=True)
    for opened in (log, logs.open()):
        assert (opened.log_end_offset, len(opened.segments)) == (end + 2, seen)
        found = [header.base_offset for segment in opened.segments for _, header in segment.headers()]
        assert found == list(range(end + 2))


def test_who_undoes_a_write_of_its_own_does_not_leave_a_hole(logs):
    log = open_log(logs)
    append(log, batch_of())
    produced = large(log)
    write = try_append(log, produced)
    slices = write.slices()
    next(slices)
    log.segments.active.file.truncate(log.segments.active.size)  # as `undo_write` does
    assert list(slices) == []
    assert try_append(log, produced) is write
    write_all(write)
    log.segments.active.file.truncate(log.segments.active.size)
    assert try_append(log, produced) is write
    write_all(write)
    assert try_append(log, produced).first_offset == 1
    assert offsets_of(read_all(logs.open(), max_bytes=100 << 20)) == [0, 1]


def test_a_log_that_does_not_rest_gets_it_at_once(logs):
    log = open_log(logs)
    produced = large(log)
    for number in range(TRIES_MAX):
        write_all(try_append(log, produced))
        append_marker(log, 7, number, commit=True)
    assert try_append(log, produced).first_offset == TRIES_MAX
    assert log.large_write is None


def test_it_goes_to_a_new_segment_where_the_old_one_has_no_room(logs):
    log = open_log(logs, segment_bytes=len(VALUE) + 1000)
    for _ in range(2):
        produced = large(log)
        write_all(try_append(log, produced))
        try_append(log, produced)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_another_epoch_has_it_written_anew(logs):
    log = open_log(logs)
    produced = large(log)
    write = try_append(log, produced, leader_epoch=3)
    write_all(write)
    assert try_append(log, produced, leader_epoch=5) is write
    write_all(write)
    assert try_append(log, produced, leader_epoch=5).first_offset == 0
    assert read_header(produced.buffer).leader_epoch == 5
    with pytest.raises(ApiError) as fenced:
        try_append(log, large(log), leader_epoch=4)
    assert fenced.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_its_sequence_counts(logs):
    log = open_log(logs)
    numbers = {"producer_id": 7, "producer_epoch": 0}
    first = large(log, base_sequence=0, **numbers)
    write_all(try_append(log, first))
    try_append(log, first)
    assert try_append(log, large(log, base_sequence=0, **numbers)).duplicate
    with pytest.raises(ApiError) as refused:
        try_append(log, large(log, base_sequence=5, **numbers))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.large_write is None


@pytest.fixture
def virtual():
    disk = VirtualDisk()
    disk.make_folder("/data")
    return LogBuilder(disk, "/data")


def test_a_full_disk_refuses_it(virtual):
    log = open_log(virtual)
    append(log, batch_of())
    size = file_size(virtual, log)
    produced = large(log)
    write = try_append(log, produced)
    slices = write.slices()
    next(slices)
    virtual.disk.faults.is_full = True
    with pytest.raises(ApiError) as refused:
        next(slices)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (file_size(virtual, log), log.failure) == (size, None)
    write.abandon()
    virtual.disk.faults.is_full = False
    assert append(log, batch_of()).first_offset == 1


@pytest.mark.parametrize("how", [Crash.KILL, Crash.POWER_CUT])
@pytest.mark.parametrize("slices", [1, 3, 100])
def test_a_crash_leaves_all_of_it_or_nothing(virtual, how, slices):
    log = open_log(virtual)
    append(log, batch_of(3))
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    writing = try_append(log, large(log)).slices()
    for _ in range(slices):
        next(writing, None)
    opened = LogBuilder(virtual.disk.crash(how), "/data").open()
    whole = slices == 100
    assert opened.log_end_offset in ((4,) if whole and how is Crash.KILL else (3, 4) if whole else (3,))
    assert offsets_of(read_all(opened, max_bytes=100 << 20))[:3] == [0, 1, 2]
