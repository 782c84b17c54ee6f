"""Bytes to messages and back, by readers and writers that are compiled when a version is first used.

`decode` and `encode` are for whole messages; what runs for every request may hold on to `reader(cls,
version)` and `writer(cls, version)`, which are the compiled functions. Reading raises InvalidBytesError and
nothing else, whatever the bytes. Writing raises it too, for values that the wire cannot hold;
UnsupportedVersion, which is one, says that the message has no such version or that the version has no field
for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from headrace.base.chunks import Buffer, Chunk, FileSlice
from headrace.wire.plan import UnsupportedVersion, plan_message
from headrace.wire.primitives import LongMessageError, uvarint
from headrace.wire.reader_source import compile_reader, compile_short_reader, compile_sliced_reader
from headrace.wire.writer_source import compile_sliced_writer, compile_writer

__all__ = [
    "ArrayWriter",
    "LongMessageError",
    "UnsupportedVersion",
    "decode",
    "encode",
    "encode_chunks",
    "join_chunks",
    "reader",
    "short_reader",
    "sliced_reader",
    "sliced_writer",
    "writer",
]

T = TypeVar("T")

SHARED_BYTES_MIN: Final = 16 * 1024
"""From here on a copy costs more than sending one buffer more."""

_READERS: Final[dict[tuple[type[Any], int], Callable[[Buffer, int], tuple[Any, int]]]] = {}
_WRITERS: Final[dict[tuple[type[Any], int], Callable[[Any], list[Chunk]]]] = {}
_SLICED_READERS: Final[
    dict[tuple[type[Any], int], Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]]
] = {}
_SLICED_WRITERS: Final[dict[tuple[type[Any], int], Callable[[Any], Generator[None, None, list[Chunk]]]]] = {}


def reader(cls: type[T], version: int) -> Callable[[Buffer, int], tuple[T, int]]:
    """The function that reads `cls` at a position of a buffer: gives the message and the position behind."""
    try:
        return _READERS[cls, version]
    except KeyError:
        compiled = compile_reader(plan_message(cls, version), f"{cls.__name__} v{version}")
        _READERS[cls, version] = compiled
        return compiled


def short_reader(cls: type[T], version: int) -> Callable[[Buffer, int], tuple[T, int]]:
    """A reader for what strangers ask: LongMessageError for what must be read in slices. Not kept."""
    return compile_short_reader(plan_message(cls, version), f"{cls.__name__} v{version}")


def sliced_reader(
    cls: type[T], version: int
) -> Callable[[Buffer, int], Generator[None, None, tuple[T, int]]]:
    """A reader that yields every now and then."""
    try:
        return _SLICED_READERS[cls, version]
    except KeyError:
        compiled = compile_sliced_reader(plan_message(cls, version), f"{cls.__name__} v{version}")
        _SLICED_READERS[cls, version] = compiled
        return compiled


def sliced_writer(cls: type[T], version: int) -> Callable[[T], Generator[None, None, list[Chunk]]]:
    """A writer that yields every now and then."""
    try:
        return _SLICED_WRITERS[cls, version]
    except KeyError:
        compiled = compile_sliced_writer(plan_message(cls, version), version, f"{cls.__name__} v{version}")
        _SLICED_WRITERS[cls, version] = compiled
        return compiled


def writer(cls: type[T], version: int) -> Callable[[T], list[Chunk]]:
    """The function that writes a `cls` as chunks, of which only records are more than one."""
    try:
        return _WRITERS[cls, version]
    except KeyError:
        compiled = compile_writer(plan_message(cls, version), version, f"{cls.__name__} v{version}")
        _WRITERS[cls, version] = compiled
        return compiled


class ArrayWriter(Generic[T]):
    """Writes a message whose array `field`, of structs, comes from elements that were written before: what
    many messages have in common is written once.
    """

    def __init__(self, cls: type[T], version: int, field: str) -> None:
        plan, title = plan_message(cls, version), f"{cls.__name__} v{version}"
        (at,) = (number for number, each in enumerate(plan.fields) if each.spec.name == field)
        array = plan.fields[at]
        assert array.spec.is_array, f"{title}: {field} is no array"
        assert array.struct is not None, f"{title}: {field} has no structs"
        self._is_compact = array.is_compact
        before = replace(plan, fields=plan.fields[:at], tagged=(), is_flexible=False)
        self._before = compile_writer(before, version, title)
        self._after = compile_writer(replace(plan, fields=plan.fields[at + 1 :], absent=()), version, title)
        self._element = compile_writer(array.struct, version, f"{title}, {field}")

    def element(self, value: object) -> bytes:
        """One element of the array."""
        return join_chunks(self._element(value))

    def message(self, message: T, elements: list[bytes]) -> list[Chunk]:
        """The message with these elements; what it has in the array itself is passed over. Large elements
        stay as they are, so that many messages share them.
        """
        count = len(elements)
        length = uvarint(count + 1) if self._is_compact else count.to_bytes(4, "big")
        chunks: list[Chunk] = []
        parts = [join_chunks(self._before(message)), length]
        for element in elements:
            if len(element) < SHARED_BYTES_MIN:
                parts.append(element)
            else:
                chunks += (b"".join(parts), element)
                parts = []
        parts.append(join_chunks(self._after(message)))
        chunks.append(b"".join(parts))
        return chunks


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
