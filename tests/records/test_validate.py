"""What validation does to a batch that it lets through, and what hostile ones cost."""

import zlib
from dataclasses import replace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.large_memory import LARGE_BYTES
from headrace.records.batch import Codec, Record, build_batch, crc_matches, read_header, read_records, stamp
from headrace.records.codecs import compress
from headrace.records.validate import (
    RECORD_ERRORS_MAX,
    InvalidRecords,
    LargeBatchError,
    ProducedBatch,
    ValidationRules,
    validate_produced,
)
from headrace.settings.topic import TopicConfig
from tests.records.raw_batches import NOW_MS, raw_batch, raw_record

RULES = ValidationRules()
ROWS = [
    Record(0, NOW_MS, b"a", b"x" * 200),
    Record(1, NOW_MS + 7, b"b", b"x" * 200, (("h", b"v"), ("n", None))),
    Record(2, NOW_MS + 7, b"c", None),
    Record(3, NOW_MS - 3, None, b""),
]


def validate(
    batch: bytes | bytearray | memoryview,
    rules: ValidationRules = RULES,
    *,
    api_version: int = 9,
    at_once: bool = True,
) -> ProducedBatch:
    return validate_produced(batch, rules=rules, now_ms=NOW_MS, api_version=api_version, at_once=at_once)


def refused(batch: bytes | bytearray, rules: ValidationRules = RULES, *, at_once: bool = True) -> ApiError:
    with pytest.raises(ApiError) as caught:
        validate(batch, rules, at_once=at_once)
    return caught.value


@pytest.mark.parametrize("codec", Codec)
def test_the_bytes_are_passed_on_where_they_lie(codec: Codec) -> None:
    frame = bytearray(b"request...") + build_batch(ROWS, codec=codec)
    before = bytes(frame)
    produced = validate(memoryview(frame)[10:])
    assert isinstance(produced.buffer, memoryview)
    assert bytes(frame) == before
    assert produced.header == read_header(frame, 10)
    assert (produced.max_timestamp, produced.offset_of_max_timestamp) == (NOW_MS + 7, 1)
    assert produced.record_count == 4
    stamp(produced.buffer, 0, base_offset=77, leader_epoch=3)
    assert read_header(frame, 10).base_offset == 77, "the caller's bytes, not a copy"


def test_read_only_bytes_are_copied() -> None:
    batch = bytes(build_batch(ROWS))
    produced = validate(batch)
    stamp(produced.buffer, 0, base_offset=5, leader_epoch=0)
    assert read_header(batch).base_offset == 0


def test_what_is_cut_off_behind_the_batch_is_left_out() -> None:
    batch = build_batch(ROWS)
    produced = validate(batch + batch[:50])
    assert bytes(produced.buffer) == batch


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("claimed", [-1, 0, NOW_MS + 10**9])
def test_a_wrong_maximum_timestamp_is_put_right(codec: Codec, claimed: int) -> None:
    body = bytes(compress(codec, raw_record(timestamp_delta=5)))
    produced = validate(raw_batch(body, attributes=codec, max_timestamp=claimed))
    header = read_header(produced.buffer)
    assert header == produced.header
    assert header.max_timestamp == produced.max_timestamp == NOW_MS + 5
    assert crc_matches(produced.buffer, 0, header)


def test_a_clients_append_time_is_taken_back() -> None:
    produced = validate(raw_batch(raw_record(timestamp_delta=5), attributes=0x48, max_timestamp=NOW_MS + 9))
    assert not produced.header.log_append_time
    assert produced.header.attributes == 0x40
    assert produced.header.max_timestamp == NOW_MS + 5
    assert crc_matches(produced.buffer, 0, produced.header)


@pytest.mark.parametrize("codec", Codec)
def test_append_time_is_stamped(codec: Codec) -> None:
    produced = validate(build_batch(ROWS, codec=codec), ValidationRules(log_append_time=True))
    assert produced.header.log_append_time
    assert (produced.max_timestamp, produced.offset_of_max_timestamp) == (NOW_MS, 0)
    assert crc_matches(produced.buffer, 0, produced.header)
    assert {record.timestamp for record in read_records(produced.buffer)} == {NOW_MS}


