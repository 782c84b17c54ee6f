"""Records say what they are: by a frame, or by the number in front of key and value."""

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.wire.codec import encode
from headrace.wire.record_frames import (
    GROUP,
    METADATA,
    REMOTE_LOG,
    SHARE,
    TRANSACTION,
    UnknownRecordError,
    decode_key,
    decode_metadata_record,
    decode_value,
    decode_versioned,
    encode_key,
    encode_metadata_record,
    encode_value,
    encode_versioned,
)
from headrace.wire.schemas.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from headrace.wire.schemas.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from headrace.wire.schemas.metadata_records import PartitionRecord, TopicRecord

from .messages import MESSAGES_BY_NAME, Randomizer, messages_of, versions_of


@pytest.mark.parametrize("family", [METADATA, REMOTE_LOG], ids=lambda family: family[0])
def test_framed_records_come_back(family: tuple[str, ...]) -> None:
    for stem in family:
        for cls in messages_of(stem):
            for version in versions_of(cls):
                record = Randomizer(f"{cls.__name__} {version}").message(cls, version)
                value = encode_metadata_record(record, version)
                assert value[:3] == bytes((1, cls.__schema__.api_key, version))
                assert decode_metadata_record(value, family) == record


def test_the_highest_version_is_the_default() -> None:
    assert encode_metadata_record(PartitionRecord())[:3] == bytes((1, 3, 2))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"", InvalidBytesError),
        (b"\x01\x02", InvalidBytesError),
        (b"\x02\x02\x00", UnknownRecordError),
        (b"\x01\x7f\x00", UnknownRecordError),
        (b"\x01\x02\x09", InvalidBytesError),
        (encode_metadata_record(TopicRecord("t")) + b"\0", InvalidBytesError),
        (encode_metadata_record(TopicRecord("t"))[:-1], InvalidBytesError),
    ],
)
def test_malformed_frames_are_refused(value: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_metadata_record(value)


@pytest.mark.parametrize("family", [GROUP, TRANSACTION, SHARE], ids=lambda family: family[0])
def test_coordinator_records_come_back(family: tuple[str, ...]) -> None:
    keys = [cls for stem in family for cls in messages_of(stem) if cls.__name__.endswith("Key")]
    assert len({cls.__schema__.api_key for cls in keys}) == len(keys)
    for cls in keys:
        key = Randomizer(cls.__name__).message(cls, 0)
        data = encode_key(key)
        assert data[:2] == cls.__schema__.api_key.to_bytes(2, "big")
        assert decode_key(data, family) == key
        value_class = MESSAGES_BY_NAME[cls.__name__.removesuffix("Key") + "Value"]
        for version in versions_of(value_class):
            value = Randomizer(f"{value_class.__name__} {version}").message(value_class, version)
            written = encode_value(value, version)
            assert written[:2] == version.to_bytes(2, "big")
            assert decode_value(key, written, family) == value
        assert decode_value(key, None, family) is None


def test_a_key_as_kafka_writes_it() -> None:
    assert encode_key(OffsetCommitKey("g", "t", 1)) == b"\0\1" + b"\0\1g\0\1t\0\0\0\1"
    assert encode_value(OffsetCommitValue(5))[:2] == b"\0\4"


def test_unknown_kinds_are_told_from_broken_bytes() -> None:
    with pytest.raises(UnknownRecordError):
        decode_key(b"\x03\xe7abc")
    for key in (b"", b"\0", b"\0\1\0"):
        with pytest.raises(InvalidBytesError):
            decode_key(key)
    for value in (b"", b"\0", b"\0\x63abc"):
        with pytest.raises(InvalidBytesError):
            decode_value(GroupMetadataKey("g"), value)


def test_the_consumer_protocol_is_read_by_older_consumers() -> None:
    subscription = ConsumerProtocolSubscription(["a"], b"data", generation_id=3)
    newest = versions_of(ConsumerProtocolSubscription)[-1]
    data = encode_versioned(subscription, newest)
    assert decode_versioned(ConsumerProtocolSubscription, data) == subscription
    newer = (newest + 5).to_bytes(2, "big") + encode(subscription, newest) + b"more"
    assert decode_versioned(ConsumerProtocolSubscription, newer, take_newer=True) == subscription
    with pytest.raises(InvalidBytesError):
        decode_versioned(ConsumerProtocolSubscription, newer)
    with pytest.raises(InvalidBytesError):
        decode_versioned(ConsumerProtocolAssignment, b"\xff\xff", take_newer=True)
