"""A cleaned segment: a group of segments written once more, as one, without what is superseded.

The new segment's files carry `.cleaned` until they are whole and synced. Offsets never change. The last batch
of each producer that the log remembers stays, without records if need be: its sequence would be lost with it.
Of the last batch of a group at least the place stays, a batch of nobody and of no time with the same offsets:
so the new segment ends where the old ones did, a crash between two renames cannot bring one of them back, and
no hole opens between segments.

What the offset map remembers of a segment says which of its parts need no second look.
Files are made on the loop, in the turn in which their log is known to be there. Steps block and run in a
thread, and know no names: a log that is deleted meanwhile takes these files with its folder. A new file is on
its way to the disk while it grows, so that no sync takes long.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable
from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.log.compaction.cleaned_transaction_metadata import CleanedTransactionMetadata
from headrace.log.compaction.read_buffer import ReadBuffer
from headrace.log.disk import Disk, File
from headrace.log.file_names import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX
from headrace.log.log_segment import POSITION_MAX
from headrace.log.producer_state_manager import ProducerStateEntry
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import STORED_UNPACKED_BYTES_MAX, BatchHeader, read_header, records_section
from headrace.records.compaction.layout import SpanAction, StopReason
from headrace.records.compaction.offset_map import SegmentPart
from headrace.records.compaction.segment_writer import BatchRetention, SegmentWriter
from headrace.records.header import CODEC_MASK, CONTROL

SYNC_BYTES: Final = 4 << 20
"""So much is sent on its way to the disk at once."""
PARTS_PER_WINDOW: Final = 16
"""What is shorter is not worth a read of its own: 32 KiB with Kafka's default buffers."""


@dataclass(frozen=True, slots=True)
class LastRecords:
    """The last records of the active producers, which must stay."""

    last_offsets: frozenset[int]  # of the last data batch of each
    marker_epochs: Map[int, int]  # of those that have none in their epoch, whose marker tells it


