"""What leaders and followers write."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.unified_log import AppendOrigin
from headrace.records.batch import ControlType as Control
from headrace.records.batch import Record, batches, build_batch, build_control_batch, read_header
from tests.log.building import NOW_MS, append, batch_of, offsets_of, read_all, sequenced


def refused(code, act, *args, **kwargs):
    with pytest.raises(ApiError) as raised:
        act(*args, **kwargs)
    assert raised.value.code is code


def numbered(first_offset, count=1, *, epoch=0, timestamp=NOW_MS, **fields):
    """A batch as a follower gets it."""
    return batch_of(count, timestamp=timestamp, base_offset=first_offset, leader_epoch=epoch, **fields)


def test_a_leader_numbers_and_stamps_in_place(logs):
    log = logs.open()
    append(log, batch_of(3))
    batch = batch_of(2)
    result = append(log, memoryview(batch), leader_epoch=4)
    assert result == (3, 4, -1, 0, False)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (3, 4)
    assert log.log_end_offset == 5
    assert offsets_of(read_all(log)) == [0, 1, 2, 3, 4]
    assert log.leader_epoch_cache.entries() == [(0, 0), (4, 3)]


def test_a_leader_of_the_past_is_fenced(logs):
    log = logs.open()
    append(log, batch_of(), leader_epoch=4)
    refused(ErrorCode.FENCED_LEADER_EPOCH, append, log, batch_of(), leader_epoch=3)
    refused(
        ErrorCode.FENCED_LEADER_EPOCH,
        append,
        log,
        batch_of(),
        leader_epoch=3,
        origin=AppendOrigin.COORDINATOR,
    )
    assert log.log_end_offset == 1


def test_bytes_that_cannot_be_stamped_are_copied(logs):
    log = logs.open()
    append(log, bytes(batch_of(2)))
    append(log, bytes(batch_of(2)), origin=AppendOrigin.COORDINATOR)
    assert offsets_of(read_all(log)) == [0, 1, 2, 3]


def test_append_time(logs):
    log = logs.open(message_timestamp_type="LogAppendTime")
    assert append(log, batch_of(2, timestamp=5), now_ms=NOW_MS + 7).log_append_time_ms == NOW_MS + 7
    assert [record.timestamp for record in read_all(log)] == [NOW_MS + 7] * 2


def test_a_refused_batch_leaves_no_trace(logs):
    log = logs.open(max_message_bytes=200)
    append(log, batch_of())
    size = log.size_bytes
    refused(ErrorCode.MESSAGE_TOO_LARGE, append, log, batch_of(value=b"x" * 300))
    broken = batch_of()
    broken[-1] ^= 1
    refused(ErrorCode.CORRUPT_MESSAGE, append, log, broken)
    assert (log.log_end_offset, log.size_bytes) == (1, size)
    assert len(read_all(log)) == 1


def test_settings_can_change_while_a_log_is_open(logs):
    log = logs.open()
    append(log, batch_of(value=b"x" * 300))
    log.update_config(type(log.config)(max_message_bytes=200))
    refused(ErrorCode.MESSAGE_TOO_LARGE, append, log, batch_of(value=b"x" * 300))


def test_a_duplicate_is_answered_and_not_written(logs):
    log = logs.open()
    append(log, batch_of(4))
    first = append(log, sequenced(7, 0, 0, 3))
    again = append(log, sequenced(7, 0, 0, 3))
    assert again == first._replace(duplicate=True)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, append, log, sequenced(7, 0, 5))
    assert log.log_end_offset == 7


def test_our_own_writers_may_write_several_batches_and_control_batches(logs):
    log = logs.open()
    data = (
        batch_of(2)
        + build_control_batch(Control.LEADER_CHANGE, b"\0" * 10, timestamp_ms=NOW_MS)
        + batch_of(1)
    )
    result = append(log, data, origin=AppendOrigin.RAFT_LEADER, leader_epoch=3)
    assert result == (0, 3, -1, 0, False)
    assert [header.leader_epoch for _, header in batches(data)] == [3, 3, 3]
    assert log.log_end_offset == 4
    refused(ErrorCode.INVALID_RECORD, append, log, b"", origin=AppendOrigin.RAFT_LEADER)
    refused(ErrorCode.INVALID_RECORD, append, log, bytes(data[:-1]), origin=AppendOrigin.RAFT_LEADER)


def test_a_follower_writes_what_it_is_given(logs):
    log = logs.open()
    data = numbered(0, 3) + numbered(3, 2, epoch=1) + numbered(5, 1, epoch=1)
    assert log.append_as_follower(data, now_ms=NOW_MS) == 6
    assert log.leader_epoch_cache.entries() == [(0, 0), (1, 3)]
    assert offsets_of(read_all(log)) == [0, 1, 2, 3, 4, 5]
    assert log.read(0, max_bytes=1000).chunk.read() == bytes(data)


def test_a_follower_forgets_an_epoch_in_which_it_wrote_nothing(logs):
    log = logs.open()
    log.append_as_follower(numbered(0, 3), now_ms=NOW_MS)
    log.leader_epoch_cache.assign(2, 3)  # it came back with less than it had, and was still to lead
    log.append_as_follower(numbered(3, 2) + numbered(5, 1, epoch=1) + numbered(6, 1, epoch=2), now_ms=NOW_MS)
    assert log.leader_epoch_cache.entries() == [(0, 0), (1, 5), (2, 6)]


def test_a_follower_leaves_out_a_cut_batch(logs):
    log = logs.open()
    data = numbered(0, 3) + numbered(3, 2)
    assert log.append_as_follower(data[:-1], now_ms=NOW_MS) == 3
    assert log.append_as_follower(data[:10], now_ms=NOW_MS) == 3
    assert log.append_as_follower(b"", now_ms=NOW_MS) == 3
    assert log.append_as_follower(numbered(3, 2), now_ms=NOW_MS) == 5


def test_a_follower_accepts_gaps_but_no_overlap(logs):
    log = logs.open()
    log.append_as_follower(numbered(0, 3) + numbered(10, 2), now_ms=NOW_MS)
    assert log.log_end_offset == 12
    assert offsets_of(read_all(log)) == [0, 1, 2, 10, 11]
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.append_as_follower, numbered(11), now_ms=NOW_MS)
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.append_as_follower, numbered(12) + numbered(12), now_ms=NOW_MS)
    assert log.log_end_offset == 12


def test_the_first_epoch_of_a_follower_begins_with_its_log(logs):
    """Compaction may have taken the leader's first batches."""
    log = logs.open()
    log.append_as_follower(numbered(7, 2, epoch=3) + numbered(12, 1, epoch=5), now_ms=NOW_MS)
    assert log.leader_epoch_cache.entries() == [(3, 0), (5, 12)]