def test_records_without_timestamps() -> None:
    strict = ValidationRules(timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    produced = validate(build_batch([Record(0, -1), Record(0, -1)]), strict)
    assert (produced.max_timestamp, produced.offset_of_max_timestamp) == (-1, -1)


@pytest.mark.parametrize("sent", Codec)
@pytest.mark.parametrize("kept", Codec)
@pytest.mark.parametrize("append_time", [False, True])
def test_repacking_keeps_what_the_producer_said(sent: Codec, kept: Codec, append_time: bool) -> None:
    fields = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 40, "transactional": True}
    batch = build_batch(ROWS, codec=sent, **fields)  # type: ignore[arg-type]
    produced = validate(memoryview(batch), ValidationRules(codec=kept, log_append_time=append_time))
    header = produced.header
    assert header == read_header(produced.buffer)
    assert crc_matches(produced.buffer, 0, header)
    assert (header.codec, header.is_transactional, header.log_append_time) == (kept, True, append_time)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)
    assert header.max_timestamp == (NOW_MS if append_time else NOW_MS + 7)
    expected = [row._replace(timestamp=NOW_MS) for row in ROWS] if append_time else ROWS
    assert list(read_records(produced.buffer)) == expected
    if sent == kept and not append_time:
        assert bytes(produced.buffer) == batch


def test_repacking_drops_a_clients_delete_horizon() -> None:
    produced = validate(raw_batch(raw_record(), attributes=0x40), ValidationRules(codec=Codec.GZIP))
    assert produced.header.attributes == Codec.GZIP


def test_repacking_may_not_pass_the_size_limit() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", bytes(5000))], codec=Codec.GZIP)
    error = refused(batch, ValidationRules(codec=Codec.NONE, max_message_bytes=1000))
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE


def test_rules_of_a_topic() -> None:
    config = TopicConfig(
        compression_type="gzip",
        compression_gzip_level=9,
        cleanup_policy=frozenset({"compact", "delete"}),
        max_message_bytes=777,
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1,
        message_timestamp_after_max_ms=2,
    )
    assert ValidationRules.from_config(config) == ValidationRules(
        max_message_bytes=777,
        codec=Codec.GZIP,
        level=9,
        keys_needed=True,
        log_append_time=True,
        timestamp_before_max_ms=1,
        timestamp_after_max_ms=2,
    )
    assert ValidationRules.from_config(TopicConfig()) == RULES
    assert ValidationRules.from_config(TopicConfig(compression_type="uncompressed")).codec == Codec.NONE
    assert ValidationRules.from_config(TopicConfig(compression_type="snappy")).level is None


def test_levels_of_a_topic() -> None:
    rows = [Record(0, NOW_MS, b"%d" % (n * n), b"%d" % (n * n * n)) for n in range(3000)]
    sizes = [
        len(validate(build_batch(rows), ValidationRules(codec=Codec.GZIP, level=level)).buffer)
        for level in (1, 9)
    ]
    assert sizes[1] < sizes[0]


def test_bad_records_are_named_up_to_a_limit() -> None:
    rows = [Record(0, NOW_MS)] * (RECORD_ERRORS_MAX + 5)
    error = refused(build_batch(rows), ValidationRules(keys_needed=True))
    assert isinstance(error, InvalidRecords)
    assert error.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == list(range(RECORD_ERRORS_MAX))
    assert "record 0" in error.message


def test_timestamps_at_their_limits() -> None:
    rules = ValidationRules(timestamp_before_max_ms=10, timestamp_after_max_ms=20)
    for delta, good in ((-11, False), (-10, True), (20, True), (21, False)):
        batch = build_batch([Record(0, NOW_MS + delta)])
        if good:
            validate(batch, rules)
        else:
            error = refused(batch, rules)
            assert isinstance(error, InvalidRecords)
            assert error.code == ErrorCode.INVALID_TIMESTAMP
            assert str(NOW_MS + delta) in error.record_errors[0][1]


def gzip_zeros(mebibytes: int, start: bytes = b"") -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(start)]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(mebibytes)]
    return b"".join(parts) + packer.flush()


def test_a_bomb_of_zeros_is_no_batch() -> None:
    """256 MiB in 260 kB of gzip, as `checks/bad-input` sends it."""
    assert refused(raw_batch(gzip_zeros(256), attributes=Codec.GZIP)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_bombs_of_other_codecs(codec: Codec) -> None:
    body = bytes(compress(codec, bytes(32 << 20)))
    assert refused(raw_batch(body, attributes=codec)).code == ErrorCode.INVALID_RECORD


def test_one_honest_record_of_too_many_bytes() -> None:
    size = 9 << 20
    record = raw_record(value=bytes(size))
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        batch = raw_batch(bytes(compress(codec, record)), attributes=codec)
        tight = replace(RULES, unpacked_bytes_max=size)
        assert refused(batch, tight, at_once=False).code == ErrorCode.MESSAGE_TOO_LARGE
    batch = raw_batch(bytes(compress(Codec.GZIP, record)), attributes=Codec.GZIP)
    assert validate(batch, replace(RULES, unpacked_bytes_max=size + 100), at_once=False).record_count == 1


def test_one_record_of_60_mb_of_one_letter_passes() -> None:
    """As it does on Kafka, whose limit on a batch is about its packed size alone."""
    record = raw_record(value=b"a" * 60_000_000)
    batch = raw_batch(bytes(compress(Codec.ZSTD, record)), attributes=Codec.ZSTD)
    assert validate(batch, ValidationRules.from_config(TopicConfig()), at_once=False).record_count == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_large_is_not_checked_at_once(codec: Codec) -> None:
    """Packed or not: 2 MiB are, more are not, and nothing of it is changed."""
    rules = ValidationRules.from_config(TopicConfig(max_message_bytes=10_000_000))
    for size, is_large in ((LARGE_BYTES - 100, False), (LARGE_BYTES + 100, True)):
        body = bytes(compress(codec, raw_record(value=bytes(size))))
        batch = raw_batch(body, attributes=codec)
        before = bytes(batch)
        if is_large:
            with pytest.raises(LargeBatchError) as caught:
                validate(batch, rules)
            assert caught.value.rules is rules
            assert bytes(batch) == before
        else:
            assert validate(batch, rules).record_count == 1
        assert validate(batch, rules, at_once=False).record_count == 1


def test_what_is_large_and_too_large_is_refused_at_once() -> None:
    batch = raw_batch(raw_record(value=bytes(LARGE_BYTES + 100)))
    assert refused(batch).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_topic_of_large_batches_takes_what_they_unpack_to() -> None:
    rules = ValidationRules.from_config(TopicConfig(max_message_bytes=50_000_000))
    assert rules.unpacked_bytes_max == 400_000_000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_max_decompressed_message_bytes(codec: Codec) -> None:
    """It is about each record of a compressed batch, and about those alone."""
    rules = ValidationRules.from_config(TopicConfig(max_decompressed_message_bytes=512))
    small, large = raw_record(value=bytes(64)), raw_record(value=bytes(4096))
    assert validate(raw_batch(large), rules).record_count == 1
    packed = bytes(compress(codec, small))
    assert validate(raw_batch(packed, attributes=codec), rules).record_count == 1
    error = refused(raw_batch(bytes(compress(codec, large)), attributes=codec), rules)
    assert error.code == ErrorCode.INVALID_RECORD
    assert "max.decompressed.message.bytes, 512" in str(error)
    # Among small ones, in a batch that is not too large as a whole.
    rows = [Record(n, NOW_MS, None, bytes(700 if n == 7 else 10)) for n in range(20)]
    assert refused(build_batch(rows, codec=codec), rules).code == ErrorCode.INVALID_RECORD


def test_more_records_than_counted_are_seen_early() -> None:
    body = gzip_zeros(16, start=raw_record())
    assert refused(raw_batch(body, attributes=Codec.GZIP)).code == ErrorCode.INVALID_RECORD
