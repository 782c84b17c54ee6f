"""Whole batches of a segment's file, a large piece at a time, in one buffer that is used again and again.

Files are read, not mapped: one that is cut while it is mapped ends the whole process. Reading stops with the
batch that holds the last offset asked for, so bytes behind the high watermark, which may be half written or
taken back, are never looked at.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, check_header
from headrace.log.disk import File
from headrace.records.header import HEADER_BYTES, LOG_OVERHEAD, batches, read_header
from headrace.spark.segments.errors import DamagedSegmentError, NotInFilesError

# Some 70k records of 100 bytes or 8k of 1 KB: Spark's cost of a batch does not show, and a task stays small.
CHUNK_BYTES: Final = 8 << 20


class Chunk(NamedTuple):
    """Batches one after the other; the buffer is used again for the next chunk."""

    batches: memoryview
    position: int
    next_offset: int


class ChunkBuffer:
    """The memory that chunks are read into; it grows for a batch that does not fit."""

    __slots__ = ("_view",)

    def __init__(self) -> None:
        self._view = memoryview(bytearray(CHUNK_BYTES))

    def fill(self, file: File, position: int, least: int = 0) -> memoryview:
        """What the file has at `position`, as much as fits, `least` bytes at any rate."""
        if len(self._view) < least:
            self._view = memoryview(bytearray(least))
        return self._view[: file.read_into(position, self._view)]


def read_chunks(file: File, position: int, *, upto: int, buffer: ChunkBuffer) -> Iterator[Chunk]:
    """Batches from `position`, where one starts, up to the one that reaches offset `upto`, or the file's end.

    NotInFilesError where the file ends inside of a batch, DamagedSegmentError where no batch can be.
    """
    while True:
        window = buffer.fill(file, position)
        if not window:
            return
        used, next_offset = _whole_batches(file, window, position, upto)
        if not used and next_offset < upto:
            window = _large_batch(file, window, position, buffer)
            used, next_offset = _whole_batches(file, window, position, upto)
        if used:
            yield Chunk(window[:used], position, next_offset)
        if next_offset >= upto:
            return
        position += used


def _whole_batches(file: File, window: memoryview, position: int, upto: int) -> tuple[int, int]:
    """(bytes, offset behind the last) of the whole batches in the window that start below `upto`."""
    used, next_offset = 0, -1
    try:
        for at, (base, length, _, _, _, _, offset_delta, *_) in batches(window):
            if base >= upto:
                return used, upto
            used, next_offset = at + LOG_OVERHEAD + length, base + offset_delta + 1
            if next_offset >= upto:
                break
    except InvalidBytesError:
        raise _damaged(file, window, used, position) from None
    return used, next_offset


def _large_batch(file: File, window: memoryview, position: int, buffer: ChunkBuffer) -> memoryview:
    """A window with the whole of the batch at `position`, which is larger than the buffer was."""
    size = read_header(window).size if len(window) >= HEADER_BYTES else HEADER_BYTES
    if position + size <= file.size():
        window = buffer.fill(file, position, size)
    if len(window) < size:
        raise NotInFilesError(f"{file.path} ends inside of the batch at byte {position}")
    return window


def _damaged(file: File, window: memoryview, at: int, position: int) -> DamagedSegmentError:
    """What the batch at `at` of the window is not, told by its place in the file."""
    reason: Exception = InvalidBytesError(f"no batch can start at byte {position + at}")
    try:
        check_header(window, at, position + at, file.size())
    except (InvalidBytesError, OldFormatError) as error:
        reason = error
    return DamagedSegmentError(f"{file.path}: {reason}")
