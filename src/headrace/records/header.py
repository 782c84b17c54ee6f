"""The 61 bytes in front of a batch's records: reading them, stamping them, walking from batch to batch.

    baseOffset int64 | length int32 | partitionLeaderEpoch int32 | magic int8 | crc uint32 |
    attributes int16 | lastOffsetDelta int32 | baseTimestamp int64 | maxTimestamp int64 |
    producerId int64 | producerEpoch int16 | baseSequence int32 | recordCount int32 | records

`length` counts what follows it. The CRC-32C covers everything from `attributes` on, so a leader may set
base offset and leader epoch (`stamp`) in the bytes it received without touching the rest. Attributes: bits
0-2 codec, 3 timestamps are the log's append time, 4 transactional, 5 control, 6 the base timestamp is a
delete horizon (KIP-534).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError

HEADER_BYTES: Final = 61
MAGIC: Final = 2
LENGTH_OFFSET: Final = 8
LOG_OVERHEAD: Final = 12  # base offset and length: the bytes `length` does not count
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21  # the CRC covers everything from here on

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT16: Final = struct.Struct(">h")
_MAX_TIMESTAMP_OFFSET: Final = 35
_PRODUCER_OFFSET: Final = 43
_PRODUCER: Final = struct.Struct(">qhi")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, as numbers, in their order on disk."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.length

    @property
    def codec(self) -> int:
        """The codec's number; not every number is a `Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, set by the leader."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def record_timestamp_max(self) -> int:
        """The largest timestamp of its records; NO_TIMESTAMP where compaction left none of them."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones and markers (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences go from 2^31-1 back to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header at `at`; says nothing yet about its CRC or its records."""
    try:
        return BatchHeader._make(_HEADER.unpack_from(buffer, at))
    except struct.error:
        left = len(buffer) - at
        raise InvalidBytesError(f"a batch header takes {HEADER_BYTES} bytes, {left} are left") from None


def batches(buffer: Buffer, at: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; ends at a cut-off tail.

    A length that no batch can have is a corrupt log, not a tail, and raises.
    """
    end = len(buffer)
    while end - at >= HEADER_BYTES:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, at))
        if header.length < HEADER_BYTES - LOG_OVERHEAD:
            raise InvalidBytesError(f"the batch at byte {at} says it is {header.length} bytes long")
        if header.magic != MAGIC:
            raise InvalidBytesError(f"the batch at byte {at} has magic {header.magic}, not {MAGIC}")
        following = at + LOG_OVERHEAD + header.length
        if following > end:
            return
        yield at, header
        at = following


def batch_crc(buffer: Buffer, at: int, size: int) -> int:
    """CRC-32C of what it covers in the batch of `size` bytes at `at`."""
    return crc32c(memoryview(buffer)[at + ATTRIBUTES_OFFSET : at + size])


def crc_matches(buffer: Buffer, at: int, header: BatchHeader) -> bool:
    return batch_crc(buffer, at, header.size) == header.crc


def stamp(buffer: bytearray | memoryview, at: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log, in place; neither field is under the CRC."""
    _INT64.pack_into(buffer, at, base_offset)
    _INT32.pack_into(buffer, at + LOG_OVERHEAD, leader_epoch)


def stamp_timestamp(
    buffer: bytearray | memoryview, at: int, *, max_timestamp: int, append_time: bool
) -> None:
    """Set the timestamp type and the maximum timestamp in place, and the CRC with them."""
    (length,) = _INT32.unpack_from(buffer, at + LENGTH_OFFSET)
    (attributes,) = _INT16.unpack_from(buffer, at + ATTRIBUTES_OFFSET)
    attributes = attributes | LOG_APPEND_TIME if append_time else attributes & ~LOG_APPEND_TIME
    _INT16.pack_into(buffer, at + ATTRIBUTES_OFFSET, attributes)
    _INT64.pack_into(buffer, at + _MAX_TIMESTAMP_OFFSET, max_timestamp)
    _UINT32.pack_into(buffer, at + CRC_OFFSET, batch_crc(buffer, at, LOG_OVERHEAD + length))


def stamp_append_time(buffer: bytearray | memoryview, at: int, append_time_ms: int) -> None:
    """Make the log's append time the timestamp of every record of the batch."""
    stamp_timestamp(buffer, at, max_timestamp=append_time_ms, append_time=True)


def stamp_producer(
    buffer: bytearray | memoryview, at: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Say in place whose batch it is and which of theirs, and set the CRC with that."""
    (length,) = _INT32.unpack_from(buffer, at + LENGTH_OFFSET)
    _PRODUCER.pack_into(buffer, at + _PRODUCER_OFFSET, producer_id, producer_epoch, base_sequence)
    _UINT32.pack_into(buffer, at + CRC_OFFSET, batch_crc(buffer, at, LOG_OVERHEAD + length))


def join_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """A batch of this header and records section; length and CRC are made to fit."""
    out = bytearray(HEADER_BYTES + len(body))
    out[HEADER_BYTES:] = body
    _HEADER.pack_into(out, 0, *header._replace(length=len(out) - LOG_OVERHEAD, magic=MAGIC, crc=0))
    _UINT32.pack_into(out, CRC_OFFSET, batch_crc(out, 0, len(out)))
    return out
