"""From files to rows: a partition's segments, from one offset to another, as Arrow record batches.

The segments are those of the list that is at hand. Where one of it is gone, or does not reach as far as the
next one starts, the folder is listed again: a compaction may have put several segments into one, and the
records are under another name then. What a fresh list does not have is not in the files any more.

Memory stays at a chunk and what it unpacks to, however large a segment is: whole batches of a file are read a
large piece at a time, into one buffer that is used again and again. Files are read, not mapped: one that is
cut while it is mapped ends the whole process. Reading stops with the batch that holds the last offset asked
for, so bytes behind the high watermark, which may be half written or taken back, are never looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, check_header
from headrace.log.disk import Disk, File
from headrace.log.transaction_index import AbortedTxn
from headrace.records.header import HEADER_BYTES, LOG_OVERHEAD, batches, read_header
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow
from headrace.spark.reading import rows_of
from headrace.spark.segments.errors import DamagedSegmentError, NotInFilesError
from headrace.spark.segments.listing import ListedSegment, number_of
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.places import open_segment, position_of
from headrace.spark.segments.transactions import aborted_between

# How often a folder is listed anew for one offset: each time, a compaction may be in the way once more.
LOOKS_MAX: Final = 3
# Some 70k records of 100 bytes or 8k of 1 KB: Spark's cost of a batch does not show, and a task stays small.
CHUNK_BYTES: Final = 8 << 20


class PartitionRows:
    """Rows of one range of offsets; `next_offset` is where it stands."""

    def __init__(
        self,
        disk: Disk,
        manifest: PartitionManifest,
        wanted: OffsetRange,
        options: ReadOptions,
        window: TimeWindow | None = None,
    ) -> None:
        self._disk, self._manifest, self._wanted = manifest.disk(disk), manifest, wanted
        self._local_disk = disk
        self._options, self._window = options, window
        self._within_bound = replace(wanted, end=max(wanted.start, min(wanted.end, manifest.bound)))
        self._buffer = ChunkBuffer()
        self._segments: Sequence[ListedSegment] = manifest.segments
        self._aborted: Sequence[AbortedTxn] | None = None
        self.next_offset = wanted.start

    def read(self) -> Iterator[Any]:
        """Record batches in order. NotInFilesError where the files lack `next_offset`; what came before is
        complete."""
        end = self._within_bound.end
        looked_at, looks = -1, 0
        while self.next_offset < end:
            try:
                yield from self._read_listed(end)
            except NotInFilesError:
                looks = looks + 1 if looked_at == self.next_offset else 1
                if looks > LOOKS_MAX:
                    raise
                looked_at = self.next_offset
                self._segments = ()
        if self.next_offset < self._wanted.end:
            raise NotInFilesError(
                f"offsets from {self.next_offset} on are behind {end}, up to where records may be read"
            )

    def _read_listed(self, end: int) -> Iterator[Any]:
        """By the list at hand, or by a fresh one; NotInFilesError where it has not all that is wanted."""
        if not self._segments:
            self._look()
        self._find_aborted(end)
        number = number_of(self._segments, self.next_offset)
        if number < 0:
            raise self._lacking()
        while self.next_offset < end:
            base_offset = self._segments[number].base_offset
            yield from self._read_segment(base_offset, end)
            if self.next_offset < end:
                number = self._number_behind(base_offset)

    def _look(self) -> None:
        self._manifest = self._manifest.listed(self._local_disk)
        self._segments = self._manifest.segments

    # -- which segment ---------------------------------------------------------------------------------------

    def _number_behind(self, base_offset: int) -> int:
        """The segment behind one that was read to its end. A gap in front of it may be that of a compaction,
        or of a segment that has got its name only now."""
        following = number_of(self._segments, base_offset) + 1
        if following < len(self._segments) and self._segments[following].base_offset <= self.next_offset:
            return following
        self._look()
        number = number_of(self._segments, self.next_offset)
        if number >= 0 and self._segments[number].base_offset > base_offset:
            return number
        if number + 1 >= len(self._segments):
            raise self._lacking()
        self.next_offset = self._segments[number + 1].base_offset
        return number + 1

    def _lacking(self) -> NotInFilesError:
        folder, segments = self._manifest.folder, self._segments
        has = f"its segments start at {segments[0].base_offset}" if segments else "it has no segment"
        later = (each.base_offset for each in segments if each.base_offset > self.next_offset)
        return NotInFilesError(f"{folder} does not have offset {self.next_offset}: {has}", next(later, None))

    # -- what is in it ---------------------------------------------------------------------------------------

    def _find_aborted(self, end: int) -> None:
        """All that the lists have, before the segments are opened, and what was known before: a compaction
        takes entries out of a list only with the records they hide."""
        known = self._aborted if self._aborted is not None else self._manifest.aborted
        if known is not None:
            if not self._manifest.lists_aborted(end):
                folder = self._manifest.folder
                raise NotInFilesError(f"what was aborted below {end} is told in {folder}, out of reach here")
            folder, start = self._manifest.folder, self.next_offset
            listed = aborted_between(self._disk, folder, self._segments, start, end)
            self._aborted = list({*listed, *known})

    def _aborted_in(self, chunk: "SegmentChunk") -> list[AbortedTxn] | None:
        if self._aborted is None:
            return None
        first, upto = self.next_offset, chunk.next_offset
        return [txn for txn in self._aborted if txn.last_offset >= first and txn.first_offset < upto]

    def _read_segment(self, base_offset: int, end: int) -> Iterator[Any]:
        folder = self._manifest.folder
        file = open_segment(self._disk, folder, base_offset)
        hint = self._manifest.hint
        position = position_of(self._disk, folder, base_offset, file, self.next_offset, hint)
        for chunk in read_chunks(file, position, upto=end, buffer=self._buffer):
            try:
                yield from rows_of(
                    chunk.batches,
                    self.next_offset,
                    self._within_bound,
                    self._options,
                    self._window,
                    end=chunk.next_offset,
                    aborted=self._aborted_in(chunk),
                )
            except InvalidBytesError as error:
                raise DamagedSegmentError(
                    f"{file.path}, in the {len(chunk.batches)} bytes from {chunk.position} on: {error}"
                ) from None
            self.next_offset = max(self.next_offset, min(chunk.next_offset, end))


class SegmentChunk(NamedTuple):
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


def read_chunks(file: File, position: int, *, upto: int, buffer: ChunkBuffer) -> Iterator[SegmentChunk]:
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
            yield SegmentChunk(window[:used], position, next_offset)
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
