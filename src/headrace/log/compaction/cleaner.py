"""One round of compaction on one log.

A round fills the table of keys from the dirty part of the log (`OffsetMapBuilder`), writes the segments from
the log's start to where the table ends once more without what is superseded (`CleanedSegment`), and puts them
in place group by group (`UnifiedLog.replace_segments`). Then everything before that end is clean. What takes
the place of earlier records is synced before they go: a power cut must not take both.

`Cleaner.clean` is a generator that runs on the event loop and yields the work that blocks, piece by piece,
for a thread; the driver sends back how many bytes a piece has moved. Between two pieces the log may change:
retention may have dropped segments, the log may have been truncated or deleted, or its topic be compacted no
more. Segments are replaced only if they are still all there, and the round ends where they are not.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.compaction.cleaned_segment import ActiveProducers, CleanedSegment
from headrace.log.compaction.cleaned_transaction_metadata import CleanedTransactionMetadata
from headrace.log.compaction.log_to_clean import LogToClean, may_be_cleaned
from headrace.log.compaction.read_buffer import ReadBuffer
from headrace.log.disk import File
from headrace.log.log_segment import POSITION_MAX, RELATIVE_OFFSET_MAX, LogSegment
from headrace.log.log_segments import are_in_place
from headrace.log.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from headrace.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headrace.log.transaction_index import AbortedTxn
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import STORED_UNPACKED_BYTES_MAX, records_section
from headrace.records.compaction.layout import StopReason
from headrace.records.compaction.offset_map import UNKNOWN, OffsetMap
from headrace.records.compaction.segment_writer import SegmentWriter
from headrace.settings.topic import TopicConfig

# A piece of work: some ten milliseconds of a thread.
PIECE_BYTES: Final = 32 << 20
NEVER_MS: Final = 0
"""A time at which no delete marker's time has come."""

Work = Callable[[], int]
Round = Generator[Work, int, "CleanerStats"]


@dataclass(slots=True)
class CleanerStats:
    """What a round did; `is_whole` is False where the log changed under it and it ended early."""

    log: UnifiedLog
    end_offset: int
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """Memory of a round, and how much is done at once. What is written has half as much as what is read."""

    buffer_bytes: int
    piece_bytes: int = PIECE_BYTES


class OffsetMapBuilder:
    """Fills the table of keys from the dirty part of a log, segment by segment.

    Its steps block and run in a thread, a bounded number of bytes each. Control batches and aborted records
    stay out: a value that never was must not take the place of one that is.
    """

    def __init__(
        self, table: OffsetMap, buffer: ReadBuffer, transactions: CleanedTransactionMetadata
    ) -> None:
        self._table = table
        self._buffer = buffer
        self._transactions = transactions
        self._origin = UNKNOWN
        self.is_full = False

    def open(self, file: File, position: int, end: int, *, base_offset: int | None = None) -> None:
        """Go on with a segment's file, from `position`, where a batch starts. With `base_offset` it is
        remembered what there is in it."""
        self._buffer.open(file, position, end)
        self._origin = UNKNOWN if base_offset is None else self._table.open(base_offset, end)

    @property
    def is_done(self) -> bool:
        """Whether the segment that was opened is in the table, or the table is full."""
        return self.is_full or self._buffer.is_done

    def step(self, bytes_max: int) -> int:
        """Go on for about so many bytes; how many were read. Blocks."""
        with self._buffer.naming_damage():
            return self._step(bytes_max)

    def _step(self, bytes_max: int) -> int:
        read = 0
        buffer = self._buffer
        while read < bytes_max and not self.is_done:
            code, buffer.at = self._table.add(
                buffer.data, buffer.at, buffer.end, position=self._origin + buffer.origin
            )
            if code is StopReason.OTHER:
                if not self._add_packed():
                    self._add_other()
            elif code is StopReason.FULL:
                self.is_full = True
            elif not buffer.is_done:
                read += buffer.fill()
        return read

    def _add_packed(self) -> bool:
        """Packed batches, many at once; False where they are not of that kind."""
        buffer = self._buffer
        found = self._table.unpack(buffer.data, buffer.at, buffer.end)
        if found is None:
            return False
        code, buffer.at = self._table.add_unpacked(buffer.data, found, position=self._origin + buffer.origin)
        self.is_full = code is StopReason.FULL
        return True

    def _add_other(self) -> None:
        header, batch = self._buffer.batch()
        if header.is_control:
            self._transactions.on_control_batch_read(header, batch)
            self._table.skip_to(header.last_offset)
        elif self._transactions.on_batch_read(header):
            self._table.skip_to(header.last_offset)
        else:
            body = records_section(batch, header, limit_bytes=STORED_UNPACKED_BYTES_MAX)
            # A transaction is looked at again whatever the table says.
            at = UNKNOWN if header.is_transactional else self._origin + self._buffer.origin + self._buffer.at
            self.is_full = not self._table.add_records(body, header, position=at)
        self._buffer.at += header.size


