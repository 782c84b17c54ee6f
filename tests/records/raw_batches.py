"""Batches and records with any field wrong, as no builder of ours would make them."""

import struct
from collections.abc import Sequence

from crc32c import crc32c

from headrace.records.varints import encode_varint

NOW_MS = 1_794_737_000_000


def raw_record(
    *,
    attributes: int = 0,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    key_size: int | None = None,
    value_size: int | None = None,
    header_count: int | None = None,
    size: int | None = None,
    extra: bytes = b"",
) -> bytes:
    """One record; the `_size` and `_count` arguments make it lie."""
    body = bytes([attributes]) + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += _field(key, key_size) + _field(value, value_size)
    body += encode_varint(len(headers) if header_count is None else header_count)
    for name, field in headers:
        body += _field(name, None) + _field(field, None)
    body += extra
    return encode_varint(len(body) if size is None else size) + body


def _field(content: bytes | None, size: int | None) -> bytes:
    if size is None:
        size = -1 if content is None else len(content)
    return encode_varint(size) + (content or b"")


def raw_batch(
    records: bytes,
    *,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    count: int = 1,
    base_timestamp: int = NOW_MS,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch around a records section, right in all that is not said."""
    tail = struct.pack(
        ">hiqqqhii",
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        base_timestamp if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    tail += records
    head = struct.pack(">ibI", leader_epoch, magic, crc32c(tail) if crc is None else crc)
    whole = head + tail
    return struct.pack(">qi", base_offset, len(whole) if length is None else length) + whole
