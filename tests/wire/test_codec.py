"""What the codecs promise beyond equal bytes: no copies of records, and refusals that name the field."""

import sys
import traceback
from typing import Any

import pytest

from headrace.base.chunks import Chunk, FileSlice
from headrace.base.errors import InvalidBytesError
from headrace.wire import primitives
from headrace.wire.codec import (
    ArrayWriter,
    UnsupportedVersion,
    decode,
    encode,
    encode_chunks,
    join_chunks,
    reader,
    writer,
)
from headrace.wire.primitives import SMALL_CHUNK_BYTES
from headrace.wire.schemas.api_versions import ApiVersionsResponse
from headrace.wire.schemas.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schemas.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from headrace.wire.schemas.heartbeat import HeartbeatRequest
from headrace.wire.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.schemas.produce import (
    LeaderIdAndEpoch as ProduceLeader,
)
from headrace.wire.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

LARGE = SMALL_CHUNK_BYTES + 1


class MemoryFile:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def fileno(self) -> int:
        raise AssertionError("nobody asked for a real file")

    def read(self, position: int, count: int) -> bytes:
        return self.content[position : position + count]


def fetched(records: Chunk | list[Chunk] | None) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse("t", bytes(16), [PartitionData(records=records)])])


def read_back(chunks: list[Chunk], version: int) -> Any:
    joined = b"".join(chunk.read() if isinstance(chunk, FileSlice) else chunk for chunk in chunks)
    return decode(FetchResponse, version, joined).responses[0].partitions[0].records


class TestRecords:
    def test_reading_gives_a_view_of_the_frame(self) -> None:
        topics = [TopicProduceData("t", bytes(16), [PartitionProduceData(0, b"batch")])]
        frame = bytearray(encode(ProduceRequest(topic_data=topics), 9))
        records = decode(ProduceRequest, 9, memoryview(frame)).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        records[0:1] = b"B"
        assert b"Batch" in frame

    @pytest.mark.parametrize("version", [4, 11, 12, 18])
    def test_large_chunks_are_not_copied(self, version: int) -> None:
        batch = bytearray(b"x" * LARGE)
        view = memoryview(batch)
        part = FileSlice(MemoryFile(b"0123456789" * 1000), 10, 5000)
        chunks = encode_chunks(fetched([view, part]), version)
        assert chunks[1] is view
        assert chunks[2] is part
        assert read_back(chunks, version) == bytes(batch) + part.read()
        assert encode_chunks(fetched(part), version)[1] is part
        assert encode_chunks(fetched(view), version)[1] is view

    @pytest.mark.parametrize("version", [4, 18])
    def test_small_chunks_join_their_neighbours(self, version: int) -> None:
        chunks = encode_chunks(fetched([b"ab", bytearray(b"cd"), memoryview(b"ef")]), version)
        assert len(chunks) == 1
        assert read_back(chunks, version) == b"abcdef"

    def test_bytes_around_records_are_joined(self) -> None:
        chunks = encode_chunks(fetched(b"x" * LARGE), 18)
        assert [type(chunk) for chunk in chunks] == [bytes, bytes, bytes]
        assert len(chunks[1]) == LARGE

    @pytest.mark.parametrize("records", [None, b"", []])
    def test_none_and_nothing(self, records: Chunk | list[Chunk] | None) -> None:
        for version in (4, 18):
            found = read_back(encode_chunks(fetched(records), version), version)
            assert found is None if records is None else found == b""

    def test_encode_reads_slices_of_files(self) -> None:
        part = FileSlice(MemoryFile(b"0123456789" * 1000), 5, 5000)
        assert encode(fetched(part), 18) == encode(fetched(part.read()), 18)


class TestVersions:
    def test_unknown_versions_are_refused(self) -> None:
        for version in (-1, 2, 14, 99):
            with pytest.raises(UnsupportedVersion, match="ProduceRequest has versions 3 to 13"):
                decode(ProduceRequest, version, b"")
            with pytest.raises(UnsupportedVersion):
                encode(ProduceRequest(), version)
        assert issubclass(UnsupportedVersion, InvalidBytesError)

    def test_a_value_without_a_field_is_refused(self) -> None:
        partition = FetchPartition(last_fetched_epoch=3)
        message = FetchRequest(topics=[FetchTopic("t", bytes(16), [partition])])
        assert encode(message, 12)
        with pytest.raises(
            UnsupportedVersion, match=r"FetchPartition\.last_fetched_epoch is set, but version 11"
        ):
            encode(message, 11)

    def test_an_ignorable_value_is_dropped(self) -> None:
        message = FetchRequest(rack_id="here")
        assert decode(FetchRequest, 11, encode(message, 11)).rack_id == "here"
        assert decode(FetchRequest, 10, encode(message, 10)).rack_id == ""

    def test_a_tagged_struct_is_refused_where_it_cannot_go_unless_it_is_all_defaults(self) -> None:
        assert encode(FetchRequest(replica_state=ReplicaState()), 4) == encode(FetchRequest(), 4)
        with pytest.raises(UnsupportedVersion, match="replica_state"):
            encode(FetchRequest(replica_state=ReplicaState(7, 8)), 14)

    def test_absent_fields_are_read_as_defaults(self) -> None:
        message = decode(FetchRequest, 4, encode(FetchRequest(), 4))
        assert message == FetchRequest()
        assert message.forgotten_topics_data == []
        assert message.forgotten_topics_data is not FetchRequest().forgotten_topics_data


