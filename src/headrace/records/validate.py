"""Checking what a producer sent, to the last record, before it may enter a log.

The checks and their order are those of Apache Kafka 4.3, found by asking a real node; a client can tell the
difference by error code alone:

    one whole batch of magic 2 ........... INVALID_RECORD (none, two, or magic 0 or 1)
                                           CORRUPT_MESSAGE (no such length or magic)
                                           bytes of a further batch that is cut off are dropped
    zstd before Produce v7 ............... UNSUPPORTED_COMPRESSION_TYPE
    base offset is 0 ..................... INVALID_RECORD
    max.message.bytes .................... MESSAGE_TOO_LARGE
    CRC-32C .............................. CORRUPT_MESSAGE
    codec known .......................... UNSUPPORTED_COMPRESSION_TYPE (Kafka: UNKNOWN_SERVER_ERROR)
    count, offsets, no control batch,
    sequence with a producer id .......... INVALID_RECORD
    records unpack ....................... CORRUPT_MESSAGE (Kafka: UNKNOWN_SERVER_ERROR)
                                           MESSAGE_TOO_LARGE (too much for memory)
    max.decompressed.message.bytes ....... INVALID_RECORD (a record of a compressed batch)
    every record follows the format ...... INVALID_RECORD
    keys on a compacted topic ............ INVALID_RECORD, with the records named
    timestamps in range .................. INVALID_TIMESTAMP, with the records named
    size after recompression ............. MESSAGE_TOO_LARGE

We are stricter where Kafka lets a batch into its log that readers stumble over: offset deltas must be 0, 1,
2 ... without compression too, sizes below -1 are no nulls, and a record's own size must be right inside a
compressed batch.

An uncompressed batch is checked where it lies and passed on as the same bytes, with the header's maximum
timestamp put right if it lied. A compressed one is unpacked once, to be looked at, and passed on packed.
Only a topic whose `compression.type` differs from the batch's codec makes a new batch of the same records.

What is large, packed or unpacked, is not checked at once: `LargeBatchError` asks for a thread, which may take
as long as it likes. All that takes time here lets other threads run.
"""

import contextlib
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.large_memory import LARGE_BYTES
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, UNPACKED_BYTES_MAX, BatchHeader
from headrace.records.codecs import Codec, UnpackedTooLargeError, compress, decompress, unpack_start
from headrace.records.header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL,
    LENGTH_OFFSET,
    LOG_APPEND_TIME,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    join_batch,
    read_header,
    stamp_timestamp,
)
from headrace.records.kernels.choice import decode_spans, kernels
from headrace.records.kernels.produce import RunHead
from headrace.records.kernels.records import RecordFlaw, flaw_text
from headrace.records.varints import read_varint
from headrace.settings.topic import TopicConfig
from headrace.wire.schemas.produce import ZSTD_SINCE

# Kafka's smallest size of any format: below it a length is no length.
_OLDEST_RECORD_BYTES: Final = 14
_UP_TO_MAGIC_BYTES: Final = 17
# What unpacks to more than LARGE_BYTES is first looked at by its start: a bomb costs no more than that.
_START_BYTES: Final = 64 * 1024
# Kafka unpacks a batch record by record and has no limit on its whole. Here it is unpacked into memory: to
# UNPACKED_BYTES_MAX, or to so many times the largest batch that the topic takes.
_UNPACKED_RATIO: Final = 8
_VARINT_BYTES_MAX: Final = 5
# A reply names this many bad records: one batch can hold a hundred thousand.
RECORD_ERRORS_MAX: Final = 1000

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class InvalidRecords(ApiError):  # noqa: N818 - named for what it carries
    """Single records were refused: (index in the batch, why) for each, of the first RECORD_ERRORS_MAX."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class LargeBatchError(Exception):
    """To check this batch takes long: it is for a thread."""

    def __init__(self, rules: "ValidationRules") -> None:
        super().__init__("the batch is too large to be checked at once")
        self.rules = rules


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """What a topic's settings ask of a batch."""

    max_message_bytes: int = 1_048_588
    codec: int | None = None  # None keeps the producer's
    level: int | None = None
    keys_needed: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX
    decompressed_message_bytes_max: int = 2_147_483_639

    @classmethod
    def from_config(cls, config: TopicConfig) -> "ValidationRules":
        codec = _CODECS.get(config.compression_type)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        return cls(
            max_message_bytes=config.max_message_bytes,
            codec=codec,
            level=None if codec is None else levels.get(codec),
            keys_needed=config.compacts,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            unpacked_bytes_max=max(UNPACKED_BYTES_MAX, _UNPACKED_RATIO * config.max_message_bytes),
            decompressed_message_bytes_max=config.max_decompressed_message_bytes,
        )

    def takes(self, run: RunHead, now_ms: int) -> bool:
        """Whether a run of plain batches may be written as it is; where not, each of them must be asked."""
        return (
            run.batch_bytes_max <= self.max_message_bytes
            and not self.log_append_time
            and not self.codec
            and not (self.keys_needed and run.null_keys)
            and now_ms - run.min_timestamp <= self.timestamp_before_max_ms
            and run.max_timestamp - now_ms <= self.timestamp_after_max_ms
        )