class CleanedSegment:
    """One new segment in the making; `stem` is its name without suffixes."""

    def __init__(
        self,
        disk: Disk,
        stem: str,
        *,
        writer: SegmentWriter,
        buffer: ReadBuffer,
        transactions: CleanedTransactionMetadata,
        last_records: LastRecords,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._stem = stem
        self._writer = writer
        self._buffer = buffer
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._file: File | None = None
        self._index_files: list[File] = []
        self._aborted = b""
        self._written = self._on_its_way = 0
        self._source: File | None = None
        self._size = self._modified_ms = 0
        self._is_last = False
        self._base_offset: int | None = None
        self._parts: list[SegmentPart] | None = []
        self._part = SegmentPart(0, 0, SpanAction.CLEAN, 0)
        self.suffixes: tuple[str, ...] = (LOG, INDEX, TIME_INDEX)

    @property
    def size(self) -> int:
        return self._written

    @property
    def records_read(self) -> int:
        return self._writer.records_read

    @property
    def records_kept(self) -> int:
        return self._writer.records_kept

    # -- on the loop -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the new segment's file."""
        self._file = self._create(LOG)

    def begin_indexes(self) -> None:
        """Make the files for what `finish` is to write beside it."""
        self._aborted = b"".join(txn.encode() for txn in self._transactions.take_kept())
        if self._aborted:
            self.suffixes += (TXN_INDEX,)
        self._index_files = [self._create(suffix) for suffix in self.suffixes if suffix != LOG]

    def _create(self, suffix: str) -> File:
        """A file; one that lies about is cut. Where the topic was deleted and made again, a thread would find
        the new one's folder under this name."""
        file = self._disk.open(self._stem + suffix + CLEANED, create=True)
        file.truncate(0)
        return file

    def remove(self) -> None:
        """Give up what was made so far."""
        for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
            self._disk.remove(self._stem + suffix + CLEANED)

    def open(self, file: File, size: int, *, is_last: bool, base_offset: int | None = None) -> None:
        """Go on with a segment's file; with `base_offset` by what was remembered of it."""
        self._source = file
        self._size, self._is_last = size, is_last
        self._modified_ms = file.modified_ms()
        self._base_offset = base_offset
        self._parts = None
        self._buffer.open(file, 0, 0)

    @property
    def is_done(self) -> bool:
        """Whether the segment that was opened is dealt with."""
        return self._buffer.is_done and self._parts is not None and not self._parts

    # -- in a thread -----------------------------------------------------------------------------------------

    def step(self, bytes_max: int) -> int:
        """Go on for about so many bytes; how many were read and written."""
        with self._buffer.naming_damage():
            return self._step(bytes_max)

    def _step(self, bytes_max: int) -> int:
        moved, buffer, writer = 0, self._buffer, self._writer
        if self._parts is None:
            self._plan()
        while moved < bytes_max and not self.is_done:
            if buffer.is_done:
                self._next_part()
                continue
            last_end = buffer.last_end if self._is_last and self._part.end == self._size else -1
            if self._part.action == SpanAction.COPY:
                code, buffer.at = writer.copy(buffer.data, buffer.at, buffer.end)
            else:
                code, buffer.at = writer.clean(buffer.data, buffer.at, buffer.end, last_end=last_end)
            if code is StopReason.FULL:
                moved += self._write()
                writer.make_room(self._buffer.batch()[0].size)
            elif code is StopReason.OTHER:
                moved += self._put_others(last_end)
            elif not buffer.is_done:
                moved += buffer.fill()
        return moved

    def _plan(self) -> None:
        """Find out what becomes of the segment's parts; the last of the list comes first."""
        if self._base_offset is None:
            self._parts = [SegmentPart(0, self._size, SpanAction.CLEAN, 0)]
            return
        bytes_min = self._buffer.size // PARTS_PER_WINDOW
        self._parts = self._writer.parts(
            self._base_offset, self._size, keeps_last=self._is_last, bytes_min=bytes_min
        )
        self._parts.reverse()

    def _next_part(self) -> None:
        assert self._parts is not None
        assert self._source is not None
        self._part = self._parts.pop()
        if self._part.action == SpanAction.SKIP:
            self._writer.skip(self._part.records)
        else:
            self._buffer.open(self._source, self._part.start, self._part.end)

    def finish(self) -> int:
        """Write the rest and the indexes, and sync all; bytes written. The log is as old as the last of the
        group was: retention goes by that where records have no timestamp.

        All of it is on its way before the first file is waited for: so the file system has one commit to
        make, not one for each file.
        """
        assert self._file is not None
        moved = self._write()
        self._file.set_modified_ms(self._modified_ms)
        self._file.begin_sync(self._on_its_way, self._written - self._on_its_way)
        files = [self._file]
        contents = (*self._writer.indexes(), self._aborted)[: len(self._index_files)]
        for file, data in zip(self._index_files, contents, strict=True):
            file.write(0, (data,))
            file.begin_sync(0, len(data))
            files.append(file)
            moved += len(data)
        for file in files:
            file.sync()
        return moved

    def _write(self) -> int:
        assert self._file is not None
        data = self._writer.take()
        if not data:
            return 0
        if self._written + len(data) > POSITION_MAX:
            raise InvalidBytesError("the cleaned segment would be larger than an index can tell")
        self._file.write(self._written, (data,))
        self._written += len(data)
        if self._written - self._on_its_way >= SYNC_BYTES:
            self._file.begin_sync(self._on_its_way, self._written - self._on_its_way)
            self._on_its_way = self._written
        return len(data)

    def _put_others(self, last_end: int) -> int:
        """Batches that are packed or part of a transaction: many of those, or one."""
        buffer, writer = self._buffer, self._writer
        found = writer.unpack(buffer.data, buffer.at, buffer.end)
        if found is None:
            return self._put_other(last_end)
        moved = 0
        writer.look_up(buffer.data, found)
        for number in range(found.batches):
            at, size, *_ = found.row(number)
            moved += self._have_room(size)
            writer.put_unpacked(
                buffer.data,
                found,
                number,
                keep_empty=self._is_last_of_producer(buffer.data, at),
                keep_place=at + size == last_end,
            )
            buffer.at = at + size
        return moved

    def _is_last_of_producer(self, data: Buffer, at: int) -> bool:
        last_offsets = self._last_records.last_offsets
        return bool(last_offsets) and read_header(data, at).last_offset in last_offsets

    def _have_room(self, batch_bytes: int) -> int:
        if self._writer.has_room(batch_bytes):
            return 0
        moved = self._write()
        self._writer.make_room(batch_bytes)
        return moved

    def _put_other(self, last_end: int) -> int:
        """A batch that is packed or part of a transaction."""
        buffer, writer = self._buffer, self._writer
        header, batch = buffer.batch()
        moved = self._have_room(header.size)
        is_last = buffer.at + header.size == last_end
        is_producers = header.last_offset in self._last_records.last_offsets
        if header.is_control:
            writer.put(batch, self._retention_of_marker(header, batch, is_last), batch[61:], header)
        elif self._transactions.on_batch_read(header):
            writer.put(batch, BatchRetention(True, is_producers, is_last, False), b"", header)
        elif not header.codec:
            # As any other batch, now that it is known that its transaction was committed.
            end = buffer.at + header.size
            writer.clean(buffer.data, buffer.at, end, last_end=last_end, others=CODEC_MASK | CONTROL)
        else:
            needed = header.base_offset <= writer.latest
            body = records_section(batch, header, limit_bytes=STORED_UNPACKED_BYTES_MAX) if needed else b""
            writer.put(batch, BatchRetention(False, is_producers, is_last, False), body, header)
        buffer.at += header.size
        return moved

    def _retention_of_marker(self, header: BatchHeader, batch: memoryview, is_last: bool) -> BatchRetention:
        is_over = self._transactions.on_control_batch_read(header, batch)
        horizon_ms = header.delete_horizon_ms
        drops = is_over and (
            not header.record_count or (horizon_ms is not None and horizon_ms <= self._now_ms)
        )
        tells_epoch = self._last_records.marker_epochs.get(header.producer_id) == header.producer_epoch
        return BatchRetention(
            drop_records=drops,
            keep_empty=tells_epoch or header.last_offset in self._last_records.last_offsets,
            keep_place=is_last,
            set_horizon=is_over and not drops,
        )


# -- producers -----------------------------------------------------------------------------------------------

# A millisecond of the loop.
SLICE: Final = 4_000


class ActiveProducers:
    """What compaction must keep of the producers that a log knows: without it their sequences would be lost.

    They are as the log knows them when a round begins to write. What they do meanwhile is at the log's end,
    which no round comes to. There may be a hundred thousand: they are gone through a slice at a time, so that
    the loop serves others in between, and each group of segments is told only of those that end in it.
    """

    def __init__(self, log: UnifiedLog) -> None:
        self._states = list(log.producer_state_manager.producers.values())
        self._marker_epochs: dict[int, int] = {}
        self._runs: list[list[int]] = []  # of last offsets, each of them sorted

    def look(self) -> Generator[Callable[[], int], int, None]:
        """Go through them; yields between two slices."""
        for at in range(0, len(self._states), SLICE):
            if at:
                yield _nothing
            self._runs.append(sorted(_note(self._states[at : at + SLICE], self._marker_epochs)))
        self._states.clear()

    def between(self, start: int, end: int) -> LastRecords:
        """What concerns segments with the offsets from `start` to before `end`."""
        found: list[int] = []
        for run in self._runs:
            found += run[bisect_left(run, start) : bisect_left(run, end)]
        return LastRecords(frozenset(found), self._marker_epochs)


def _note(states: Iterable[ProducerStateEntry], marker_epochs: dict[int, int]) -> list[int]:
    """The last offsets of those that have batches; of the others, whose marker tells their epoch, that."""
    found = []
    for state in states:
        if state.batches:
            found.append(state.batches[-1].last_offset)
        else:
            marker_epochs[state.producer_id] = state.epoch
    return found


def _nothing() -> int:
    return 0
