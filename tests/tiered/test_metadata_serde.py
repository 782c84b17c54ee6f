"""Remote segments as records."""

from dataclasses import replace

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.tiered.metadata_serde import decode_record, encode_record, metadata_partition_of
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from headrace.wire.record_frames import encode_metadata_record
from headrace.wire.schemas.remote_log_records import (
    RemoteLogSegmentMetadataRecord,
    RemotePartitionDeleteMetadataRecord,
)
from tests.tiered.building import PARTITION, remote_segment


@pytest.mark.parametrize("custom", [None, b"", b"note"])
@pytest.mark.parametrize("has_aborted", [True, False])
def test_a_segment_comes_back_whole(custom: bytes | None, has_aborted: bool) -> None:
    segment = replace(
        remote_segment(1, 5, 99, (3, 5), (4, 60)), custom_metadata=custom, has_aborted=has_aborted
    )
    assert decode_record(encode_record(segment)) == segment


@pytest.mark.parametrize("state", list(RemoteLogSegmentState))
def test_an_update_comes_back_whole(state: RemoteLogSegmentState) -> None:
    update = RemoteLogSegmentMetadataUpdate(PARTITION, b"s" * 16, state, 2, 77, b"note")
    assert decode_record(encode_record(update)) == update


def test_what_says_nothing_of_a_segment_is_passed_over() -> None:
    assert decode_record(encode_metadata_record(RemotePartitionDeleteMetadataRecord())) is None


def test_what_cannot_be_a_segment_is_refused() -> None:
    with pytest.raises(InvalidBytesError, match="without epochs"):
        decode_record(encode_metadata_record(RemoteLogSegmentMetadataRecord()))
    with pytest.raises(InvalidBytesError):
        decode_record(encode_metadata_record(RemoteLogSegmentMetadataRecord(remote_log_segment_state=9)))
    with pytest.raises(InvalidBytesError):
        decode_record(b"\x01")


@pytest.mark.parametrize(
    ("topic_id", "number", "home"),
    [
        ("9bFlIkpYt5HfavHYMD5hzQ", 97, 30),
        ("0cQnEDw0TEGJ6y8ee9XUfg", 97, 3),
        ("o9gRc2EQ5XgbzM6mlnYuYQ", 26, 12),
        ("jC4HGIIs5Hyox0EH5myw5A", 49, 21),
        ("htLJbnYOgZuFySTDWXFkxA", 0, 39),
    ],
)
def test_a_partition_is_at_home_where_kafka_looks_for_it(topic_id: str, number: int, home: int) -> None:
    """As RemoteLogMetadataTopicPartitioner of 4.3.1 says."""
    partition = TopicIdPartition(TopicId(uuid_bytes(topic_id)), TopicPartition("any", number))
    assert metadata_partition_of(partition, 50) == home


def test_bytes_are_those_of_kafka() -> None:
    """As RemoteLogMetadataSerde of 4.3.1 writes them."""
    started = remote_segment(1, 5, 99, (3, 5), (4, 60), state=RemoteLogSegmentState.COPY_STARTED)
    assert encode_record(started).hex() == (
        "01000005726f7773000102030405060708090a0b0c0d0e0f0000000300000000000000000000000000000000010000"
        "0000000000000500000000000000630000000100000000000003e800000000000000050300000003000000000000000"
        "50000000004000000000000003c0000000064000000"
    )
    update = RemoteLogSegmentMetadataUpdate(PARTITION, b"s" * 16, RemoteLogSegmentState.DELETE_STARTED, 2, 77)
    assert encode_record(update).hex() == (
        "01010005726f7773000102030405060708090a0b0c0d0e0f00000003007373737373737373737373737373737300000"
        "00002000000000000004d000200"
    )
