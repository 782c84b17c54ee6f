"""One segment: a `.log` file of batches one after the other, and its indexes.

The segment knows its size itself and never asks the file, so a write that failed half, or room reserved
ahead, is never taken for data. Only the last segment of a log is active, that is, grows.

The active segment remembers where its latest batches start (`tail`): most reads are near the end, and the
high watermark, which bounds them, is there too. Such a read touches no index and no file.
"""

import logging
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import PLACE, find_batch, scan_batches, scan_headers
from headrace.log.disk import Disk, File
from headrace.log.file_names import LOG, offset_name
from headrace.log.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from headrace.log.offset_index import OffsetIndex
from headrace.log.segment_indexes import SegmentIndexes
from headrace.log.storage import Storage
from headrace.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headrace.log.time_index import NO_TIMESTAMP, TimeIndex
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from headrace.settings.topic import TopicConfig

logger = logging.getLogger(__name__)

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
POSITION_MAX: Final = (1 << 31) - 1

# Enough for fetches that lag a few requests behind; 8 KiB a partition at most.
TAIL_MAX: Final = 512
TAIL_KEPT: Final = 256

_NEVER: Final = -1
_UNREAD: Final = -2  # a timestamp that has not been looked up yet
_NOWHERE: Final = (0, 0, -1, 0)  # such a place is no batch's
_LENGTH: Final = struct.Struct(">i")