class ProducedBatch(NamedTuple):
    """A batch fit for the log; `header` is that of `buffer`. Offset and leader epoch are not stamped yet."""

    header: BatchHeader
    buffer: bytearray | memoryview
    max_timestamp: int
    offset_of_max_timestamp: int  # counted from the batch's first record; -1 where no record has a timestamp
    record_count: int


def validate_produced(
    buffer: Buffer, *, rules: ValidationRules, now_ms: int, api_version: int, at_once: bool = True
) -> ProducedBatch:
    """The batch of one partition of a Produce request, fit to be appended; ApiError where it is not.

    With `at_once` nothing is done that takes long, and LargeBatchError is raised instead.
    """
    view = memoryview(buffer)
    if len(view) < HEADER_BYTES:
        view = _one_batch(view, api_version)
    header = read_header(view)
    _, length, _, magic, _, attributes, _, base_timestamp, header_timestamp, _, _, _, count = header
    if length + LOG_OVERHEAD != len(view) or magic != MAGIC:
        view = _one_batch(view, api_version)
    _check_header(header, view, rules, api_version, at_once)
    codec = attributes & CODEC_MASK
    records: Buffer = view[HEADER_BYTES:]
    if codec:
        records = _unpack(codec, records, header, rules, at_once)
    flaw, index, max_timestamp, max_index, min_timestamp, null_keys = kernels.scan_records(
        records, count, base_timestamp
    )
    if flaw:
        raise _invalid(flaw_text(flaw, index))
    if (
        (null_keys and rules.keys_needed)
        or attributes & LOG_APPEND_TIME
        or now_ms - min_timestamp > rules.timestamp_before_max_ms
        or max_timestamp - now_ms > rules.timestamp_after_max_ms
    ):
        _check_each(records, header, rules, now_ms)
    if rules.log_append_time:
        max_timestamp, max_index = now_ms, 0
    if rules.codec is not None and rules.codec != codec:
        batch: bytearray | memoryview = _repack(records, header, rules, max_timestamp)
        header = read_header(batch)
    else:
        batch = memoryview(bytearray(view)) if view.readonly else view
        if max_timestamp != header_timestamp or (attributes & LOG_APPEND_TIME != 0) != rules.log_append_time:
            stamp_timestamp(batch, 0, max_timestamp=max_timestamp, append_time=rules.log_append_time)
            header = read_header(batch)
    return ProducedBatch(header, batch, max_timestamp, max_index, count)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)


def _too_large(size: int, rules: ValidationRules) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {size} bytes is above the topic's max.message.bytes, {rules.max_message_bytes}",
    )


def _one_batch(view: memoryview, api_version: int) -> memoryview:
    """The only batch of bytes that are not simply one batch; what is cut off behind it is left out."""
    size = _batch_size(view)
    if size is None:
        raise _invalid("a produced partition must hold a whole batch")
    if view[MAGIC_OFFSET] != MAGIC:
        raise _invalid(f"Produce v{api_version} takes batches of magic {MAGIC}, not {view[MAGIC_OFFSET]}")
    _check_zstd(view[ATTRIBUTES_OFFSET + 1], api_version)
    if _batch_size(view[size:]) is not None:
        raise _invalid("a produced partition must hold one batch only")
    if size < HEADER_BYTES:
        raise _corrupt(f"a batch of {size} bytes is smaller than its header")
    return view[:size]


