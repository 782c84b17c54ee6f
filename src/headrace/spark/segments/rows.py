"""From files to rows: a partition's segments, from one offset to another, as Arrow record batches.

The segments are those of the list that is at hand. Where one of it is gone, or does not reach as far as the
next one starts, the folder is listed again: a compaction may have put several segments into one, and the
records are under another name then. What a fresh list does not have is not in the files any more.

Memory stays at a chunk and what it unpacks to, however large a segment is.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from headrace.base.errors import InvalidBytesError
from headrace.log.disk import Disk
from headrace.log.txn_index import AbortedTxn
from headrace.records.codecs import UnpackedTooLargeError
from headrace.records.columns import Decoded, read_columns
from headrace.records.columns_sections import SECTION_BYTES_MAX
from headrace.spark.columns import decoded_names, fit
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments.chunks import Chunk, ChunkBuffer, read_chunks
from headrace.spark.segments.errors import DamagedSegmentError, NotInFilesError
from headrace.spark.segments.listing import ListedSegment, list_segments, number_of
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.places import open_segment, position_of
from headrace.spark.segments.transactions import aborted_between

# Spark gains nothing from more rows at once, and loses with fewer than some thousands.
ROWS_MAX: Final = 50_000
# What the batches of one chunk may unpack to at once: enough for some thousand rows of 1 KB.
UNPACKED_BYTES: Final = 16 << 20


class PartitionRows:
    """Rows of one range of offsets; `next_offset` is where it stands."""

    def __init__(
        self, disk: Disk, manifest: PartitionManifest, wanted: OffsetRange, columns: Sequence[str]
    ) -> None:
        self._disk, self._manifest, self._wanted = disk, manifest, wanted
        self._columns = tuple(columns)
        self._decoded_columns = decoded_names(list(dict.fromkeys((*columns, "offset"))))
        self._buffer = ChunkBuffer()
        self._segments: Sequence[ListedSegment] = manifest.segments
        self._aborted: Sequence[AbortedTxn] | None = None
        self.next_offset = wanted.start

    def read(self) -> Iterator[Any]:
        """Record batches in order. NotInFilesError where the files lack `next_offset`; what came before is
        complete."""
        end = min(self._wanted.end, self._manifest.bound)
        looked_at = -1
        while self.next_offset < end:
            try:
                yield from self._read_listed(end)
            except NotInFilesError:
                if looked_at == self.next_offset:
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
            self._segments = list_segments(self._disk, self._manifest.folder)
        self._find_aborted(end)
        number = number_of(self._segments, self.next_offset)
        if number < 0:
            raise NotInFilesError(self._lacking())
        while self.next_offset < end:
            base_offset = self._segments[number].base_offset
            yield from self._read_segment(base_offset, end)
            if self.next_offset < end:
                number = self._number_behind(base_offset)

    # -- which segment ---------------------------------------------------------------------------------------

    def _number_behind(self, base_offset: int) -> int:
        """The segment behind one that was read to its end. A gap in front of it may be that of a compaction,
        or of a segment that has got its name only now."""
        following = number_of(self._segments, base_offset) + 1
        if following < len(self._segments) and self._segments[following].base_offset <= self.next_offset:
            return following
        self._segments = list_segments(self._disk, self._manifest.folder)
        number = number_of(self._segments, self.next_offset)
        if number >= 0 and self._segments[number].base_offset > base_offset:
            return number
        if number + 1 >= len(self._segments):
            raise NotInFilesError(self._lacking())
        self.next_offset = self._segments[number + 1].base_offset
        return number + 1

    def _lacking(self) -> str:
        folder, segments = self._manifest.folder, self._segments
        has = f"its segments start at {segments[0].base_offset}" if segments else "it has no segment"
        return f"{folder} does not have offset {self.next_offset} of {self._wanted} (any more): {has}"

    # -- what is in it ---------------------------------------------------------------------------------------

    def _find_aborted(self, end: int) -> None:
        """All that the lists have, before the segments are opened, and what was known before: a compaction
        takes entries out of a list only with the records they hide."""
        known = self._aborted if self._aborted is not None else self._manifest.aborted
        if known is not None:
            folder, start = self._manifest.folder, self.next_offset
            listed = aborted_between(self._disk, folder, self._segments, start, end)
            self._aborted = list({*listed, *known})

    def _aborted_in(self, chunk: Chunk) -> list[AbortedTxn] | None:
        if self._aborted is None:
            return None
        first, upto = self.next_offset, chunk.next_offset
        return [txn for txn in self._aborted if txn.last_offset >= first and txn.first_offset < upto]

    def _read_segment(self, base_offset: int, end: int) -> Iterator[Any]:
        folder = self._manifest.folder
        file = open_segment(self._disk, folder, base_offset)
        position = position_of(self._disk, folder, base_offset, file, self.next_offset)
        for chunk in read_chunks(file, position, upto=end, buffer=self._buffer):
            try:
                yield from self._rows(chunk, end)
            except InvalidBytesError as error:
                raise DamagedSegmentError(
                    f"{file.path}, in the {len(chunk.batches)} bytes from {chunk.position} on: {error}"
                ) from None
            self.next_offset = max(self.next_offset, min(chunk.next_offset, end))

    def _rows(self, chunk: Chunk, end: int) -> Iterator[Any]:
        aborted, is_whole = self._aborted_in(chunk), False
        while not is_whole:
            decoded = self._decode(chunk, aborted)
            is_whole = decoded.is_whole
            rows = fit(decoded.rows.select(range(len(self._columns))), self._columns)
            if decoded.next_offset > end:
                offsets = decoded.rows.column("offset").to_numpy()
                rows = rows.slice(0, int(np.searchsorted(offsets, end)))
            yield from _portions(rows)
            self.next_offset = min(decoded.next_offset, end)

    def _decode(self, chunk: Chunk, aborted: list[AbortedTxn] | None) -> Decoded:
        bytes_max = UNPACKED_BYTES
        while True:
            try:
                return self._decode_up_to(chunk, aborted, bytes_max)
            except UnpackedTooLargeError:
                if bytes_max == SECTION_BYTES_MAX:
                    raise
                bytes_max = min(4 * bytes_max, SECTION_BYTES_MAX)  # for a first batch that is this large

    def _decode_up_to(self, chunk: Chunk, aborted: list[AbortedTxn] | None, bytes_max: int) -> Decoded:
        return read_columns(
            chunk.batches,
            topic=self._wanted.topic,
            partition=self._wanted.partition,
            from_offset=self.next_offset,
            aborted=aborted,
            columns=self._decoded_columns,
            timestamp_unit="us",
            plain_topic=True,
            bytes_max=bytes_max,
        )


def _portions(rows: Any) -> Iterator[Any]:
    """Batches of about the same size, at most ROWS_MAX rows each."""
    count = rows.num_rows
    pieces = -(-count // ROWS_MAX)
    for number in range(pieces):
        start = count * number // pieces
        yield rows.slice(start, count * (number + 1) // pieces - start)
