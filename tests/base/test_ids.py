"""Ids, chunks and error codes: the words every room uses."""

from random import Random

import pytest

from headrace.base.chunks import FileSlice, chunks_size
from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicPartition, new_uuid, uuid_bytes, uuid_text


class _File:
    """Bytes behind the face that replies know."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fileno(self) -> int:
        raise OSError("a file in memory has no descriptor")

    def read(self, position: int, count: int) -> bytes:
        return self._data[position : position + count]


def test_a_uuid_is_printed_as_kafka_prints_it() -> None:
    raw = bytes.fromhex("30353738454130353730353244343336")
    assert uuid_text(raw) == "MDU3OEVBMDU3MDUyRDQzNg"
    assert uuid_bytes("MDU3OEVBMDU3MDUyRDQzNg") == raw
    assert uuid_text(NO_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "short", "A" * 23, "A" * 40])
def test_what_is_not_16_bytes_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID"):
        uuid_bytes(text)


def test_a_partition_is_named_as_its_folder() -> None:
    assert str(TopicPartition("page-views", 3)) == "page-views-3"


def test_a_slice_counts_as_its_bytes() -> None:
    part = FileSlice(_File(b"0123456789"), 2, 5)
    assert part.read() == b"23456"
    assert chunks_size([b"ab", part, memoryview(b"xyz")]) == 10


def test_an_error_says_its_name_where_nobody_says_more() -> None:
    assert ApiError(ErrorCode.NOT_CONTROLLER).message == "NOT_CONTROLLER"
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in RETRIABLE
    assert ErrorCode.INVALID_TOPIC_EXCEPTION not in RETRIABLE


def test_ids_are_random_uuids_that_no_command_line_takes_for_a_flag() -> None:
    rng = Random(1)
    ids = [new_uuid(rng) for _ in range(500)]
    assert len(set(ids)) == 500
    assert not any(uuid_text(topic_id).startswith("-") for topic_id in ids)
    assert {topic_id[6] >> 4 for topic_id in ids} == {4}
    assert {topic_id[8] >> 6 for topic_id in ids} == {2}
