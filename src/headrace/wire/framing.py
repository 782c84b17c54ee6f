"""Frames: the four bytes of length and the header around a request's or a response's body.

The server's side reads a request's header, tells where its body begins, and puts length and header in front
of a response's chunks; the client's side does the reverse. Headers are few and fixed, so they are read and
written here by hand rather than through their schemas (`schemas/headers.py`), which the tests compare with.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, TypeVar

from headrace.base.chunks import Buffer, Chunk, chunks_size
from headrace.base.errors import InvalidBytesError
from headrace.wire.apis import API, Api, ApiKey
from headrace.wire.codec import UnsupportedVersion, reader, writer
from headrace.wire.notation import schema_of
from headrace.wire.primitives import skip_tags

T = TypeVar("T")

# A chunk up to this size is copied behind the header: one buffer to send instead of two.
_JOINED_BYTES_MAX: Final = 64 * 1024

_NEVER: Final = 1 << 16
_FLEXIBLE_FROM: Final = {
    key: api.flexible_from if api.flexible_from is not None else _NEVER for key, api in API.items()
}
_read_fixed: Final = struct.Struct(">hhih").unpack_from
_pack_length_and_id: Final = struct.Struct(">ii").pack
_pack_length_id_and_tags: Final = struct.Struct(">iix").pack
_pack_request: Final = struct.Struct(">ihhih").pack


class RequestHeader(NamedTuple):
    """What stands in front of a request's body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int  # where the body begins in the frame


def read_request_header(frame: memoryview) -> RequestHeader:
    """The header of a frame without its length prefix; InvalidBytesError where there is none that we know.

    The version is not checked: the caller answers one out of range, and an ApiVersions request of the
    future may have a header that ends in ways we don't know, so it is not read further than the client id.
    """
    try:
        key, version, correlation_id, client_bytes = _read_fixed(frame, 0)
        flexible_from = _FLEXIBLE_FROM[key]
        at = 10
        client_id = None
        if client_bytes >= 0:  # Kafka takes any negative length for null here
            at += client_bytes
            if at > len(frame):
                raise InvalidBytesError(f"a client id of {client_bytes} bytes in a frame of {len(frame)}")
            client_id = frame[10:at].tobytes().decode()
        if version >= flexible_from and not (key == ApiKey.API_VERSIONS and version > API[key].max_version):
            tags = frame[at]
            at += 1
            if tags:
                at = skip_tags(frame, at, tags, len(frame))
        return RequestHeader(key, version, correlation_id, client_id, at)
    except KeyError:
        raise UnsupportedVersion(f"there is no request with key {key}") from None
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise InvalidBytesError(f"a request header that does not parse: {error}") from error


def response_frame(api: Api, version: int, correlation_id: int, body: list[Chunk]) -> list[Chunk]:
    """A response's chunks with the length and header in front, ready to send."""
    size = len(body[0]) if len(body) == 1 else chunks_size(body)
    if version >= api.response_tags_from:
        head = _pack_length_id_and_tags(size + 5, correlation_id)
    else:
        head = _pack_length_and_id(size + 4, correlation_id)
    return _in_front(head, body)


def request_frame(message: object, version: int, correlation_id: int, client_id: str | None) -> list[Chunk]:
    """A request with the length and header in front, ready to send."""
    schema = schema_of(type(message))
    assert schema.api_key is not None, f"{type(message).__name__} is no request"
    body = writer(type(message), version)(message)
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if schema.flexible_from is not None and version >= schema.flexible_from else b""
    size = 10 + len(name) + len(tags) + chunks_size(body)
    name_bytes = -1 if client_id is None else len(name)
    head = _pack_request(size, schema.api_key, version, correlation_id, name_bytes)
    return _in_front(head + name + tags, body)


def response_correlation_id(frame: Buffer) -> int:
    """Which request a frame answers: what a client must know before it can read the rest."""
    if len(frame) < 4:
        raise InvalidBytesError(f"a response of {len(frame)} bytes has no correlation id")
    return int.from_bytes(frame[:4], "big", signed=True)


def read_response(cls: type[T], version: int, frame: Buffer) -> T:
    """The response in a frame without its length prefix."""
    schema = schema_of(cls)
    is_flexible = schema.flexible_from is not None and version >= schema.flexible_from
    at = 4
    if is_flexible and schema.api_key != ApiKey.API_VERSIONS:
        at = _behind_response_tags(memoryview(frame))
    return reader(cls, version)(frame, at)[0]


def _behind_response_tags(frame: memoryview) -> int:
    try:
        tags = frame[4]
        return skip_tags(frame, 5, tags, len(frame)) if tags else 5
    except IndexError as error:
        raise InvalidBytesError(f"a response header that does not parse: {error}") from error


def _in_front(head: bytes, body: list[Chunk]) -> list[Chunk]:
    first: Any = body[0]
    if first.__class__ is bytes and len(first) <= _JOINED_BYTES_MAX:
        return [head + first, *body[1:]]
    return [head, *body]
