"""Record batch v2 (KIP-98): the unit that producers send, the log keeps and consumers get.

A batch is a header (`header.py`) and its records; with a codec, the records are one compressed stream and
the header never is. A record is: length, attributes (int8, unused), timestampDelta, offsetDelta, keyLength,
key, valueLength, value, headerCount, then for each header keyLength, key, valueLength, value. All numbers
are zigzag varints and a length of -1 is a null.

A control batch holds records that speak to brokers, not to consumers: transaction markers, and in the
metadata log the leader change and the ends of snapshots. Their key is (version, type), their value a
message of that type.

The broker itself never makes a `Record` per record: `build_batch` and `read_records` serve our own small
writes (coordinators, metadata, tools, tests). The data path uses the header and the kernels.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.codecs import Codec, compress, decompress
from headrace.records.header import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    batch_crc,
    batches,
    crc_matches,
    join_batch,
    read_header,
    stamp,
    stamp_append_time,
    stamp_producer,
    stamp_timestamp,
)
from headrace.records.kernels.choice import decode_spans, kernels
from headrace.records.kernels.notation import INT64_MIN
from headrace.records.kernels.records import flaw_text
from headrace.records.varints import encode_varint, read_varint

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Codec",
    "ControlType",
    "Record",
    "batch_crc",
    "batches",
    "build_batch",
    "build_control_batch",
    "build_txn_marker",
    "control_record",
    "control_type_of",
    "crc_matches",
    "encode_record",
    "find_record",
    "join_batch",
    "read_control_type",
    "read_header",
    "read_headers",
    "read_records",
    "read_txn_marker",
    "records_section",
    "stamp",
    "stamp_append_time",
    "stamp_producer",
    "stamp_timestamp",
]

# What one batch of a producer may unpack to, unless the topic takes larger batches: Kafka's largest request.
UNPACKED_BYTES_MAX: Final = 100 * 1024 * 1024
# What a batch may unpack to that is in a log: its broker has let it in, under limits that may have changed
# since, or that were Apache Kafka's. It is as much as a Java consumer can hold.
STORED_UNPACKED_BYTES_MAX: Final = (1 << 31) - 9


class Record(NamedTuple):
    """One record, for our own writes and for tools."""

    offset: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def encode_record(record: Record, *, offset_delta: int, timestamp_delta: int) -> bytes:
    """One record as it stands in a records section, its length in front."""
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    for field in (record.key, record.value):
        if field is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(field)), field)
    parts.append(encode_varint(len(record.headers)))
    for name, value in record.headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(value)), value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    keep_offsets: bool = False,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A batch of these records.

    They are numbered from `base_offset` on whatever their own offsets are; `keep_offsets` keeps those
    instead, as compaction does, whose batches have gaps, may be empty and name their `last_offset_delta`.
    """
    rows = list(records)
    first_timestamp = rows[0].timestamp if rows else NO_TIMESTAMP
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    deltas = [row.offset - base_offset for row in rows] if keep_offsets else range(len(rows))
    body: Buffer = b"".join(
        encode_record(row, offset_delta=delta, timestamp_delta=row.timestamp - base_timestamp)
        for row, delta in zip(rows, deltas, strict=True)
    )
    if codec != Codec.NONE:
        body = compress(codec, body, level)
    attributes = (
        codec
        | (LOG_APPEND_TIME if append_time_ms is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    if last_offset_delta is None:
        last_offset_delta = max(deltas, default=-1)
    max_timestamp = max((row.timestamp for row in rows), default=NO_TIMESTAMP)
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if append_time_ms is None else append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(rows),
    )
    return join_batch(header, body)


def records_section(batch: Buffer, header: BatchHeader, at: int = 0, *, limit_bytes: int) -> Buffer:
    """The records of the batch at `at`, unpacked where they are compressed (to at most `limit_bytes`)."""
    if header.magic != MAGIC:
        raise InvalidBytesError(f"a batch of magic {header.magic} has no records this can read")
    if header.length < HEADER_BYTES - LOG_OVERHEAD or at + header.size > len(batch):
        raise InvalidBytesError(f"a batch says it is {header.length} bytes long; {len(batch) - at} are there")
    body = memoryview(batch)[at + HEADER_BYTES : at + header.size]
    return decompress(header.codec, body, limit_bytes=limit_bytes) if header.codec else body


def read_records(
    batch: Buffer, at: int = 0, *, limit_bytes: int = STORED_UNPACKED_BYTES_MAX
) -> Iterator[Record]:
    """The records of the batch at `at`, one by one; InvalidBytesError where they do not follow the format."""
    header = read_header(batch, at)
    body = records_section(batch, header, at, limit_bytes=limit_bytes)
    spans = decode_spans(
        body, header.record_count, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    data = body if isinstance(body, bytes) else bytes(body)
    append_time = header.max_timestamp if header.log_append_time else None
    columns = (column.tolist() for column in spans)
    for offset, timestamp, key_at, key_size, value_at, value_size, headers_at, count in zip(
        *columns, strict=True
    ):
        yield Record(
            offset,
            timestamp if append_time is None else append_time,
            None if key_size < 0 else data[key_at : key_at + key_size],
            None if value_size < 0 else data[value_at : value_at + value_size],
            read_headers(data, headers_at, count) if count else (),
        )


def read_headers(data: bytes, at: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """A record's headers, whose sizes `decode_spans` has checked."""
    headers = []
    for _ in range(count):
        size, at = read_varint(data, at)
        name = data[at : at + size].decode("utf-8", "replace")
        value_size, at = read_varint(data, at + size)
        headers.append((name, None if value_size < 0 else data[at : at + value_size]))
        at += max(value_size, 0)
    return tuple(headers)


def find_record(
    batch: Buffer,
    at: int = 0,
    *,
    timestamp_min: int,
    offset_min: int,
    limit_bytes: int = STORED_UNPACKED_BYTES_MAX,
) -> tuple[int, int] | None:
    """(offset, timestamp) of the batch's first record that is before neither; None where there is none."""
    header = read_header(batch, at)
    append_time = header.log_append_time
    if append_time and header.max_timestamp < timestamp_min:
        return None
    body = records_section(batch, header, at, limit_bytes=limit_bytes)
    flaw, index, offset_delta, timestamp, _ = kernels.find_record(
        body,
        header.record_count,
        header.base_timestamp,
        INT64_MIN if append_time else timestamp_min,
        max(offset_min - header.base_offset, 0),
    )
    if flaw:
        raise InvalidBytesError(flaw_text(flaw, index))
    if index < 0:
        return None
    return header.base_offset + offset_delta, header.max_timestamp if append_time else timestamp


class ControlType(IntEnum):
    """What a control record says; its key is (version 0, type), both int16."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")  # version 0, coordinator epoch


def control_record(control_type: ControlType, value: bytes, *, timestamp_ms: int) -> Record:
    """A record for `build_batch(..., control=True)`; a batch may hold several, as snapshots have them."""
    return Record(0, timestamp_ms, _CONTROL_KEY.pack(0, control_type), value)


def build_control_batch(
    control_type: ControlType,
    value: bytes,
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of one control record of the metadata log: leader change, snapshot end, version, voters."""
    record = control_record(control_type, value, timestamp_ms=timestamp_ms)
    return build_batch([record], base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def build_txn_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The marker that ends a producer's transaction in a partition."""
    control_type = ControlType.COMMIT if commit else ControlType.ABORT
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [control_record(control_type, value, timestamp_ms=timestamp_ms)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_type_of(record: Record) -> ControlType | None:
    """A control record's type; None for one of a later Kafka that this version does not know."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise InvalidBytesError("a control record needs a key of version and type")
    version, number = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidBytesError(f"a control record's key has version {version}")
    return ControlType(number) if number in ControlType._value2member_map_ else None


def read_control_type(batch: Buffer, at: int = 0) -> ControlType | None:
    """The type of a control batch's first record."""
    return control_type_of(_first_record(batch, at))


def read_txn_marker(batch: Buffer, at: int = 0) -> tuple[ControlType | None, int]:
    """A transaction marker's type and the epoch of the coordinator that wrote it."""
    record = _first_record(batch, at)
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise InvalidBytesError("a transaction marker needs a value of version and coordinator epoch")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise InvalidBytesError(f"a transaction marker has version {version}")
    return control_type_of(record), coordinator_epoch


def _first_record(batch: Buffer, at: int) -> Record:
    for record in read_records(batch, at):
        return record
    raise InvalidBytesError("a control batch holds no record")
