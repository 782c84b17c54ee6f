"""Headers and lengths around bodies, on both sides of a connection."""

import struct

import pytest

from headrace.base.chunks import Chunk
from headrace.base.errors import InvalidBytesError
from headrace.wire.apis import API, Api
from headrace.wire.codec import decode, encode, encode_chunks, join_chunks
from headrace.wire.framing import (
    RequestHeader,
    read_request_header,
    read_response,
    request_frame,
    response_correlation_id,
    response_frame,
)
from headrace.wire.primitives import uvarint
from headrace.wire.schemas import headers
from headrace.wire.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.wire.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse


def header(key: int, version: int, client: bytes = b"probe", client_bytes: int | None = None) -> bytes:
    size = len(client) if client_bytes is None else client_bytes
    return struct.pack(">hhih", key, version, 7, size) + client


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
@pytest.mark.parametrize("client_id", [None, "", "a client"])
def test_request_headers_follow_their_schema(api: Api, client_id: str | None) -> None:
    for version in range(api.min_version, api.max_version + 1):
        written = headers.RequestHeader(api.key, version, -5, client_id)
        data = encode(written, api.request_header_version(version))
        found = read_request_header(memoryview(data + b"body"))
        assert found == RequestHeader(api.key, version, -5, client_id, len(data))


def test_a_request_is_framed_and_found_again() -> None:
    for version in range(5):
        request = HeartbeatRequest("g", 1, "m")
        frame = join_chunks(request_frame(request, version, 99, "me"))
        assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
        body = memoryview(frame)[4:]
        found = read_request_header(body)
        assert found[:4] == (12, version, 99, "me")
        assert decode(HeartbeatRequest, version, body, found.body_at) == request


def test_a_response_is_framed_and_found_again() -> None:
    for version in range(5):
        response = HeartbeatResponse(error_code=27)
        chunks = response_frame(API[12], version, -2, encode_chunks(response, version))
        frame = join_chunks(chunks)
        assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
        assert len(chunks) == 1
        head = encode(headers.ResponseHeader(-2), API[12].response_header_version(version))
        assert frame[4:].startswith(head)
        assert response_correlation_id(frame[4:]) == -2
        assert read_response(HeartbeatResponse, version, frame[4:]) == response


def test_api_versions_keeps_its_first_response_header() -> None:
    for version in range(5):
        response = ApiVersionsResponse(error_code=35)
        frame = join_chunks(response_frame(API[18], version, 1, encode_chunks(response, version)))
        assert frame[8:] == encode(response, version)
        assert read_response(ApiVersionsResponse, version, frame[4:]) == response


def test_records_stay_chunks_behind_the_header() -> None:
    records: Chunk = memoryview(bytearray(100_000))
    partition = PartitionData(records=records)
    response = FetchResponse(responses=[FetchableTopicResponse("t", bytes(16), [partition])])
    chunks = response_frame(API[1], 12, 3, encode_chunks(response, 12))
    assert chunks[1] is records
    assert struct.unpack(">i", bytes(chunks[0][:4])) == (sum(map(len, chunks)) - 4,)  # type: ignore[index]


def test_a_large_body_is_not_copied() -> None:
    body = bytes(1_000_000)
    assert response_frame(API[3], 1, 3, [body])[1] is body


class TestHeadersOfStrangers:
    def test_any_negative_client_id_length_is_null(self) -> None:
        for size in (-1, -2, -32768):
            assert read_request_header(memoryview(header(18, 0, b"", size))).client_id is None

    def test_tagged_fields_of_the_header_are_skipped(self) -> None:
        data = header(12, 4) + b"\x02\x00\x03abc" + uvarint(300) + b"\0" + b"body"
        assert read_request_header(memoryview(data)).body_at == len(data) - 4

    def test_api_versions_of_the_future_is_read_up_to_the_client_id(self) -> None:
        found = read_request_header(memoryview(header(18, 99)))
        assert (found.api_version, found.client_id) == (99, "probe")

    def test_a_version_out_of_range_is_left_to_the_caller(self) -> None:
        assert read_request_header(memoryview(header(0, 1))).api_version == 1
        assert read_request_header(memoryview(header(3, 99) + b"\0")).api_version == 99
        assert read_request_header(memoryview(header(3, -1))).api_version == -1

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"", id="empty"),
            pytest.param(header(12, 0)[:9], id="short"),
            pytest.param(header(12, 0)[:-1], id="client id cut"),
            pytest.param(header(12, 0, b"x", 32767), id="client id past the end"),
            pytest.param(header(12, 0, b"\xff\xfe"), id="client id is not utf-8"),
            pytest.param(header(12, 4), id="no tags"),
            pytest.param(header(12, 4) + b"\x01\x00\x05abc", id="tag past the end"),
            pytest.param(header(12, 4) + b"\xff\xff\xff\xff\xff\xff", id="endless varint"),
            pytest.param(header(9999, 0), id="unknown key"),
            pytest.param(header(7, 0), id="ControlledShutdown is gone"),
            pytest.param(header(-1, 0), id="negative key"),
            pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        ],
    )
    def test_malformed_headers_are_refused(self, data: bytes) -> None:
        with pytest.raises(InvalidBytesError):
            read_request_header(memoryview(data))


class TestResponsesOfStrangers:
    @pytest.mark.parametrize(
        "frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\x01", b"\0\0\0\1\xff\xff\xff\xff\xff"]
    )
    def test_malformed_headers_are_refused(self, frame: bytes) -> None:
        with pytest.raises(InvalidBytesError):
            read_response(HeartbeatResponse, 4, frame)

    def test_no_correlation_id(self) -> None:
        with pytest.raises(InvalidBytesError):
            response_correlation_id(b"\0\0\0")


def test_a_frame_of_a_plain_request() -> None:
    frame = join_chunks(request_frame(ApiVersionsRequest(), 0, 7, None))
    assert frame == struct.pack(">ihhih", 10, 18, 0, 7, -1)