def test_a_follower_refuses_corrupt_bytes_whole(logs):
    log = logs.open()
    data = numbered(0, 3) + numbered(3, 2)
    data[-1] ^= 1
    refused(ErrorCode.CORRUPT_MESSAGE, log.append_as_follower, data, now_ms=NOW_MS)
    assert log.log_end_offset == 0


def test_a_follower_keeps_producer_state_without_checks(logs):
    log = logs.open()
    fields = {"producer_id": 7, "producer_epoch": 0}
    data = numbered(0, 2, base_sequence=0, **fields) + numbered(2, 1, base_sequence=9, **fields)
    log.append_as_follower(data, now_ms=NOW_MS)
    assert log.producer_state_manager.producers[7].last_sequence == 9


def test_a_follower_rolls_between_batches_of_one_response(logs):
    size = len(numbered(0))
    log = logs.open(segment_bytes=size * 3)
    data = b"".join(bytes(numbered(offset)) for offset in range(10))
    log.append_as_follower(data, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert offsets_of(read_all(log)) == list(range(10))


def test_a_follower_that_is_sent_far_ahead_starts_a_segment_there(logs):
    log = logs.open()
    far = 2**31 + 5
    log.append_as_follower(numbered(far, 2), now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [far]
    log.append_as_follower(numbered(far * 3, 2), now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [far, far * 3]
    log = logs.reopen(log)
    assert log.log_end_offset == far * 3 + 2
    assert not [name for name in logs.names() if name.startswith("0" * 20)]


def test_records_of_many_kinds_come_back(logs):
    log = logs.open()
    records = [
        Record(0, NOW_MS, None, b"", (("h", b"1"), ("h", None))),
        Record(1, NOW_MS - 5, b"", None, ()),
        Record(2, NOW_MS + 5, b"k" * 1000, b"v" * 100_000, ()),
    ]
    for codec in range(5):
        append(log, build_batch(records, codec=codec))
    found = read_all(log)
    assert [record[1:] for record in found] == [record[1:] for record in records] * 5
    assert offsets_of(found) == list(range(15))
