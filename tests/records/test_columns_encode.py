"""Arrow columns as record batches: every layout of a column, splitting, partitions, and both twins."""

from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records.batch import Codec, Record, build_batch, crc_matches, read_header, read_records
from headrace.records.columns import arrow_spans, encode
from headrace.records.columns.arrow_spans import header_spans, value_spans
from headrace.records.columns.decode import arrow_from_batches
from headrace.records.columns.encode import (
    BatchForm,
    BatchStream,
    batches_by_partition,
    batches_from_arrow,
    partition_for_keys,
    write_batches,
)
from headrace.records.kernels.choice import partition_for_key
from tests.records.column_cases import records
from tests.records.oracles import columns as oracle

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def columns_of(rows: list[Record]) -> Any:
    return pa.record_batch(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in row.headers] for row in rows], HEADERS),
            "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
        }
    )


def records_of(batches: list[bytearray]) -> list[Record]:
    found = []
    for batch in batches:
        header = read_header(batch)
        assert header.size == len(batch)
        assert crc_matches(batch, 0, header)
        made = list(read_records(batch))
        assert header.max_timestamp == max(row.timestamp for row in made)
        assert header.record_count == len(made) == header.last_offset_delta + 1
        found += [row._replace(offset=0) for row in made]
    return found


@given(
    rows=st.lists(records, max_size=20), codec=st.sampled_from(list(Codec)), batch_bytes=st.integers(62, 400)
)
def test_batches_are_the_rows(rows: list[Record], codec: int, batch_bytes: int) -> None:
    batches = batches_from_arrow(columns_of(rows), codec=codec, batch_bytes=batch_bytes)
    assert records_of(batches) == rows
    if codec == Codec.NONE:
        assert all(len(batch) <= batch_bytes or read_header(batch).record_count == 1 for batch in batches)


@given(rows=st.lists(records, min_size=1, max_size=20), batch_bytes=st.integers(62, 400))
def test_twins(rows: list[Record], batch_bytes: int) -> None:
    data = columns_of(rows)
    compiled = batches_from_arrow(data, batch_bytes=batch_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "column_kernels", lambda: oracle)
        assert batches_from_arrow(data, batch_bytes=batch_bytes) == compiled
    if batch_bytes == 400 and len(compiled) == 1:
        assert compiled == [build_batch(rows)]


def test_the_bytes_are_those_of_other_batches() -> None:
    rows = [Record(0, 10**12 + index, b"k%d" % index, b"v" * index, (("h", None),)) for index in range(200)]
    assert batches_from_arrow(columns_of(rows)) == [build_batch(rows)]


LAYOUTS = [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()]


@pytest.mark.parametrize("kind", [*LAYOUTS, pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_every_layout_of_bytes(kind: Any) -> None:
    texts = ["left out", "a", None, "", "längeres, not inlined in a view", "a"]
    array = pa.array(texts).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(texts, kind)
    expected = [None if text is None else text.encode() for text in texts[1:5]]
    data = pa.record_batch({"key": array, "value": array}).slice(1, 4)
    found = records_of(batches_from_arrow(data, timestamp_ms=5))
    assert [(row.key, row.value, row.timestamp) for row in found] == [(each, each, 5) for each in expected]


def test_fixed_sizes_nulls_and_what_is_missing() -> None:
    fixed = pa.array([b"xx", b"ab", None, b"cd"], pa.binary(2)).slice(1)
    data = pa.record_batch({"key": fixed, "value": pa.nulls(3), "other": pa.array([1, 2, 3])})
    found = records_of(batches_from_arrow(data))
    assert [(row.key, row.value, row.timestamp) for row in found] == [
        (b"ab", None, -1),
        (None, None, -1),
        (b"cd", None, -1),
    ]
    assert batches_from_arrow(data.slice(0, 0)) == []
    assert batches_from_arrow(pa.table({"key": pa.array([], pa.binary())})) == []


def test_timestamps_of_any_unit() -> None:
    for unit, factor in (("s", 1 / 1000), ("ms", 1), ("us", 1000), ("ns", 10**6)):
        times = pa.array([int(5000 * factor), None], pa.timestamp(unit, "UTC"))
        data = pa.record_batch({"timestamp": times})
        assert [row.timestamp for row in records_of(batches_from_arrow(data, timestamp_ms=7))] == [5000, 7]
    for wrong, text in ((pa.array(["now"]), "it must be a timestamp"), (pa.array([-5]), "before 1970")):
        with pytest.raises(ValueError, match=text):
            batches_from_arrow(pa.record_batch({"timestamp": wrong}))


def test_headers_sliced_null_and_large() -> None:
    rows: list[Any] = [[("out", b"")], [("a", b"1"), ("b", None)], None, [], [("ü", b"2")], [("out", b"")]]
    lists = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    for kind in (HEADERS, pa.large_list(HEADERS.value_type)):
        data = pa.record_batch({"headers": pa.array(lists, kind)}).slice(1, 4)
        found = records_of(batches_from_arrow(data))
        assert [row.headers for row in found] == [(("a", b"1"), ("b", None)), (), (), (("ü", b"2"),)]
    keyless = pa.array([[{"key": None, "value": b""}]], HEADERS)
    for wrong, text in ((keyless, "a header without a key"), (pa.array([["x"]]), "must be list<struct")):
        with pytest.raises(ValueError, match=text):
            batches_from_arrow(pa.record_batch({"headers": wrong}))


def test_columns_that_no_record_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="column 'value' has type int64"):
        batches_from_arrow(pa.record_batch({"value": pa.array([1])}))
    monkeypatch.setattr(arrow_spans, "VALUE_BYTES_MAX", 3)
    with pytest.raises(ValueError, match="column 'key' has a value of 4 bytes; a record has room for 3"):
        batches_from_arrow(pa.record_batch({"key": pa.array([b"1234"])}))
    for size in (61, 2**31):
        with pytest.raises(ValueError, match="batches can have 62 to"):
            batches_from_arrow(pa.record_batch({"value": pa.array([b""])}), batch_bytes=size)


def test_broken_arrays_are_refused() -> None:
    """As broken IPC would bring them: Arrow itself looks at the last offset only."""

    def broken(ends: list[int]) -> Any:
        buffers = [None, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(b"abc")]
        return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers, 0)

    for ends in ([0, 2, 1, 3], [0, 4, 3], [0, -1, 3], [0, 2**31 - 1, 3]):
        with pytest.raises(ValueError, match="column 'value' is not valid"):
            value_spans(broken(ends), "value")
    pairs = pa.array([{"key": "k", "value": b"v"}], HEADERS.value_type)
    for ends in ([0, 2, 1], [0, -1, 1]):
        buffers = [None, pa.py_buffer(np.array(ends, np.int32))]
        broken_lists = pa.Array.from_buffers(HEADERS, len(ends) - 1, buffers, 0, children=[pairs])
        with pytest.raises(ValueError, match="column 'headers' is not valid"):
            header_spans(broken_lists)


