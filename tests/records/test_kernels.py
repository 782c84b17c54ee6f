"""Kernels answer as their oracles do, as they are written and compiled, on good sections and on broken
ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.records.batch import HEADER_BYTES, Record, build_batch, encode_record, read_records
from headrace.records.kernels import records as records_kernels
from headrace.records.kernels.choice import RECORD_BYTES_MIN, decode_spans, hash_keys
from headrace.records.kernels.notation import INT64_MAX, INT64_MIN
from headrace.records.kernels.records import (
    FLAW_TEXT,
    SPAN_COLUMNS,
    RecordFlaw,
    flaw_text,
    span_columns,
)
from tests.records.kernel_forms import COMPILED, FORMS, ORACLE, WRITTEN, Form
from tests.records.raw_batches import raw_record

optional_bytes = st.none() | st.binary(max_size=150)
rows = st.builds(
    Record,
    st.just(0),
    st.integers(-(2**40), 2**40),
    optional_bytes,
    optional_bytes,
    st.lists(st.tuples(st.text(max_size=4), optional_bytes), max_size=3).map(tuple),
)
base_timestamps = st.integers(-2, 2**41) | st.sampled_from([INT64_MIN, INT64_MAX, INT64_MAX - 100, -1])


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records with any deltas, often broken, and a count that may lie."""
    parts = []
    chosen = draw(st.lists(rows, max_size=8))
    for index, row in enumerate(chosen):
        delta = draw(st.just(index) | st.integers(-3, 10))
        parts.append(encode_record(row, offset_delta=delta, timestamp_delta=row.timestamp))
    section = bytearray(b"".join(parts))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)):
        if section:
            section[at % len(section)] = byte
    cut = draw(st.just(0) | st.integers(0, 20))
    section = section[: len(section) - cut] + draw(st.just(b"") | st.binary(max_size=5))
    return bytes(section), draw(st.just(len(chosen)) | st.integers(-1, 12) | st.just(2**31 - 1))


def test_flaws_are_numbered_alike() -> None:
    for flaw in RecordFlaw:
        if flaw:
            assert getattr(records_kernels, f"_{flaw.name}") == flaw
            assert flaw in FLAW_TEXT


@settings(max_examples=500)
@given(section=sections(), base_timestamp=base_timestamps)
def test_scan_records(section: tuple[bytes, int], base_timestamp: int) -> None:
    body, count = section
    expected = ORACLE.scan_records(body, count, base_timestamp)
    for form in (WRITTEN, COMPILED):
        assert form.scan_records(body, count, base_timestamp) == expected
        assert form.scan_records(memoryview(bytearray(body)), count, base_timestamp) == expected


@settings(max_examples=300)
@given(
    section=sections(),
    base_timestamp=base_timestamps,
    timestamp_min=st.integers(INT64_MIN, INT64_MAX) | st.integers(-(2**40), 2**40),
    offset_delta_min=st.integers(-3, 12),
)
def test_find_record(
    section: tuple[bytes, int], base_timestamp: int, timestamp_min: int, offset_delta_min: int
) -> None:
    arguments = (*section, base_timestamp, timestamp_min, offset_delta_min)
    assert COMPILED.find_record(*arguments) == ORACLE.find_record(*arguments)
    assert WRITTEN.find_record(*arguments) == ORACLE.find_record(*arguments)


