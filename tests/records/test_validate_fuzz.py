"""Nothing but ApiError comes out of validation, and nothing passes that cannot be read back."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.errors import ApiError
from headrace.records.batch import Codec, Record, build_batch, read_header, read_records
from headrace.records.kernels.choice import load_compiled
from headrace.records.validate import ProducedBatch, ValidationRules, validate_produced
from tests.records.raw_batches import NOW_MS

optional_bytes = st.none() | st.binary(max_size=60)
rows = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(NOW_MS - 50, NOW_MS + 50) | st.just(-1),
        optional_bytes,
        optional_bytes,
        st.lists(st.tuples(st.text(max_size=3), optional_bytes), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)
some_rules = st.builds(
    ValidationRules,
    max_message_bytes=st.sampled_from([300, 1_000_000]),
    codec=st.sampled_from([None, None, *Codec]),
    keys_needed=st.booleans(),
    log_append_time=st.booleans(),
    timestamp_before_max_ms=st.sampled_from([20, 2**63 - 1]),
    timestamp_after_max_ms=st.sampled_from([20, 2**63 - 1]),
    unpacked_bytes_max=st.sampled_from([200, 100_000]),
)
changes = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=5)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    load_compiled()


def mutate(batch: bytearray, edits: list[tuple[int, int]], cut: int, behind: bytes, mend: bool) -> bytearray:
    """Change, shorten, lengthen; `mend` sets length and CRC right again, so that the rest is looked at."""
    for at, byte in edits:
        batch[at % len(batch)] = byte
    batch = batch[: len(batch) - cut] + behind
    if mend and len(batch) >= 61:
        struct.pack_into(">qi", batch, 0, 0, len(batch) - 12)
        batch[16] = 2
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def check(produced: ProducedBatch) -> None:
    header = read_header(produced.buffer)
    assert header == produced.header
    assert header.size == len(produced.buffer)
    records = list(read_records(produced.buffer))
    assert len(records) == header.record_count == produced.record_count
    assert [record.offset for record in records] == list(range(len(records)))
    assert header.max_timestamp == produced.max_timestamp
    timestamps = [record.timestamp for record in records]
    if not header.log_append_time:
        assert produced.max_timestamp == max([-1, *timestamps])
    if produced.offset_of_max_timestamp >= 0:
        assert timestamps[produced.offset_of_max_timestamp] == produced.max_timestamp


@settings(max_examples=1000)
@given(
    chosen=rows,
    codec=st.sampled_from(Codec),
    rules=some_rules,
    edits=changes,
    cut=st.just(0) | st.integers(0, 80),
    behind=st.just(b"") | st.binary(max_size=30),
    mend=st.booleans(),
    version=st.sampled_from([3, 13]),
)
def test_mutated_batches(
    chosen: list[Record],
    codec: Codec,
    rules: ValidationRules,
    edits: list[tuple[int, int]],
    cut: int,
    behind: bytes,
    mend: bool,
    version: int,
) -> None:
    batch = mutate(build_batch(chosen, codec=codec), edits, cut, behind, mend)
    try:
        produced = validate_produced(memoryview(batch), rules=rules, now_ms=NOW_MS, api_version=version)
    except ApiError:
        return
    check(produced)


@given(data=st.binary(max_size=200), rules=some_rules)
def test_noise(data: bytes, rules: ValidationRules) -> None:
    with pytest.raises(ApiError):
        validate_produced(data, rules=rules, now_ms=NOW_MS, api_version=9)


@given(chosen=rows, codec=st.sampled_from(Codec), kept=st.sampled_from([None, *Codec]))
def test_good_batches_pass(chosen: list[Record], codec: Codec, kept: Codec | None) -> None:
    rules = ValidationRules(codec=kept)
    batch = build_batch(chosen, codec=codec)
    produced = validate_produced(batch, rules=rules, now_ms=NOW_MS, api_version=9)
    check(produced)
    numbered = [row._replace(offset=index) for index, row in enumerate(chosen)]
    assert list(read_records(produced.buffer)) == numbered