def test_producers_and_their_sequences() -> None:
    table = pa.table({"value": pa.chunked_array([[b"a" * 50] * 3, [b"b" * 50] * 2])})
    batches = batches_from_arrow(
        table, batch_bytes=180, producer_id=9, producer_epoch=2, base_sequence=2**31 - 3, transactional=True
    )
    headers = [read_header(batch) for batch in batches]
    assert [(each.base_sequence, each.record_count) for each in headers] == [
        (2**31 - 3, 2),
        (2**31 - 1, 2),
        (1, 1),
    ]
    assert {(each.producer_id, each.producer_epoch, each.is_transactional) for each in headers} == {
        (9, 2, True)
    }


@given(keys=st.lists(st.none() | st.binary(max_size=30)), count=st.integers(1, 100))
def test_partitions_of_keys(keys: list[bytes | None], count: int) -> None:
    expected = [-1 if key is None else partition_for_key(key, count) for key in keys]
    array = pa.array(keys, pa.binary())
    assert partition_for_keys(array, count).tolist() == expected
    assert partition_for_keys(pa.chunked_array([array, array]), count).tolist() == expected * 2


@given(keys=st.lists(st.none() | st.binary(max_size=3), max_size=40), count=st.sampled_from([1, 3, 40_000]))
def test_rows_by_partition(keys: list[bytes | None], count: int) -> None:
    data = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "value": [b"%d" % at for at in range(len(keys))]}
    )
    made = batches_by_partition(
        data, count, base_sequences={0: 100}, form=BatchForm(producer_id=4, base_sequence=0)
    )
    expected: dict[int, list[Record]] = {}
    for index, key in enumerate(keys):
        partition = 0 if key is None else partition_for_key(key, count)
        expected.setdefault(partition, []).append(Record(0, -1, key, b"%d" % index))
    assert {partition: records_of(batches) for partition, batches in made.items()} == expected
    for partition, batches in made.items():
        assert read_header(batches[0]).base_sequence == (100 if partition == 0 else 0)


@given(
    keys=st.lists(st.none() | st.binary(max_size=3), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    count=st.sampled_from([1, 3]),
    batch_bytes=st.integers(62, 300),
)
def test_a_stream_is_one_table_in_pieces(
    keys: list[bytes | None], cuts: list[int], count: int, batch_bytes: int
) -> None:
    """The same batches, byte for byte, wherever the rows are cut."""
    data = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "value": [b"%d" % at for at in range(len(keys))]}
    )
    form = BatchForm(batch_bytes=batch_bytes, timestamp_ms=7)
    whole: dict[int, list[bytes]] = {}
    for lane, _, content, _ in write_batches(data, count, keyless_partition=0, form=form):
        whole.setdefault(lane, []).append(bytes(content))
    stream, streamed = BatchStream(form), dict[int, list[bytes]]()
    bounds = sorted({0, len(keys), *(cut for cut in cuts if cut < len(keys))})
    pieces = [data.slice(start, end - start) for start, end in pairwise(bounds)]
    written = (stream.write(each, count, keyless_partition=0, timestamp_ms=7) for each in pieces)
    for lane, _, content, memory in chain(chain.from_iterable(written), stream.finish()):
        streamed.setdefault(lane, []).append(bytes(content))
        assert memory is None or len(memory) >= batch_bytes or len(content) > batch_bytes
    assert streamed == whole
    assert list(stream.finish()) == []


def test_a_column_may_say_the_partition() -> None:
    data = pa.table({"key": [b"21", b"21", None], "partition": pa.array([3, None, None], pa.int32())})
    made = batches_by_partition(data, 10, keyless_partition=5)
    assert {partition: len(records_of(batches)) for partition, batches in made.items()} == {3: 1, 0: 1, 5: 1}
    with pytest.raises(ValueError, match="partitions go from 0 to 2"):
        batches_by_partition(data, 3)
    with pytest.raises(ValueError, match="no partition to choose among 0"):
        partition_for_keys(pa.array([b"k"]), 0)


@given(rows=st.lists(records, max_size=20))
def test_there_and_back(rows: list[Record]) -> None:
    data = columns_of(rows)
    log = b"".join(batches_from_arrow(data))
    found = arrow_from_batches(log, topic="t", partition=0, columns=data.schema.names)
    assert found.cast(data.schema.set(3, pa.field("timestamp", pa.int64()))).equals(data)