@settings(max_examples=300)
@given(section=sections(), base_offset=st.integers(0, INT64_MAX), base_timestamp=base_timestamps)
def test_fill_spans(section: tuple[bytes, int], base_offset: int, base_timestamp: int) -> None:
    body, count = section
    if count < 0 or count * RECORD_BYTES_MIN > len(body):
        with pytest.raises(InvalidBytesError):
            decode_spans(body, count, base_offset=base_offset, base_timestamp=base_timestamp)
        return
    blocks = [memoryview(bytearray(8 * SPAN_COLUMNS * count)).cast("q") for _ in FORMS]
    answers = [
        form.fill_spans(body, count, base_offset, base_timestamp, block)
        for form, block in zip(FORMS, blocks, strict=True)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert blocks[0] == blocks[1] == blocks[2]


@given(chosen=st.lists(rows, max_size=20))
def test_spans_are_the_records(chosen: list[Record]) -> None:
    batch = build_batch(chosen, base_offset=1000)
    body = memoryview(batch)[HEADER_BYTES:]
    base_timestamp = chosen[0].timestamp if chosen else -1
    block = memoryview(bytearray(8 * SPAN_COLUMNS * len(chosen))).cast("q")
    assert COMPILED.fill_spans(body, len(chosen), 1000, base_timestamp, block) == (0, len(chosen))
    spans = span_columns(block, len(chosen))
    for index, record in enumerate(read_records(batch)):
        assert (spans.offsets[index], spans.timestamps[index]) == (record.offset, record.timestamp)
        for at, size, field in (
            (spans.key_at, spans.key_size, record.key),
            (spans.value_at, spans.value_size, record.value),
        ):
            found = None if size[index] < 0 else bytes(body[at[index] : at[index] + size[index]])
            assert found == field
        assert spans.header_count[index] == len(record.headers)


@given(chosen=st.lists(rows, min_size=1, max_size=20), data=st.data())
def test_found_records_are_the_first(chosen: list[Record], data: st.DataObject) -> None:
    batch = build_batch(chosen)
    body = memoryview(batch)[HEADER_BYTES:]
    timestamp_min = data.draw(st.sampled_from([row.timestamp for row in chosen])) + data.draw(
        st.integers(-1, 1)
    )
    delta_min = data.draw(st.integers(0, len(chosen)))
    expected = next(
        (
            (index, index, row.timestamp)
            for index, row in enumerate(chosen)
            if row.timestamp >= timestamp_min and index >= delta_min
        ),
        (-1, -1, -1),
    )
    flaw, *found, position = COMPILED.find_record(
        body, len(chosen), chosen[0].timestamp, timestamp_min, delta_min
    )
    assert (flaw, tuple(found)) == (0, expected)
    if found[0] >= 0:
        assert ORACLE.scan_records(body[:position], found[0], 0)[0] == 0


FLAWED = [
    (RecordFlaw.NONE, raw_record(), 1),
    (RecordFlaw.CUT_OFF, b"", 1),
    (RecordFlaw.CUT_OFF, raw_record(), 2),
    (RecordFlaw.CUT_OFF, raw_record()[:-1], 1),
    (RecordFlaw.CUT_OFF, b"\x80", 1),
    (RecordFlaw.SIZE, b"\x01", 1),
    (RecordFlaw.SIZE, b"\x80" * 5 + b"\0", 1),
    (RecordFlaw.NUMBER, b"\0", 1),
    (RecordFlaw.NUMBER, b"\x0c\0\0\x80\x80\x80\x80", 1),
    (RecordFlaw.NUMBER, raw_record(header_count=1, extra=b"\x02h\x80"), 1),
    (RecordFlaw.TIMESTAMP, raw_record(timestamp_delta=INT64_MAX), 1),
    (RecordFlaw.OFFSET_DELTA, raw_record(offset_delta=1), 1),
    (RecordFlaw.KEY_SIZE, raw_record(key_size=100), 1),
    (RecordFlaw.KEY_SIZE, raw_record(key=None, key_size=-2), 1),
    (RecordFlaw.VALUE_SIZE, raw_record(value_size=100), 1),
    (RecordFlaw.VALUE_SIZE, raw_record(value=None, value_size=-2), 1),
    (RecordFlaw.HEADER_COUNT, raw_record(header_count=-1), 1),
    (RecordFlaw.HEADER_COUNT, raw_record(header_count=1), 1),
    (RecordFlaw.HEADER_KEY_SIZE, raw_record(headers=[(None, b"v")]), 1),
    (RecordFlaw.HEADER_VALUE_SIZE, raw_record(header_count=1, extra=b"\x02h\x08v"), 1),
    (RecordFlaw.RECORD_END, raw_record(extra=b"zz"), 1),
    (RecordFlaw.TRAILING, raw_record() + b"\0", 1),
]


@pytest.mark.parametrize(("flaw", "body", "count"), FLAWED)
def test_each_flaw_is_found(flaw: RecordFlaw, body: bytes, count: int) -> None:
    for twin in FORMS:
        assert twin.scan_records(body, count, 1)[0] == flaw


def test_every_flaw_has_a_case() -> None:
    assert {flaw for flaw, _, _ in FLAWED} == set(RecordFlaw)


def test_flaws_read_as_sentences() -> None:
    assert flaw_text(RecordFlaw.KEY_SIZE, 3) == "record 3 of the batch: its key does not fit"
    with pytest.raises(InvalidBytesError, match="record 0 of the batch: its size is not a size"):
        decode_spans(b"\x01" * 7, 1, base_offset=0, base_timestamp=0)


def test_what_a_scan_learns() -> None:
    body = (
        raw_record(timestamp_delta=5)
        + raw_record(offset_delta=1, timestamp_delta=9, key=None)
        + raw_record(offset_delta=2, timestamp_delta=9)
        + raw_record(offset_delta=3, timestamp_delta=-101)
    )
    for twin in FORMS:
        assert twin.scan_records(body, 4, 100) == (RecordFlaw.NONE, 4, 109, 1, 105, 1)
        assert twin.scan_records(b"", 0, 5) == (RecordFlaw.NONE, 0, -1, -1, INT64_MAX, 0)


# The values of Kafka's own partitioner for these keys.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("twin", FORMS, ids=str)
def test_murmur2_is_kafkas(twin: Form) -> None:
    for key, expected in MURMUR2.items():
        assert twin.murmur2(key) == expected


@given(key=st.binary(max_size=50))
def test_murmur2_twins(key: bytes) -> None:
    assert COMPILED.murmur2(key) == WRITTEN.murmur2(key) == ORACLE.murmur2(key)


def test_siphash_is_the_published_one() -> None:
    """The reference's vectors: key 00 01 .. 0f, messages of 0 to 15 bytes 00 01 .."""
    secret = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    expected = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45"}
    for size, digest in expected.items():
        body = encode_record(Record(0, 0, bytes(range(size))), offset_delta=0, timestamp_delta=0)
        hashes = hash_keys(body, decode_spans(body, 1, base_offset=0, base_timestamp=0), secret)
        assert hashes.tobytes().hex() == digest


@given(chosen=st.lists(rows, max_size=10), secret=st.tuples(*[st.integers(0, 2**64 - 1)] * 2))
def test_key_hash_twins(chosen: list[Record], secret: tuple[int, int]) -> None:
    body = bytes(build_batch(chosen)[HEADER_BYTES:])
    spans = decode_spans(body, len(chosen), base_offset=0, base_timestamp=0)
    for name, code, width, arguments in (
        ("siphash_spans", "Q", 2, secret),
        ("murmur2_spans", "i", 1, ()),
    ):
        answers = []
        for twin in FORMS:
            size = 8 if code == "Q" else 4
            hashes = memoryview(bytearray(size * width * len(chosen))).cast(code)
            getattr(twin, name)(body, spans.key_at, spans.key_size, *arguments, hashes)
            answers.append(hashes.tolist())
        assert answers[0] == answers[1] == answers[2]


@settings(max_examples=300)
@given(
    st.lists(st.integers(0, 20_000), min_size=1, max_size=3),
    st.integers(0, 300),
    st.integers(-20_000, 20_000),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=2),
)
def test_scan_records_of_usual_shape(
    sizes: list[int], first: int, timestamp: int, changes: list[tuple[int, int]]
) -> None:
    """Records around the borders of what the compiled kernel has a quick way for, some with a broken byte."""
    section = bytearray(b"".join(raw_record(offset_delta=n, value=b"") for n in range(first)))
    at = len(section)
    for number, size in enumerate(sizes):
        key = (None, b"", b"k" * (size % 200))[size % 3]
        section += raw_record(
            offset_delta=first + number, timestamp_delta=timestamp, key=key, value=b"v" * size
        )
    for position, byte in changes:
        section[min(at + position, len(section) - 1)] = byte
    count = first + len(sizes)
    expected = ORACLE.scan_records(bytes(section), count, 1000)
    assert WRITTEN.scan_records(bytes(section), count, 1000) == expected
    assert COMPILED.scan_records(bytes(section), count, 1000) == expected