def _batch_size(view: memoryview) -> int | None:
    """The size of the batch at the start, by the rules of all formats; None where it is cut off."""
    if len(view) < LOG_OVERHEAD:
        return None
    length = int.from_bytes(view[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
    if length < _OLDEST_RECORD_BYTES:
        raise _corrupt(f"a batch cannot be {length} bytes long")
    if len(view) < _UP_TO_MAGIC_BYTES:
        return None
    if view[MAGIC_OFFSET] > MAGIC:
        raise _corrupt(f"there is no batch of magic {view[MAGIC_OFFSET]}")
    return None if length + LOG_OVERHEAD > len(view) else length + LOG_OVERHEAD


def _check_zstd(attributes: int, api_version: int) -> None:
    if attributes & CODEC_MASK == Codec.ZSTD and api_version < ZSTD_SINCE:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{api_version} does not know zstd")


def _check_header(
    header: BatchHeader, view: memoryview, rules: ValidationRules, api_version: int, at_once: bool
) -> None:
    base_offset, length, _, _, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = header
    if attributes & CODEC_MASK:
        _check_zstd(attributes, api_version)
    if base_offset != 0:
        raise _invalid(f"a produced batch starts at offset 0, not {base_offset}")
    if length + LOG_OVERHEAD > rules.max_message_bytes:
        raise _too_large(length + LOG_OVERHEAD, rules)
    if length > LARGE_BYTES and at_once:
        raise LargeBatchError(rules)
    if crc32c(view[ATTRIBUTES_OFFSET:]) != crc:
        raise _corrupt("the batch's CRC-32C does not match its bytes")
    if attributes & CODEC_MASK > Codec.ZSTD:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        raise ApiError(code, f"there is no codec {attributes & CODEC_MASK}")
    if count <= 0 or last_delta != count - 1:
        raise _invalid(f"a batch of {count} records cannot end {last_delta} offsets behind its first")
    if attributes & CONTROL:
        raise _invalid("a client cannot write control batches")
    if producer_id >= 0 and sequence < 0:
        raise _invalid(f"producer {producer_id} sent a batch of sequence {sequence}")


def _unpack(codec: int, packed: Buffer, header: BatchHeader, rules: ValidationRules, at_once: bool) -> Buffer:
    record_bytes_max = rules.decompressed_message_bytes_max
    # So much is there at most where no record is too large: a bomb need not be unpacked to be told.
    honest_bytes = header.record_count * (record_bytes_max + _VARINT_BYTES_MAX)
    limit_bytes = min(rules.unpacked_bytes_max, honest_bytes)
    try:
        try:
            records = decompress(codec, packed, limit_bytes=min(LARGE_BYTES, limit_bytes))
        except UnpackedTooLargeError:
            _check_start(unpack_start(codec, packed, _START_BYTES), header)
            if limit_bytes <= LARGE_BYTES:
                raise
            if at_once:
                raise LargeBatchError(rules) from None
            records = decompress(codec, packed, limit_bytes=limit_bytes)
    except UnpackedTooLargeError as error:
        if honest_bytes < rules.unpacked_bytes_max:
            raise _record_too_large(record_bytes_max) from None
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except InvalidBytesError as error:
        raise _corrupt(str(error)) from None
    if len(records) > record_bytes_max:
        _check_record_sizes(records, header.record_count, record_bytes_max)
    return records


def _record_too_large(limit_bytes: int) -> ApiError:
    return _invalid(
        f"a record unpacks to more than the topic's max.decompressed.message.bytes, {limit_bytes}"
    )


def _check_record_sizes(records: Buffer, count: int, limit_bytes: int) -> None:
    """Refuse a record above the limit. What is no record at all is told by whoever scans them."""
    at = 0
    with contextlib.suppress(InvalidBytesError):
        for _ in range(count):
            size, at = read_varint(records, at)
            if size > limit_bytes:
                raise _record_too_large(limit_bytes)
            at += max(size, 0)


def _check_start(start: Buffer, header: BatchHeader) -> None:
    """Refuse by its first bytes what is no batch, before much is paid for the rest."""
    flaw, index, *_ = kernels.scan_records(start, header.record_count, header.base_timestamp)
    if flaw not in (RecordFlaw.NONE, RecordFlaw.CUT_OFF):
        raise _invalid(flaw_text(flaw, index))


def _check_each(records: Buffer, header: BatchHeader, rules: ValidationRules, now_ms: int) -> None:
    """Name the records that the topic does not take; a timestamp among the reasons decides the code."""
    count = header.record_count
    spans = decode_spans(records, count, base_offset=0, base_timestamp=header.base_timestamp)
    errors = []
    code = ErrorCode.INVALID_RECORD
    for index in range(count):
        if rules.keys_needed and spans.key_size[index] < 0:
            errors.append((index, "a compacted topic takes no record without a key"))
        elif fault := _timestamp_fault(spans.timestamps[index], header, rules, now_ms):
            errors.append((index, fault))
            code = ErrorCode.INVALID_TIMESTAMP
        if len(errors) == RECORD_ERRORS_MAX:
            break
    if errors:
        first, why = errors[0]
        raise InvalidRecords(code, f"records were refused, the first of them record {first}: {why}", errors)


def _timestamp_fault(timestamp: int, header: BatchHeader, rules: ValidationRules, now_ms: int) -> str:
    if header.log_append_time and (rules.log_append_time or header.max_timestamp == NO_TIMESTAMP):
        return "a producer cannot set the log's append time"
    if rules.log_append_time or timestamp == NO_TIMESTAMP:
        return ""
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    if earliest <= timestamp <= latest:
        return ""
    return f"its timestamp {timestamp} is not between {earliest} and {latest}"


def _repack(records: Buffer, header: BatchHeader, rules: ValidationRules, max_timestamp: int) -> bytearray:
    """The same records under the topic's codec. Producer, sequence and timestamps stay as they were."""
    assert rules.codec is not None, "only a topic with a codec of its own has batches repacked"
    attributes = (
        rules.codec | header.attributes & TRANSACTIONAL | (LOG_APPEND_TIME if rules.log_append_time else 0)
    )
    body = compress(rules.codec, records, rules.level)
    if HEADER_BYTES + len(body) > rules.max_message_bytes:
        raise _too_large(HEADER_BYTES + len(body), rules)
    return join_batch(header._replace(attributes=attributes, max_timestamp=max_timestamp), body)
