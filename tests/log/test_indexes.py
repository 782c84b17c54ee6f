"""The three index formats: bytes as Kafka writes them, and searching in them."""

import struct

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.log.offset_index import OffsetIndex
from headrace.log.time_index import TimeIndex
from headrace.log.transaction_index import AbortedTxn, read_aborted


@pytest.fixture
def offsets():
    index = OffsetIndex(100, bytearray())
    for offset, position in ((109, 500), (119, 1000), (159, 1500)):
        index.append(offset, position)
    return index


def test_offset_entries_are_two_int32(offsets):
    assert offsets.data == struct.pack(">6i", 9, 500, 19, 1000, 59, 1500)


@pytest.mark.parametrize(
    ("offset", "entry"),
    [
        (100, (100, 0)),
        (108, (100, 0)),
        (109, (109, 500)),
        (118, (109, 500)),
        (119, (119, 1000)),
        (10_000, (159, 1500)),
        (100 + 2**31, (159, 1500)),
        (100 + 2**40, (159, 1500)),
    ],
)
def test_offset_lookup_finds_the_entry_at_or_below(offsets, offset, entry):
    assert offsets.lookup(offset) == entry


@pytest.mark.parametrize(
    ("offset", "left"), [(100, 0), (109, 0), (110, 1), (119, 1), (120, 2), (159, 2), (160, 3)]
)
def test_offset_index_forgets_from_an_offset_on(offsets, offset, left):
    offsets.truncate(offset)
    assert len(offsets) == left


@pytest.mark.parametrize(("position", "bound"), [(0, 109), (500, 109), (501, 119), (1500, 159), (1501, None)])
def test_upper_bound_is_the_next_entry_behind_a_position(offsets, position, bound):
    assert offsets.upper_bound(position) == bound


@pytest.mark.parametrize(
    "data",
    [b"\0" * 7, struct.pack(">2i", 3, 5000), struct.pack(">2i", -3, 5), struct.pack(">2i", 3, -5)],
)
def test_an_offset_index_that_cannot_be_is_told(data):
    with pytest.raises(InvalidBytesError):
        OffsetIndex(100, data).check(segment_bytes=5000)


@pytest.fixture
def times():
    index = TimeIndex(100, bytearray())
    for timestamp, offset in ((1000, 105), (1000, 110), (900, 111), (2000, 120)):
        index.append_if_later(timestamp, offset)
    return index


def test_time_entries_are_written_only_for_later_timestamps(times):
    assert times.data == struct.pack(">qiqi", 1000, 5, 2000, 20)
    assert times.last() == (2000, 120)


@pytest.mark.parametrize(
    ("timestamp", "entry"), [(999, (-1, 100)), (1000, (1000, 105)), (1999, (1000, 105)), (2000, (2000, 120))]
)
def test_time_lookup_finds_the_entry_at_or_before(times, timestamp, entry):
    assert times.lookup(timestamp) == entry


@pytest.mark.parametrize(("offset", "left"), [(105, 0), (106, 1), (120, 1), (121, 2)])
def test_time_index_forgets_from_an_offset_on(times, offset, left):
    times.truncate(offset)
    assert len(times) == left


@pytest.mark.parametrize(
    "data", [b"\0" * 13, struct.pack(">qiqi", 1000, 5, 900, 6), struct.pack(">qi", 5, -1)]
)
def test_a_time_index_that_cannot_be_is_told(data):
    with pytest.raises(InvalidBytesError):
        TimeIndex(100, data).check()


def test_txn_entries():
    first, second = AbortedTxn(7, 10, 20, 15), AbortedTxn(8, 15, 30, 31)
    data = first.encode() + second.encode()
    assert data == struct.pack(">hqqqqhqqqq", 0, 7, 10, 20, 15, 0, 8, 15, 30, 31)
    assert list(read_aborted(data)) == [first, second]


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 33,
        struct.pack(">hqqqq", 1, 7, 10, 20, 15),
        struct.pack(">hqqqq", 0, 7, 21, 20, 15),
        struct.pack(">hqqqqhqqqq", 0, 7, 10, 20, 15, 0, 8, 5, 19, 31),
    ],
)
def test_a_txn_index_that_cannot_be_is_told(data):
    with pytest.raises(InvalidBytesError):
        list(read_aborted(data))
