"""Batches of Java's producer and of librdkafka read as they were meant, and ours are the same bytes."""

import pytest

from headrace.records.batch import (
    Codec,
    ControlType,
    Record,
    build_batch,
    build_control_batch,
    build_txn_marker,
    crc_matches,
    read_control_type,
    read_header,
    read_records,
    read_txn_marker,
)
from headrace.records.validate import ValidationRules, validate_produced
from tests.records.golden_batches import JAVA, JAVA_CONTROL, LIBRDKAFKA

START_MS = 1_700_000_000_000


def records(long_value: bytes) -> list[Record]:
    return [
        Record(0, START_MS, b"key", b"value", (("h", b"x"), ("n", None))),
        Record(1, START_MS + 5, None, long_value),
        Record(2, START_MS - 1, b"gone", None),
    ]


JAVA_RECORDS = records(b"a" * 64)
LIBRDKAFKA_RECORDS = records(b"a" * 200)


@pytest.mark.parametrize("codec", JAVA)
def test_java(codec: str) -> None:
    batch = JAVA[codec]
    header = read_header(batch)
    assert crc_matches(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 17)
    assert header.codec == Codec[codec.upper()]
    assert list(read_records(batch)) == JAVA_RECORDS
    produced = validate_produced(batch, rules=ValidationRules(), now_ms=START_MS, api_version=9)
    assert bytes(produced.buffer) == batch
    assert (produced.max_timestamp, produced.offset_of_max_timestamp) == (START_MS + 5, 1)


@pytest.mark.parametrize("codec", LIBRDKAFKA)
def test_librdkafka(codec: str) -> None:
    batch = LIBRDKAFKA[codec]
    assert list(read_records(batch)) == LIBRDKAFKA_RECORDS
    produced = validate_produced(batch, rules=ValidationRules(), now_ms=START_MS, api_version=9)
    assert bytes(produced.buffer) == batch


def test_built_like_java() -> None:
    ours = build_batch(JAVA_RECORDS, producer_id=4711, producer_epoch=3, base_sequence=17)
    assert ours == JAVA["none"]


def test_transaction_marker_like_java() -> None:
    batch = JAVA_CONTROL["commit"]
    ours = build_txn_marker(
        commit=True,
        producer_id=4711,
        producer_epoch=3,
        coordinator_epoch=9,
        timestamp_ms=START_MS,
        base_offset=12,
        leader_epoch=5,
    )
    assert ours == batch
    assert read_txn_marker(batch) == (ControlType.COMMIT, 9)
    assert read_header(batch).is_control
    assert read_header(batch).is_transactional


@pytest.mark.parametrize(
    ("name", "control_type"), [("leader", ControlType.LEADER_CHANGE), ("footer", ControlType.SNAPSHOT_FOOTER)]
)
def test_control_batch_like_java(name: str, control_type: ControlType) -> None:
    batch = JAVA_CONTROL[name]
    (record,) = read_records(batch)
    assert record.value is not None
    ours = build_control_batch(
        control_type, record.value, timestamp_ms=START_MS, base_offset=7, leader_epoch=2
    )
    assert ours == batch
    assert read_control_type(batch) is control_type
