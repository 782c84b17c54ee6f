"""What a reply is made of: bytes, and slices of files that the kernel sends without copying them to us."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias


class SendableFile(Protocol):
    """An open file that bytes can be sent from: the face of `log.disk.File` that lower rooms may know."""

    on_fault: Callable[[OSError], None]
    """Hears why bytes that a reply has promised could not be had."""

    def fileno(self) -> int: ...

    def read(self, position: int, count: int) -> bytes: ...


class FileSlice:
    """`size` bytes of `file` from `position`. Stands where a records field's bytes would stand."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: SendableFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice({self.file!r}, {self.position}, {self.size})"

    def read(self) -> bytes:
        """The bytes themselves, for TLS, for tests and for whatever cannot use sendfile."""
        return self.file.read(self.position, self.size)


def ignore_fault(error: OSError) -> None:
    """For files that nobody needs to hear of."""


Buffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = Buffer | FileSlice
Chunks: TypeAlias = Sequence[Chunk]


def chunks_size(chunks: Chunks) -> int:
    """How many bytes these chunks are on the wire."""
    return sum(map(len, chunks))