class Cleaner:
    """One round over one log. Run `clean` with `run_round`, or from a driver."""

    def __init__(self, found: LogToClean, table: OffsetMap, limits: CleanerLimits, *, now_ms: int) -> None:
        self._found = found
        self._log = found.log
        self._table = table
        self._limits = limits
        self._now_ms = now_ms
        self._generation = found.log.generation
        self._buffer = ReadBuffer(limits.buffer_bytes)

    def clean(self) -> Round:
        """A driver throws what a piece raised back in. InvalidBytesError: the log is damaged and cannot be
        cleaned; OSError: the disk failed, or is full."""
        try:
            return (yield from self._clean())
        except InvalidBytesError:
            if self._log.generation == self._generation:
                raise
            return CleanerStats(self._log, self._found.first_dirty_offset)  # a file was cut while it was read

    def _clean(self) -> Round:
        log, table, found = self._log, self._table, self._found
        aborted = _aborted(log, found.first_uncleanable_offset)
        yield from self._build_offset_map(CleanedTransactionMetadata(aborted, found.first_dirty_offset))
        stats = CleanerStats(log, table.latest + 1, keys=len(table))
        producers = ActiveProducers(log)
        yield from producers.look()
        last = log.segments.number_of(table.latest)
        if table.latest < found.first_dirty_offset or last < 0 or log.generation != self._generation:
            return stats
        segments = log.segments.from_number(0)[: last + 1]
        end_offset = log.segments.base_after(last) or log.log_end_offset
        transactions = CleanedTransactionMetadata(aborted)
        for group in group_segments_by_size(segments, end_offset, log.config):
            if not (yield from self._clean_segments(group, transactions, producers, stats)):
                return stats
        yield partial(_sync_folder, log)
        stats.is_whole = log.failure is None and log.generation == self._generation
        if stats.is_whole:
            log.cleaner_checkpoint = stats.end_offset
        return stats

    def _build_offset_map(self, transactions: CleanedTransactionMetadata) -> Generator[Work, int, None]:
        log, table, found = self._log, self._table, self._found
        builder = OffsetMapBuilder(table, self._buffer, transactions)
        bound = found.first_uncleanable_offset
        yield partial(_begin, table, found.first_dirty_offset, bound)
        offset = found.first_dirty_offset
        names_are_durable = True
        while offset < bound and not builder.is_full:
            number = log.segments.number_of(offset)
            if log.failure is not None or number < 0:
                return
            segment = log.segments[number]
            file = segment.file
            builder.open(file, segment.near(offset), segment.size, base_offset=segment.base_offset)
            while not builder.is_done:
                yield partial(builder.step, self._limits.piece_bytes)
            offset = log.segments.base_after(log.segments.number_of(segment.base_offset)) or bound
            if not builder.is_full:
                table.skip_to(min(offset, bound) - 1)
            if offset > log.recovery_point:
                yield partial(_sync, file)
                names_are_durable = False
        if not names_are_durable:
            yield partial(_sync_folder, log)
        yield partial(_count_live, table)

    def _clean_segments(
        self,
        group: list[LogSegment],
        transactions: CleanedTransactionMetadata,
        producers: ActiveProducers,
        stats: CleanerStats,
    ) -> Generator[Work, int, bool]:
        """Write a group of segments as one without what is superseded, and put it in their place; False where
        the log has changed meanwhile."""
        log = self._log
        cleaned = self._cleaned_segment(group, transactions, producers)
        try:
            cleaned.begin()
            for segment in group:
                cleaned.open(
                    segment.file, segment.size, is_last=segment is group[-1], base_offset=segment.base_offset
                )
                while not cleaned.is_done:
                    yield partial(cleaned.step, self._limits.piece_bytes)
            cleaned.begin_indexes()
            yield cleaned.finish
            if not may_be_cleaned(log) or log.generation != self._generation or not are_in_place(log, group):
                cleaned.remove()
                return False
        except BaseException:
            if log.failure is None:  # else its folder is elsewhere by now
                cleaned.remove()
            raise
        self._replace_segments(group, cleaned)
        _count(stats, group, cleaned)
        return True

    def _cleaned_segment(
        self, group: list[LogSegment], transactions: CleanedTransactionMetadata, producers: ActiveProducers
    ) -> CleanedSegment:
        log, config, now_ms = self._log, self._log.config, self._now_ms
        end_offset = (
            log.segments.base_after(log.segments.number_of(group[-1].base_offset)) or log.log_end_offset
        )
        last_records = producers.between(group[0].base_offset, end_offset)
        horizon_ms = now_ms + config.delete_retention_ms
        if config.remote_storage_enable:
            # What a delete marker deletes may be in the remote store: there it goes, and the marker after it.
            now_ms = NEVER_MS
        writer = SegmentWriter(
            self._table,
            base_offset=group[0].base_offset,
            now_ms=now_ms,
            delete_retention_ms=horizon_ms - now_ms,
            index_interval_bytes=config.index_interval_bytes,
            index_bytes_max=min(
                index_bytes(sum(segment.size for segment in group), config), config.segment_index_bytes
            ),
            kept_offsets=last_records.last_offsets,
            room_bytes=self._buffer.size // 2,
        )
        return CleanedSegment(
            log.storage.disk,
            group[0].stem,
            writer=writer,
            buffer=self._buffer,
            transactions=transactions,
            last_records=last_records,
            now_ms=now_ms,
        )

    def _replace_segments(self, group: list[LogSegment], cleaned: CleanedSegment) -> None:
        log = self._log
        new = LogSegment(
            log.storage,
            log.folder,
            group[0].base_offset,
            size=cleaned.size,
            config=log.config,
            created_ms=group[-1].created_ms,
            has_aborted=len(cleaned.suffixes) > 3,
        )
        log.replace_segments(group, new, cleaned.suffixes, now_ms=self._now_ms)


