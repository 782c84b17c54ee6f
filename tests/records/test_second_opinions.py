"""kafka-python's and aiokafka's record builders write what we read, and read what we write."""

from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest

from headrace.records.batch import Codec, Record, build_batch, build_txn_marker, read_header, read_records
from headrace.records.validate import ValidationRules, validate_produced

START_MS = 1_700_000_000_000
ROWS = [
    Record(
        index,
        START_MS + index * 37 % 11,
        None if index % 5 == 0 else b"key-%d" % index,
        None if index % 7 == 0 else b"value " * index,
        (("header", b"x" * index), ("null", None)) if index % 3 == 0 else (),
    )
    for index in range(400)
]
LIBRARIES = [kafka_python_records, aiokafka_records]


def build_with(library: Any, codec: Codec) -> bytes:
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=123456,
        producer_epoch=123,
        base_sequence=9999,
        batch_size=1 << 24,
    )
    for row in ROWS:
        assert builder.append(
            row.offset, timestamp=row.timestamp, key=row.key, value=row.value, headers=list(row.headers)
        )
    return bytes(builder.build())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("codec", Codec)
def test_we_read_theirs(library: Any, codec: Codec) -> None:
    batch = build_with(library, codec)
    header = read_header(batch)
    assert (header.codec, header.is_transactional) == (codec, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (123456, 123, 9999)
    assert list(read_records(batch)) == ROWS
    produced = validate_produced(batch, rules=ValidationRules(), now_ms=START_MS, api_version=9)
    assert bytes(produced.buffer) == batch


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("codec", Codec)
def test_they_read_ours(library: Any, codec: Codec) -> None:
    batch = library.DefaultRecordBatch(bytes(build_batch(ROWS, base_offset=50, codec=codec)))
    assert batch.validate_crc()
    read = [Record(r.offset - 50, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == ROWS


def test_markers_are_read_by_others() -> None:
    marker = build_txn_marker(
        commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=4, timestamp_ms=START_MS
    )
    batch = kafka_python_records.DefaultRecordBatch(bytes(marker))
    (record,) = batch
    assert batch.is_control_batch
    assert record.abort