class TestTaggedStructs:
    def test_none_is_left_out(self) -> None:
        response = ProduceResponse([TopicProduceResponse("t", bytes(16), [PartitionProduceResponse(1)])])
        data = encode(response, 10)
        found = decode(ProduceResponse, 10, data).responses[0].partition_responses[0]
        assert found.current_leader is None
        response.responses[0].partition_responses[0].current_leader = ProduceLeader()
        assert encode(response, 10) == data
        response.responses[0].partition_responses[0].current_leader = ProduceLeader(5, 6)
        assert decode(ProduceResponse, 10, encode(response, 10)) == response

    def test_tags_in_inner_structs(self) -> None:
        leader = LeaderIdAndEpoch(1, 2)
        partition = PartitionData(current_leader=leader, records=b"")
        response = FetchResponse(responses=[FetchableTopicResponse("t", bytes(16), [partition] * 2)])
        assert decode(FetchResponse, 12, encode(response, 12)) == response

    def test_a_nullable_struct(self) -> None:
        for assignment in (None, Assignment()):
            response = ConsumerGroupHeartbeatResponse(assignment=assignment)
            assert decode(ConsumerGroupHeartbeatResponse, 0, encode(response, 0)) == response


class TestRefusals:
    """A value that the wire cannot hold is named with its path."""

    @pytest.mark.parametrize(
        ("message", "version", "said"),
        [
            (HeartbeatRequest(group_id=None), 4, "group_id is None"),  # type: ignore[arg-type]
            (HeartbeatRequest(generation_id=1 << 31), 4, "generation_id is 2147483648, which is no int32"),
            (HeartbeatRequest(generation_id=None), 0, "generation_id is None"),  # type: ignore[arg-type]
            (HeartbeatRequest(group_id=b"g"), 0, "group_id is b'g' instead of a str"),  # type: ignore[arg-type]
            (HeartbeatRequest(group_id="\ud800"), 0, "not valid Unicode"),
            (MetadataRequest(topics=None), 0, "topics is None"),
            (MetadataRequest([MetadataRequestTopic(name=None)]), 9, r"topics\[0\]\.name is None"),
            (MetadataRequest(["t"]), 9, r"topics\[0\] is 't' instead of a MetadataRequestTopic"),  # type: ignore[list-item]
            (FetchTopic("t"), 4, "not a message"),
            (fetched("text"), 4, "records is 'text', not bytes"),  # type: ignore[arg-type]
            (
                CreateTopicsRequest([CreatableTopic(replication_factor=40000)]),
                5,
                r"topics\[0\]\.replication_factor",
            ),
            (ProduceRequest(topic_data=7), 9, "topic_data is 7 instead of a list"),  # type: ignore[arg-type]
        ],
    )
    def test_the_field_is_named(self, message: object, version: int, said: str) -> None:
        with pytest.raises((InvalidBytesError, TypeError), match=said):
            encode(message, version)

    def test_a_uuid_of_another_size_is_refused(self) -> None:
        topics = [TopicProduceData(topic_id=b"short")]
        with pytest.raises(InvalidBytesError, match=r"TopicProduceData\.topic_id has 5 bytes"):
            encode(ProduceRequest(topic_data=topics), 13)

    def test_a_length_that_no_length_can_say(self) -> None:
        with pytest.raises(InvalidBytesError):
            encode(fetched(FileSlice(MemoryFile(b""), 0, 1 << 31)), 18)
        with pytest.raises(InvalidBytesError):
            encode(fetched(FileSlice(MemoryFile(b""), 0, 1 << 31)), 4)


def test_compiled_functions_are_kept() -> None:
    assert reader(HeartbeatRequest, 3) is reader(HeartbeatRequest, 3)
    assert writer(HeartbeatRequest, 3) is writer(HeartbeatRequest, 3)


def test_tracebacks_show_generated_lines() -> None:
    try:
        decode(ApiVersionsResponse, 0, b"\0")
    except InvalidBytesError:
        shown = "".join(traceback.format_exception(*sys.exc_info()))
    assert "unpack_" in shown
    assert "headrace codec: read ApiVersionsResponse v0" in shown


@pytest.mark.parametrize("version", range(14))
def test_an_array_of_elements_that_were_written_before_is_the_same_message(version: int) -> None:
    topics = [
        MetadataResponseTopic(name=f"t{number}", partitions=[MetadataResponsePartition(leader_id=number)])
        for number in range(200)
    ]
    array = ArrayWriter(MetadataResponse, version, "topics")
    elements = [array.element(topic) for topic in topics]
    for count in (0, 1, 200):
        whole = MetadataResponse(brokers=[MetadataResponseBroker(1, "h", 2)], cluster_id="c", error_code=0)
        written = array.message(whole, elements[:count])
        whole.topics = topics[:count]
        assert join_chunks(written) == encode(whole, version)
    large = array.element(MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()] * 2_000))
    chunks = array.message(MetadataResponse(), [elements[0], large, elements[1]])
    assert chunks[1] is large, "not copied"
    assert len(chunks) == 3


def test_an_element_that_does_not_fit_its_version_is_refused() -> None:
    array = ArrayWriter(MetadataResponse, 1, "topics")
    with pytest.raises(InvalidBytesError, match="topics"):
        array.element(MetadataResponseTopic(name=None))


def test_pieces_are_folded_as_they_come():
    """What a long message leaves to be joined in the end is little, however many elements it has."""
    parts = []
    for _ in range(1_000):
        parts += [b"sixteen bytes it"] * primitives.SLICE_ELEMENTS
        primitives.fold_pieces(parts)
    assert len(parts) <= 1 + 16 * primitives.SLICE_ELEMENTS * 1_000 // primitives.FOLDED_BYTES_MIN
    assert b"".join(parts) == b"sixteen bytes it" * primitives.SLICE_ELEMENTS * 1_000
