"""The `.snapshot` file: a partition's producers at an offset, so that a start need not replay the whole log.

    version int16 (1) | crc uint32 | count int32 | per producer: producerId int64, epoch int16,
    lastSequence int32, lastOffset int64, offsetDelta int32, timestamp int64, coordinatorEpoch int32,
    currentTxnFirstOffset int64 (-1: none)

The CRC-32C covers everything behind it. Of a producer's last five batches only the latest is kept.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError

VERSION: Final = 1

_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class SnapshotEntry(NamedTuple):
    """A producer as a snapshot keeps it, in the file's order."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """InvalidBytesError for a file that is cut, changed or of another version."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise InvalidBytesError(f"a producer snapshot has more than {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != VERSION:
        raise InvalidBytesError(f"a producer snapshot has version {version}, known is {VERSION}")
    if crc32c(body) != crc:
        raise InvalidBytesError("a producer snapshot's CRC does not match")
    (count,) = _COUNT.unpack_from(body)
    if count * _ENTRY.size != len(body) - _COUNT.size:
        raise InvalidBytesError(f"a producer snapshot of {len(body)} bytes cannot hold {count} producers")
    return [SnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]
