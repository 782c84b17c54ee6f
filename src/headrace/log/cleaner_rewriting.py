"""The second half of a round: a group of segments written anew, as one, without what is superseded.

The new segment's files carry `.cleaned` until they are whole and synced. Offsets never change. The last batch
of each producer that the log remembers stays, without records if need be: its sequence would be lost with it.
Of the last batch of a group at least the place stays, a batch of nobody and of no time with the same offsets:
so the new segment ends where the old ones did, a crash between two renames cannot bring one of them back, and
no hole opens between segments.

What the first half remembers of a segment (`cleaning_runs`) says which of its parts need no second look.
Files are made on the loop, in the turn in which their log is known to be there. Steps block and run in a
thread, and know no names: a log that is deleted meanwhile takes these files with its folder. A new file is on
its way to the disk while it grows, so that no sync takes long.
"""

from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Final

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.log.cleaner_transactions import CleanedTransactions
from headrace.log.cleaner_window import Window
from headrace.log.disk import Disk, File
from headrace.log.file_names import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX
from headrace.log.segment import POSITION_MAX
from headrace.records.batch import UNPACKED_BYTES_MAX, BatchHeader, read_header, records_section
from headrace.records.cleaning_layout import Code, Fate
from headrace.records.cleaning_runs import Part
from headrace.records.cleaning_writer import SegmentWriter, Wish
from headrace.records.header import CODEC_MASK, CONTROL

SYNC_BYTES: Final = 4 << 20
"""So much is sent on its way to the disk at once."""
PARTS_PER_WINDOW: Final = 16
"""What is shorter is not worth a read of its own: 32 KiB with Kafka's default buffers."""


@dataclass(frozen=True, slots=True)
class Producers:
    """What must stay of the producers that the log knows."""

    last_offsets: frozenset[int]  # of the last data batch of each
    marker_epochs: Map[int, int]  # of those that have none in their epoch, whose marker tells it


class Rewriting:
    """One new segment in the making; `stem` is its name without suffixes."""

    def __init__(
        self,
        disk: Disk,
        stem: str,
        *,
        writer: SegmentWriter,
        window: Window,
        transactions: CleanedTransactions,
        producers: Producers,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._stem = stem
        self._writer = writer
        self._window = window
        self._transactions = transactions
        self._producers = producers
        self._now_ms = now_ms
        self._file: File | None = None
        self._index_files: list[File] = []
        self._aborted = b""
        self._written = self._on_its_way = 0
        self._source: File | None = None
        self._size = self._modified_ms = 0
        self._is_last = False
        self._base_offset: int | None = None
        self._parts: list[Part] | None = []
        self._part = Part(0, 0, Fate.CLEAN, 0)
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
        self._window.open(file, 0, 0)

    @property
    def is_done(self) -> bool:
        """Whether the segment that was opened is dealt with."""
        return self._window.is_done and self._parts is not None and not self._parts

    # -- in a thread -----------------------------------------------------------------------------------------

    def step(self, bytes_max: int) -> int:
        """Go on for about so many bytes; how many were read and written."""
        with self._window.naming_damage():
            return self._step(bytes_max)

    def _step(self, bytes_max: int) -> int:
        moved, window, writer = 0, self._window, self._writer
        if self._parts is None:
            self._plan()
        while moved < bytes_max and not self.is_done:
            if window.is_done:
                self._next_part()
                continue
            last_end = window.last_end if self._is_last and self._part.end == self._size else -1
            if self._part.fate == Fate.COPY:
                code, window.at = writer.copy(window.data, window.at, window.end)
            else:
                code, window.at = writer.clean(window.data, window.at, window.end, last_end=last_end)
            if code is Code.FULL:
                moved += self._write()
                writer.make_room(self._window.batch()[0].size)
            elif code is Code.OTHER:
                moved += self._put_others(last_end)
            elif not window.is_done:
                moved += window.fill()
        return moved

    def _plan(self) -> None:
        """Find out what becomes of the segment's parts; the last of the list comes first."""
        if self._base_offset is None:
            self._parts = [Part(0, self._size, Fate.CLEAN, 0)]
            return
        bytes_min = self._window.size // PARTS_PER_WINDOW
        self._parts = self._writer.parts(
            self._base_offset, self._size, keeps_last=self._is_last, bytes_min=bytes_min
        )
        self._parts.reverse()

    def _next_part(self) -> None:
        assert self._parts is not None
        assert self._source is not None
        self._part = self._parts.pop()
        if self._part.fate == Fate.SKIP:
            self._writer.skip(self._part.records)
        else:
            self._window.open(self._source, self._part.start, self._part.end)

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
        window, writer = self._window, self._writer
        found = writer.unpack(window.data, window.at, window.end)
        if found is None:
            return self._put_other(last_end)
        moved = 0
        writer.look_up(window.data, found)
        for number in range(found.batches):
            at, size, *_ = found.row(number)
            moved += self._have_room(size)
            writer.put_unpacked(
                window.data,
                found,
                number,
                keep_empty=self._is_last_of_producer(window.data, at),
                keep_place=at + size == last_end,
            )
            window.at = at + size
        return moved

    def _is_last_of_producer(self, data: Buffer, at: int) -> bool:
        last_offsets = self._producers.last_offsets
        return bool(last_offsets) and read_header(data, at).last_offset in last_offsets

    def _have_room(self, batch_bytes: int) -> int:
        if self._writer.has_room(batch_bytes):
            return 0
        moved = self._write()
        self._writer.make_room(batch_bytes)
        return moved

    def _put_other(self, last_end: int) -> int:
        """A batch that is packed or part of a transaction."""
        window, writer = self._window, self._writer
        header, batch = window.batch()
        moved = self._have_room(header.size)
        is_last = window.at + header.size == last_end
        is_producers = header.last_offset in self._producers.last_offsets
        if header.is_control:
            writer.put(batch, self._wish_for_marker(header, batch, is_last), batch[61:], header)
        elif self._transactions.is_aborted(header):
            writer.put(batch, Wish(True, is_producers, is_last, False), b"", header)
        elif not header.codec:
            # As any other batch, now that it is known that its transaction was committed.
            end = window.at + header.size
            writer.clean(window.data, window.at, end, last_end=last_end, others=CODEC_MASK | CONTROL)
        else:
            needed = header.base_offset <= writer.latest
            body = records_section(batch, header, limit_bytes=UNPACKED_BYTES_MAX) if needed else b""
            writer.put(batch, Wish(False, is_producers, is_last, False), body, header)
        window.at += header.size
        return moved

    def _wish_for_marker(self, header: BatchHeader, batch: memoryview, is_last: bool) -> Wish:
        is_over = self._transactions.is_over(header, batch)
        horizon_ms = header.delete_horizon_ms
        drops = is_over and (
            not header.record_count or (horizon_ms is not None and horizon_ms <= self._now_ms)
        )
        tells_epoch = self._producers.marker_epochs.get(header.producer_id) == header.producer_epoch
        return Wish(
            drop_records=drops,
            keep_empty=tells_epoch or header.last_offset in self._producers.last_offsets,
            keep_place=is_last,
            set_horizon=is_over and not drops,
        )