def run_round(work: Round) -> CleanerStats:
    """Do all the work here and now, for tools and tests."""
    try:
        piece = next(work)
        while True:
            piece = next_piece(work, piece)
    except StopIteration as stop:
        result: CleanerStats = stop.value
        return result


def next_piece(work: Round, piece: Work) -> Work:
    """Do one piece here and now; StopIteration with what was done at the end."""
    try:
        moved = piece()
    except BaseException as error:
        return work.throw(error)
    return work.send(moved)


def _begin(table: OffsetMap, start: int, end: int) -> int:
    table.begin(start, end)
    return 0


def _count_live(table: OffsetMap) -> int:
    table.count_live()
    return 0


def _count(stats: CleanerStats, group: list[LogSegment], cleaned: CleanedSegment) -> None:
    stats.segments_before += len(group)
    stats.segments_after += 1
    stats.bytes_before += sum(segment.size for segment in group)
    stats.bytes_after += cleaned.size
    stats.records_read += cleaned.records_read
    stats.records_kept += cleaned.records_kept


def _sync(file: File) -> int:
    file.sync()
    return 0


def _sync_folder(log: UnifiedLog) -> int:
    log.storage.disk.sync_folder(log.folder)
    return 0


def _aborted(log: UnifiedLog, bound: int) -> list[AbortedTxn]:
    """Those that have begun before `bound`; their markers may lie behind it."""
    return [txn for segment in log.segments for txn in segment.indexes.aborted() if txn.first_offset < bound]


# -- groups of segments --------------------------------------------------------------------------------------

# Their files change names in one turn of the loop: a few milliseconds for so many.
SEGMENTS_MAX: Final = 100


def group_segments_by_size(
    segments: Sequence[LogSegment], end_offset: int, config: TopicConfig
) -> list[list[LogSegment]]:
    """Neighbours that fit into one segment; `end_offset` is where the last of them ends."""
    groups: list[list[LogSegment]] = []
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    size = 0
    for segment, end in zip(segments, ends, strict=True):
        fits = (
            bool(groups)
            and len(groups[-1]) < SEGMENTS_MAX
            and size + segment.size <= min(config.segment_bytes, POSITION_MAX)
            and index_bytes(size + segment.size, config) <= config.segment_index_bytes
            and end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def index_bytes(segment_bytes: int, config: TopicConfig) -> int:
    """The most that an index of such a segment can take: one entry for each interval, and one to close it."""
    entries = segment_bytes // max(config.index_interval_bytes, 1) + 2
    return entries * max(INDEX_ENTRY_BYTES, TIME_ENTRY_BYTES)