class LogSegment:
    """Offsets from `base_offset` up to the next segment's, in `size` bytes."""

    __slots__ = (
        "_file",
        "_first_timestamp",
        "_jitter_ms",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_sealed_size",
        "_storage",
        "_tail_offsets",
        "_tail_positions",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "doubt",
        "end_offset",
        "index_interval_bytes",
        "indexes",
        "is_damaged",
        "size",
        "stem",
        "touched",
    )

    def __init__(
        self,
        storage: Storage,
        folder: str,
        base_offset: int,
        *,
        size: int,
        config: TopicConfig,
        created_ms: int,
        has_aborted: bool = False,
        has_index_files: bool = True,
    ) -> None:
        self._storage = storage
        self.stem = f"{folder}/{offset_name(base_offset)}"
        self.base_offset = base_offset
        self.end_offset = base_offset  # behind the last batch; known while the segment is active
        self.size = size
        self.created_ms = created_ms
        self.index_interval_bytes = config.index_interval_bytes
        jitter_max = min(config.segment_jitter_ms, config.segment_ms)
        self._jitter_ms = storage.rng.randrange(jitter_max) if jitter_max > 0 else 0
        self.indexes = SegmentIndexes(
            storage, self.stem, base_offset, has_aborted=has_aborted, has_files=has_index_files
        )
        self.bytes_since_entry = 0
        self._first_timestamp = self._max_timestamp = _UNREAD if size else NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._tail_offsets = array("q")
        self._tail_positions = array("q")
        self._file: File | None = None
        self._sealed_size = _NEVER  # for which size the files are as they must be when the segment is closed
        self.touched = False
        self.doubt: OSError | None = (
            None  # why a reply could not be sent: whoever reads next looks at the file
        )
        self.is_damaged = False  # not every batch can be walked to: indexes cannot be checked against them

    def __repr__(self) -> str:
        return f"Segment({self.stem!r}, {self.size} bytes)"

    # -- the file --------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self.stem + LOG

    @property
    def file(self) -> File:
        """The open `.log` file. Keep it no longer than a reply: the segment may let it go and open
        another."""
        file = self._file
        if file is None:
            file = self._file = self._storage.disk.open(self.stem + LOG)
            file.on_fault = self._note_fault
            self._storage.files.admit(self)
        self.touched = True
        return file

    def release(self) -> None:
        """Let the file go; whoever still sends from it keeps it open."""
        self._file = None

    def _note_fault(self, error: OSError) -> None:
        """A reply could not be sent from the file."""
        logger.error("%s cannot be read: %s. The reply's connection was closed.", self.path, error)
        self.doubt = error

    @property
    def disk(self) -> Disk:
        return self._storage.disk

    # -- growing ---------------------------------------------------------------------------------------------

    def start_tail(self, next_offset: int) -> None:
        """From here on remember where batches start; the log ends at `next_offset`."""
        self._tail_offsets = array("q", (next_offset,))
        self._tail_positions = array("q", (self.size,))

    def should_roll(
        self, config: TopicConfig, *, batch_bytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether a batch must go to a new segment: this one would be too large, is too old, or is full."""
        size = self.size
        if size > config.segment_bytes - batch_bytes or size + batch_bytes > POSITION_MAX:
            return True
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if size and self.age_ms(max_timestamp, now_ms) > config.segment_ms - self._jitter_ms:
            return True
        # The batch gets an entry: there must be room for it.
        entry_is_due = self.bytes_since_entry > self.index_interval_bytes
        return entry_is_due and self.indexes_full(config.segment_index_bytes)

    def age_ms(self, max_timestamp: int, now_ms: int) -> int:
        """By the records' own time where they have one, so that replicas roll alike; else by the clock."""
        first = self._first_timestamp
        if first == _UNREAD:
            header = read_header(self.file.read(0, HEADER_BYTES))
            first = self._first_timestamp = header.record_timestamp_max
        return max_timestamp - first if first >= 0 else now_ms - self.created_ms

    def indexes_full(self, index_bytes_max: int) -> bool:
        offsets = len(self.indexes.offsets(self.size).data)
        times = len(self.indexes.times().data)
        # One entry of the time index is kept free for the segment's largest timestamp.
        return offsets > index_bytes_max - INDEX_ENTRY_BYTES or times > index_bytes_max - 2 * TIME_ENTRY_BYTES

    def append(self, chunks: Sequence[Buffer]) -> None:
        """Write bytes at the end; `note_batches` makes the batches in them part of the segment."""
        self.file.write(self.size, chunks)

    def note_batches(self, batches: Iterable[tuple[int, int, int]]) -> None:
        """Take batches, as (size, last offset, largest timestamp of a record), that lie one behind the other
        at the end of the segment into size, indexes and tail. What the time index leads to has a record: a
        batch that compaction left without one has no timestamp here, whatever its header says.
        """
        position, since_entry = self.size, self.bytes_since_entry
        offsets, positions = self._tail_offsets, self._tail_positions
        for size, last_offset, max_timestamp in batches:
            if max_timestamp > self._max_timestamp:
                self._max_timestamp = max_timestamp
                self._max_timestamp_offset = last_offset
            if since_entry > self.index_interval_bytes:
                self.indexes.offsets(position).append(last_offset, position)
                self.indexes.times().append_if_later(self._max_timestamp, self._max_timestamp_offset)
                since_entry = 0
            if not position:
                self._first_timestamp = max_timestamp
            since_entry += size
            position += size
            offsets.append(last_offset + 1)
            positions.append(position)
        self.size, self.bytes_since_entry, self.end_offset = position, since_entry, offsets[-1]
        if len(offsets) > TAIL_MAX:
            del offsets[:-TAIL_KEPT], positions[:-TAIL_KEPT]

    def reset(self) -> None:
        """Forget what is in the file, for recovery to note it again."""
        self.size = 0
        self._sealed_size = _NEVER
        self.end_offset = self.base_offset
        self.bytes_since_entry = 0
        self._first_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self.indexes.reset()
        self.start_tail(self.base_offset)

    @property
    def is_short(self) -> bool:
        """Whether no batch has an entry in the offset index: it is walked as fast as it is looked up."""
        return self.size <= self.index_interval_bytes

    def seal(self, *, is_last: bool = False) -> None:
        """Write the indexes out with the largest timestamp (a short last one needs none), cut the reserve."""
        needs_files = self.size > 0 and not (is_last and self.is_short)
        if self._sealed_size == self.size and (self.indexes.has_files or not needs_files):
            return
        if self.indexes.has_files or needs_files:
            self._note_max_timestamp()
            self.indexes.write_out()
        if self._storage.disk.size(self.path) != self.size:
            self.file.truncate(self.size)
        self._sealed_size = self.size

    def _note_max_timestamp(self) -> None:
        max_timestamp, offset = self.max_timestamp()
        if max_timestamp >= 0:
            self.indexes.times().append_if_later(max_timestamp, offset)

    def retire(self) -> None:
        """Grow no more. The segment was sealed."""
        self.indexes.deactivate()
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    # -- finding ---------------------------------------------------------------------------------------------

    def locate(self, offset: int) -> int:
        """Where the first batch that ends at or behind `offset` starts; `size` where there is none."""
        offsets = self._tail_offsets
        if offsets and offset >= offsets[0]:
            return self._tail_positions[bisect_right(offsets, offset) - 1]
        return self._locate_by_index(offset)

    def offset_index(self) -> OffsetIndex:
        """The offset index, rebuilt where its file is missing or broken."""
        try:
            return self.indexes.offsets(self.size)
        except InvalidBytesError as error:
            self._rebuild_broken("index", error)
            return self.indexes.offsets(self.size)

    def time_index(self) -> TimeIndex:
        """The time index, rebuilt where its file is missing or broken."""
        try:
            return self.indexes.times()
        except InvalidBytesError as error:
            self._rebuild_broken("timeindex", error)
            return self.indexes.times()

    def _rebuild_broken(self, suffix: str, error: InvalidBytesError) -> None:
        logger.warning("%s.%s is rebuilt from the log's batches: %s", self.stem, suffix, error)
        self.rebuild_indexes()

    def near(self, offset: int) -> int:
        """Where a batch starts that lies at or before `offset`, by the index."""
        entry_offset, position = self.offset_index().lookup(offset)
        if position and not self.is_damaged:
            window = self.file.read(position, HEADER_BYTES)
            base, _, magic, _ = PLACE.unpack_from(window) if len(window) == HEADER_BYTES else _NOWHERE
            if base > entry_offset or magic != MAGIC:
                # Not this log's index.
                self._rebuild_broken("index", InvalidBytesError("it leads to no batch, or to a later one"))
                _, position = self.offset_index().lookup(offset)
        return position

    def start_before(self, position: int) -> int:
        """Where a batch starts that lies at or before `position`, by the index."""
        return self.near(self.offset_index().offset_before(position)) if position > 0 else 0

    def _locate_by_index(self, offset: int) -> int:
        try:
            return find_batch(self.file, self.near(offset), self.size, offset)
        except InvalidBytesError as error:
            raise InvalidBytesError(f"{self.path}: {error}") from error

    def batch_size_at(self, position: int) -> int:
        """Bytes of the batch that starts at `position`."""
        length: int = _LENGTH.unpack(self.file.read(position + 8, 4))[0]
        return length + LOG_OVERHEAD

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from `position` on."""
        return scan_headers(self.file, position, self.size)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """(position, header, bytes) of the batches from `position` on."""
        return scan_batches(self.file, position, self.size)

    def last_header(self) -> BatchHeader | None:
        """The header of the last batch, None without one; InvalidBytesError where it cannot be reached."""
        last = None
        for _, header in self.headers(self.near(self.base_offset + RELATIVE_OFFSET_MAX)):
            last = header
        return last

    def next_offset(self) -> int:
        """The offset behind the segment's last batch."""
        last = self.last_header()
        return self.base_offset if last is None else last.next_offset

    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of its batch; (-1, base offset) where there is none."""
        if self._max_timestamp == _UNREAD and not self.indexes.has_files:
            with suppress(InvalidBytesError):  # as far as it can be walked
                self._find_max_timestamp()
        elif self._max_timestamp == _UNREAD:
            timestamp, offset = self.time_index().last()
            if timestamp >= 0 and not self.holds(timestamp, offset):
                # Retention must not act on a broken entry.
                self._rebuild_broken("timeindex", InvalidBytesError("its last entry is no batch's"))
            else:
                self._max_timestamp, self._max_timestamp_offset = timestamp, offset
        return self._max_timestamp, self._max_timestamp_offset

    def holds(self, timestamp: int, offset: int) -> bool:
        """Whether a time entry is right: the batch that ends with `offset` has this largest timestamp."""
        try:
            for _, header in self.headers(self.locate(offset)):
                return header.max_timestamp == timestamp
        except InvalidBytesError:
            return True  # a damaged batch cannot prove it wrong
        return self.is_damaged

    def search_from(self, timestamp: int) -> int:
        """An offset before which no record is as young as `timestamp`, by the time index."""
        entry_timestamp, offset = self.time_index().lookup(timestamp)
        if entry_timestamp >= 0 and not self.holds(entry_timestamp, offset):
            self._rebuild_broken("timeindex", InvalidBytesError("it leads to no batch of that time"))
            offset = self.time_index().lookup(timestamp)[1]
        return offset

    def largest_timestamp(self) -> int:
        """For retention: of the records, or of the file where they have none."""
        timestamp = self.max_timestamp()[0]
        return timestamp if timestamp >= 0 else self._storage.disk.modified_ms(self.path)

    def reopen(self) -> None:
        """Grow again, because later segments were dropped."""
        if not self.indexes.active:
            self.offset_index(), self.time_index()
            self.indexes.activate(self.size)
            self.max_timestamp()
            self.end_offset = self.next_offset()
            self._sealed_size = self.size  # as it was read, or just rebuilt

    # -- changing --------------------------------------------------------------------------------------------

    def rebuild_indexes(self) -> None:
        """Make the offset and time index anew from the batches' headers.

        Where a damaged batch is in the way they stay as they are, if they can be used at all: they lead to
        the good batches behind it.
        """
        active, end, end_offset = self.indexes.active, self.size, self.end_offset
        tail = self._tail_offsets, self._tail_positions
        kept = self.indexes.usable_data(end)
        self.reset()
        try:
            for _, header in scan_headers(self.file, 0, end):
                self.note_batches(((header.size, header.last_offset, header.record_timestamp_max),))
        except InvalidBytesError:
            self.is_damaged = True
        self.size, self.end_offset = end, end_offset
        if self.is_damaged and kept is not None:
            self.indexes.use_data(kept)
            self._max_timestamp, self._max_timestamp_offset = self.indexes.times().last()
        if active:
            self._tail_offsets, self._tail_positions = tail
        else:
            self._note_max_timestamp()
            self.indexes.write_out(durable=True)
            self.retire()

    def truncate(self, offset: int) -> int:
        """Drop the batches from the one that holds `offset` on, and return where the log now ends.

        The segment is the active one; the caller starts a new tail.
        """
        position, end = self.locate(offset), offset
        if position < self.size:
            end = min(end, read_header(self.file.read(position, HEADER_BYTES)).base_offset)
        self._sealed_size = _NEVER
        self.indexes.truncate(offset)
        self.file.truncate(position)
        self.size = position
        self.bytes_since_entry = 0
        if not position:
            self._first_timestamp = self._max_timestamp = NO_TIMESTAMP
            self._max_timestamp_offset = self.base_offset
        else:
            self._find_max_timestamp()
        self.end_offset = self.next_offset()
        return end

    def _find_max_timestamp(self) -> None:
        """From the last entry of the time index and the batches behind it."""
        self._max_timestamp, self._max_timestamp_offset = self.indexes.times().last()
        _, position = self.indexes.offsets(self.size).lookup(self._max_timestamp_offset)
        for _, header in self.headers(position):
            if header.record_timestamp_max > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset
