"""A follower's log takes large answers in slices: the same bytes, whatever happens to the log meanwhile."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.large_memory import LARGE_BYTES
from headrace.log.large_write import TRIES_MAX, LargeWriteError
from headrace.records.validate import validate_produced
from tests.log.building import NOW_MS, batch_of, offsets_of, read_all

VALUE = b"v" * (LARGE_BYTES + 500_000)
PART = b"p" * (LARGE_BYTES // 3)


def sent(*values, first=0, leader_epoch=3):
    """What a leader sends: a batch of each value."""
    return b"".join(
        bytes(batch_of(value=value, base_offset=first + at, leader_epoch=leader_epoch))
        for at, value in enumerate(values)
    )


def written(logs, log):
    return logs.disk.open(log.segments.active.path).read(0, log.segments.active.size)


@pytest.mark.parametrize(
    "values", [[VALUE], [b"a", VALUE, b"b"], [PART] * 7, [VALUE, VALUE], [b"a", PART, VALUE, PART, PART]]
)
def test_the_bytes_are_the_leaders(logs, values):
    log, data = logs.open(), sent(*values)
    steps = 0
    for _ in log.append_as_follower_in_slices(data + data[:50], now_ms=NOW_MS):
        steps += 1
        assert log.large_write is None or log.log_end_offset < len(values)
    assert steps > 2
    assert written(logs, log) == data
    assert log.log_end_offset == len(values)
    assert log.leader_epoch_cache.entries() == [(3, 0)]
    assert log.large_write is None
    assert offsets_of(read_all(logs.open(), max_bytes=100 << 20)) == list(range(len(values)))


def test_nobody_sees_a_batch_before_all_of_it_is_there(logs):
    log = logs.open()
    for _ in log.append_as_follower_in_slices(sent(VALUE), now_ms=NOW_MS):
        assert (log.log_end_offset, log.size_bytes) in ((0, 0), (1, len(sent(VALUE))))


def test_a_wrong_crc_ends_it_and_leaves_what_came_before(logs):
    log, data = logs.open(), bytearray(sent(b"a", VALUE))
    data[-1] ^= 1
    with pytest.raises(ApiError) as refused:
        list(log.append_as_follower_in_slices(data, now_ms=NOW_MS))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.large_write) == (1, None)
    assert logs.disk.size(log.segments.active.path) == log.segments.active.size


def test_given_up_it_leaves_nothing_behind(logs):
    log = logs.open()
    slices = log.append_as_follower_in_slices(sent(VALUE), now_ms=NOW_MS)
    while log.large_write is None:
        next(slices)
    for _ in range(3):
        next(slices)
    assert logs.disk.size(log.segments.active.path) > 0
    slices.close()
    assert (logs.disk.size(log.segments.active.path), log.large_write, log.log_end_offset) == (0, None, 0)


def test_a_log_that_is_cut_meanwhile_takes_nothing_more(logs):
    log = logs.open()
    log.append_as_follower(sent(b"a", b"b"), now_ms=NOW_MS)
    slices = log.append_as_follower_in_slices(sent(VALUE, b"c", first=2), now_ms=NOW_MS)
    while log.large_write is None:
        next(slices)
    next(slices)
    log.truncate_to(1, now_ms=NOW_MS)
    list(slices)
    assert (log.log_end_offset, log.large_write) == (1, None)
    assert offsets_of(read_all(logs.open())) == [0]


def test_a_log_that_rolls_meanwhile_takes_it_all_the_same(logs):
    log = logs.open()
    log.append_as_follower(sent(b"a"), now_ms=NOW_MS)
    rolls = 0
    for _ in log.append_as_follower_in_slices(sent(VALUE, first=1), now_ms=NOW_MS):
        if log.large_write is not None and rolls <= TRIES_MAX:
            log.roll(NOW_MS)
            rolls += 1
    assert rolls
    assert offsets_of(read_all(log, max_bytes=100 << 20)) == [0, 1]
    assert offsets_of(read_all(logs.open(), max_bytes=100 << 20)) == [0, 1]


def test_it_waits_for_a_client_that_wrote_while_this_replica_led(logs):
    log = logs.open(max_message_bytes=50_000_000)
    batch = batch_of(value=VALUE)
    produced = validate_produced(batch, rules=log.rules, now_ms=NOW_MS, api_version=13, at_once=False)
    with pytest.raises(LargeWriteError) as begun:
        log.append_as_leader(produced.buffer, leader_epoch=0, now_ms=NOW_MS, produced=produced)
    write = begun.value.write
    next(write.slices())
    slices = log.append_as_follower_in_slices(sent(VALUE), now_ms=NOW_MS)
    for _ in range(50):
        next(slices)
    assert (log.large_write, log.log_end_offset) == (write, 0)
    write.abandon()
    list(slices)
    assert written(logs, log) == sent(VALUE)
