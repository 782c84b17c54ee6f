"""The batch: what is built is read back, stamps touch what they should, and bad bytes are said to be bad."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import (
    HEADER_BYTES,
    Codec,
    ControlType,
    Record,
    batches,
    build_batch,
    build_control_batch,
    control_record,
    control_type_of,
    crc_matches,
    find_record,
    read_control_type,
    read_header,
    read_records,
    read_txn_marker,
    stamp,
    stamp_append_time,
    stamp_timestamp,
)
from tests.records.raw_batches import NOW_MS, raw_batch, raw_record

optional_bytes = st.none() | st.binary(max_size=200)
records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 2**62),
        optional_bytes,
        optional_bytes,
        st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple),
    ),
    max_size=30,
)


def numbered(rows: list[Record], base_offset: int) -> list[Record]:
    return [row._replace(offset=base_offset + index) for index, row in enumerate(rows)]


@given(rows=records, base_offset=st.integers(0, 2**62), codec=st.sampled_from(Codec))
def test_what_is_built_is_read(rows: list[Record], base_offset: int, codec: Codec) -> None:
    batch = build_batch(rows, base_offset=base_offset, codec=codec)
    header = read_header(batch)
    assert crc_matches(batch, 0, header)
    assert header.size == len(batch)
    assert header.record_count == len(rows)
    assert header.max_timestamp == max((row.timestamp for row in rows), default=-1)
    assert list(read_records(batch)) == numbered(rows, base_offset)


def test_fields_of_the_header() -> None:
    batch = build_batch(
        [Record(0, 5), Record(0, 9), Record(0, 7)],
        base_offset=100,
        leader_epoch=4,
        codec=Codec.LZ4,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    header = read_header(batch)
    assert (header.last_offset, header.next_offset, header.leader_epoch) == (102, 103, 4)
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert header.last_sequence == 0, "sequences go from 2^31-1 back to 0"
    assert (header.codec, header.is_transactional, header.is_control) == (Codec.LZ4, True, False)
    assert (header.log_append_time, header.delete_horizon_ms, header.has_producer) == (False, None, True)
    assert read_header(build_batch([])).last_sequence == -1


def test_gaps_and_empty_batches_of_compaction() -> None:
    kept = [Record(12, 5, b"a"), Record(19, 6, b"b")]
    batch = build_batch(kept, base_offset=10, keep_offsets=True, last_offset_delta=15, delete_horizon_ms=77)
    header = read_header(batch)
    assert list(read_records(batch)) == kept
    assert (header.last_offset, header.delete_horizon_ms) == (25, 77)
    emptied = build_batch([], base_offset=10, last_offset_delta=5, producer_id=3)
    assert list(read_records(emptied)) == []
    assert read_header(emptied).next_offset == 16


def test_stamping_leaves_the_crc_alone() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v")])
    joined = bytearray(b"front") + batch
    stamp(memoryview(joined), 5, base_offset=2**40, leader_epoch=9)
    header = read_header(joined, 5)
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    assert crc_matches(joined, 5, header)
    assert joined[5 + 16 :] == batch[16:]
    assert joined[5 + 8 : 5 + 12] == batch[8:12]


def test_append_time_is_stamped_and_taken_back() -> None:
    batch = build_batch([Record(0, 5), Record(0, 6)], codec=Codec.GZIP, transactional=True)
    before = bytes(batch)
    stamp_append_time(batch, 0, 1234)
    header = read_header(batch)
    assert header.log_append_time
    assert header.is_transactional
    assert crc_matches(batch, 0, header)
    assert [record.timestamp for record in read_records(batch)] == [1234, 1234]
    stamp_timestamp(batch, 0, max_timestamp=6, append_time=False)
    assert batch == before


def test_batches_end_at_a_cut_off_tail() -> None:
    one = build_batch([Record(0, 1, None, b"x" * 50)])
    two = build_batch([Record(0, 2)] * 3, base_offset=1)
    whole = bytes(one + two)
    for size in range(len(whole) + 1):
        found = [(at, header.base_offset) for at, header in batches(whole[:size])]
        expected = [(0, 0)] * (size >= len(one)) + [(len(one), 1)] * (size == len(whole))
        assert found == expected
    assert [at for at, _ in batches(whole, len(one))] == [len(one)]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_batches_refuse_impossible_lengths(length: int) -> None:
    with pytest.raises(InvalidBytesError):
        list(batches(raw_batch(raw_record() * 20, length=length)))


def test_batches_refuse_other_formats() -> None:
    with pytest.raises(InvalidBytesError, match="magic 1"):
        list(batches(raw_batch(raw_record(), magic=1)))


def test_read_header_needs_a_header() -> None:
    with pytest.raises(InvalidBytesError, match="60 are left"):
        read_header(bytes(HEADER_BYTES - 1))


@given(
    batch=st.builds(build_batch, records, codec=st.sampled_from(Codec)),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 40),
)
def test_bad_bytes_are_said_to_be_bad(batch: bytearray, changes: list[tuple[int, int]], cut: int) -> None:
    for at, byte in changes:
        batch[at % len(batch)] = byte
    try:
        count = len(list(read_records(batch[: len(batch) - cut])))
    except InvalidBytesError:
        return
    assert count == read_header(batch).record_count


def test_read_records_finds_stray_bytes() -> None:
    with pytest.raises(InvalidBytesError, match="bytes follow the last record"):
        list(read_records(raw_batch(raw_record() + b"\0")))


def test_several_control_records_in_one_batch() -> None:
    kinds = [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    batch = build_batch([control_record(kind, b"v", timestamp_ms=3) for kind in kinds], control=True)
    assert [control_type_of(record) for record in read_records(batch)] == kinds
    assert read_control_type(batch) is ControlType.SNAPSHOT_HEADER


def test_control_records_of_the_future_and_of_nobody() -> None:
    future = build_batch([Record(0, 1, struct.pack(">hh", 1, 99), b"")], control=True)
    assert read_control_type(future) is None
    for key in (None, b"\0", struct.pack(">hh", -1, 0)):
        with pytest.raises(InvalidBytesError):
            read_control_type(build_batch([Record(0, 1, key, b"")], control=True))
    with pytest.raises(InvalidBytesError, match="no record"):
        read_control_type(build_batch([], control=True))
    for value in (b"", struct.pack(">hi", -1, 0)):
        with pytest.raises(InvalidBytesError):
            read_txn_marker(build_control_batch(ControlType.ABORT, value, timestamp_ms=NOW_MS))


@given(
    rows=records,
    base_offset=st.integers(0, 2**61),
    codec=st.sampled_from(Codec),
    append_time_ms=st.none() | st.integers(0, 50),
    data=st.data(),
)
def test_records_are_found_by_time_and_offset(
    rows: list[Record], base_offset: int, codec: Codec, append_time_ms: int | None, data: st.DataObject
) -> None:
    batch = build_batch(rows, base_offset=base_offset, codec=codec, append_time_ms=append_time_ms)
    read = list(read_records(batch))
    timestamp_min = data.draw(st.sampled_from([row.timestamp for row in read]) if read else st.just(0))
    timestamp_min += data.draw(st.integers(-1, 1))
    offset_min = data.draw(st.integers(0, 2**62) | st.integers(base_offset, base_offset + len(rows)))
    fitting = [row for row in read if row.timestamp >= timestamp_min and row.offset >= offset_min]
    expected = (fitting[0].offset, fitting[0].timestamp) if fitting else None
    assert find_record(batch, timestamp_min=timestamp_min, offset_min=offset_min) == expected


def test_find_record_says_what_is_broken() -> None:
    broken = raw_batch(raw_record(key_size=1000))
    with pytest.raises(InvalidBytesError, match="its key does not fit"):
        find_record(broken, timestamp_min=0, offset_min=0)
