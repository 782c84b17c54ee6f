"""What a share consumer makes of fetched bytes, as rows and as columns, without a broker."""

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.clients.internals.share.acquired_fetch import AcquiredFetch, AcquiredRange
from headrace.clients.internals.share.tables import ColumnReader, places_of
from headrace.records.batch import Record, build_batch

AT = TopicPartition("t", 1)


def batch(*offsets: int) -> bytes:
    records = [Record(each, 1_000, b"k", b"%d" % each) for each in offsets]
    return bytes(build_batch(records, base_offset=offsets[0], keep_offsets=True))


def fetch(*ranges: tuple[int, int, int]) -> AcquiredFetch:
    """Batches of offsets 0 to 4, of 5 to 9 without 7, and a part of them that is held."""
    buffer = batch(0, 1, 2, 3, 4) + batch(5, 6, 8, 9)
    return AcquiredFetch(AT, buffer, [AcquiredRange(*each) for each in ranges])


def test_rows_are_what_is_held() -> None:
    held = fetch((2, 3, 1), (6, 8, 4))
    assert held.position == 2
    assert held.decode() == {7}
    assert held.decode() == set(), "a gap is told once"
    assert held.rows is not None
    assert [(row.offset, row.value, count) for row, count in held.rows] == [
        (2, b"2", 1),
        (3, b"3", 1),
        (6, b"6", 4),
        (8, b"8", 4),
    ]
    held.rows.clear()
    assert held.position is None


def test_columns_are_what_is_held() -> None:
    reader = ColumnReader(None)
    found = reader.read(fetch((6, 8, 4), (2, 3, 1)))
    assert (found.offsets, found.gaps) == ([2, 3, 6, 8], {7})
    table = reader.table(found.batches)
    assert table.select(["topic", "partition", "offset", "value", "delivery_count"]).to_pylist() == [
        {"topic": "t", "partition": 1, "offset": each, "value": b"%d" % each, "delivery_count": count}
        for each, count in ((2, 1), (3, 1), (6, 4), (8, 4))
    ]
    assert places_of(table) == {AT: [2, 3, 6, 8]}


def test_columns_go_on_where_rows_ended() -> None:
    held = fetch((0, 9, 1))
    held.decode()
    assert held.rows is not None
    for _ in range(6):
        held.rows.popleft()
    found = ColumnReader(["delivery_count"]).read(held)
    assert (found.offsets, found.gaps) == ([6, 8, 9], set())
    assert [each.column_names for each in found.batches] == [["delivery_count"]]
    held.rows.clear()
    assert ColumnReader(None).read(held) == ([], [], set())


def test_nothing_but_gaps() -> None:
    found = ColumnReader(None).read(fetch((7, 7, 1)))
    assert found == ([], [], {7})
    table = ColumnReader(["offset"]).table([])
    assert (table.num_rows, table.column_names) == (0, ["offset"])


def test_broken_bytes_are_told() -> None:
    buffer = bytearray(batch(0, 1))
    buffer[-1] ^= 1
    held = AcquiredFetch(AT, bytes(buffer), [AcquiredRange(0, 1, 1)])
    with pytest.raises(ClientError, match=r"of t-1 at offset 0 is broken: .*check sum|CRC"):
        held.decode()
    with pytest.raises(ClientError, match=r"of t-1 at offset 0 is broken"):
        ColumnReader(None).read(held)


def test_columns_that_there_are_not() -> None:
    with pytest.raises(ValueError, match=r"there is no column 'deliveries'"):
        ColumnReader(["deliveries"])
    table = ColumnReader(["offset"]).table([])
    with pytest.raises(ClientError, match=r"no column 'topic': topic, partition and offset say which"):
        places_of(table)
