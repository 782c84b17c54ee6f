"""Bytes to messages and back, by readers and writers that are compiled when a version is first used.

`decode` and `encode` are for whole messages; what runs for every request may hold on to `reader(cls,
version)` and `writer(cls, version)`, which are the compiled functions. Reading raises InvalidBytesError and
nothing else, whatever the bytes. Writing raises it too, for values that the wire cannot hold;
UnsupportedVersion, which is one, says that the message has no such version or that the version has no field
for a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace.base.chunks import Buffer, Chunk, FileSlice
from headrace.wire.plan import UnsupportedVersion, plan_message
from headrace.wire.reader_source import compile_reader
from headrace.wire.writer_source import compile_writer

__all__ = ["UnsupportedVersion", "decode", "encode", "encode_chunks", "join_chunks", "reader", "writer"]

T = TypeVar("T")

_READERS: Final[dict[tuple[type[Any], int], Callable[[Buffer, int], tuple[Any, int]]]] = {}
_WRITERS: Final[dict[tuple[type[Any], int], Callable[[Any], list[Chunk]]]] = {}


def reader(cls: type[T], version: int) -> Callable[[Buffer, int], tuple[T, int]]:
    """The function that reads `cls` at a position of a buffer: gives the message and the position behind."""
    try:
        return _READERS[cls, version]
    except KeyError:
        compiled = compile_reader(plan_message(cls, version), f"{cls.__name__} v{version}")
        _READERS[cls, version] = compiled
        return compiled


def writer(cls: type[T], version: int) -> Callable[[T], list[Chunk]]:
    """The function that writes a `cls` as chunks, of which only records are more than one."""
    try:
        return _WRITERS[cls, version]
    except KeyError:
        compiled = compile_writer(plan_message(cls, version), version, f"{cls.__name__} v{version}")
        _WRITERS[cls, version] = compiled
        return compiled


def decode(cls: type[T], version: int, buffer: Buffer, at: int = 0) -> T:
    """The message that stands at a position of a buffer. Bytes behind it are ignored, as Kafka does."""
    return reader(cls, version)(buffer, at)[0]


def encode(message: object, version: int) -> bytes:
    """A message as bytes, records copied, slices of files read."""
    return join_chunks(writer(type(message), version)(message))


def encode_chunks(message: object, version: int) -> list[Chunk]:
    """A message as chunks: everything but large records is joined to its neighbours."""
    return writer(type(message), version)(message)


def join_chunks(chunks: list[Chunk]) -> bytes:
    """Chunks as one piece of bytes."""
    if len(chunks) == 1 and isinstance(chunks[0], bytes):
        return chunks[0]
    return b"".join(chunk.read() if isinstance(chunk, FileSlice) else chunk for chunk in chunks)
