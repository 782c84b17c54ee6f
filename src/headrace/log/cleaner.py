"""One round of compaction on one log.

A round fills the table of keys from the dirty part of the log (`cleaner_mapping`), writes the segments from
the log's start to where the table ends anew without what is superseded (`cleaner_rewriting`), and swaps them
in group by group (`cleaner_swap`). Then everything before that end is clean. What takes the place of earlier
records is synced before they go: a power cut must not take both.

`clean` is a generator that runs on the event loop and yields the work that blocks, piece by piece, for a
thread; the driver sends back how many bytes a piece has moved. Between two pieces the log may change:
retention may have dropped segments, the log may have been cut back or deleted, or its topic be compacted no
more. Segments are swapped only if they are still all there, and the round ends where they are not.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.log.cleaner_groups import group_segments, index_bytes
from headrace.log.cleaner_mapping import Mapping
from headrace.log.cleaner_picking import Cleanable, may_be_cleaned
from headrace.log.cleaner_producers import KnownProducers
from headrace.log.cleaner_rewriting import Rewriting
from headrace.log.cleaner_swap import are_in_place
from headrace.log.cleaner_transactions import CleanedTransactions
from headrace.log.cleaner_window import Window
from headrace.log.disk import File
from headrace.log.partition_log import PartitionLog
from headrace.log.segment import Segment
from headrace.log.txn_index import AbortedTxn
from headrace.records.cleaning import KeyTable
from headrace.records.cleaning_writer import SegmentWriter

# A piece of work: some ten milliseconds of a thread.
PIECE_BYTES: Final = 32 << 20
NEVER_MS: Final = 0
"""A time at which no delete marker's time has come."""

Work = Callable[[], int]
Round = Generator[Work, int, "Cleaned"]


@dataclass(slots=True)
class Cleaned:
    """What a round did; `is_whole` is False where the log changed under it and it ended early."""

    log: PartitionLog
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
class Limits:
    """Memory of a round, and how much is done at once. What is written has half as much as what is read."""

    window_bytes: int
    piece_bytes: int = PIECE_BYTES


def clean(found: Cleanable, table: KeyTable, limits: Limits, *, now_ms: int) -> Round:
    """Run it with `run_round`, or from a driver, which throws what a piece raised back in. InvalidBytesError:
    the log is damaged and cannot be cleaned; OSError: the disk failed, or is full."""
    generation = found.log.generation
    try:
        return (yield from _clean(found, table, limits, now_ms))
    except InvalidBytesError:
        if found.log.generation == generation:
            raise
        return Cleaned(found.log, found.first_dirty)  # a file was cut while it was read


def _clean(found: Cleanable, table: KeyTable, limits: Limits, now_ms: int) -> Round:
    log = found.log
    generation = log.generation
    aborted = _aborted(log, found.bound)
    window = Window(limits.window_bytes)
    mapping = Mapping(table, window, CleanedTransactions(aborted, found.first_dirty))
    yield from _fill(found, table, mapping, limits)
    done = Cleaned(log, table.latest + 1, keys=len(table))
    transactions = CleanedTransactions(aborted)
    known = KnownProducers(log)
    yield from known.look()
    last = log.segments.number_of(table.latest)
    if table.latest < found.first_dirty or last < 0 or log.generation != generation:
        return done
    segments = log.segments.from_number(0)[: last + 1]
    end_offset = log.segments.base_after(last) or log.log_end_offset
    for group in group_segments(segments, end_offset, log.config):
        rewriting = _rewriting(log, group, table, window, transactions, known, now_ms)
        try:
            yield from _rewrite(rewriting, group, limits)
            if not may_be_cleaned(log) or log.generation != generation or not are_in_place(log, group):
                rewriting.remove()
                return done
        except BaseException:
            if log.failure is None:  # else its folder is elsewhere by now
                rewriting.remove()
            raise
        _swap(log, group, rewriting, now_ms)
        _count(done, group, rewriting)
    yield partial(_sync_folder, log)
    done.is_whole = log.failure is None and log.generation == generation
    if done.is_whole:
        log.cleaned_to = done.end_offset
    return done


def run_round(work: Round) -> Cleaned:
    """Do all the work here and now, for tools and tests."""
    try:
        piece = next(work)
        while True:
            piece = next_piece(work, piece)
    except StopIteration as stop:
        result: Cleaned = stop.value
        return result


def next_piece(work: Round, piece: Work) -> Work:
    """Do one piece here and now; StopIteration with what was done at the end."""
    try:
        moved = piece()
    except BaseException as error:
        return work.throw(error)
    return work.send(moved)


def _fill(found: Cleanable, table: KeyTable, mapping: Mapping, limits: Limits) -> Generator[Work, int, None]:
    log = found.log
    yield partial(_begin, table, found.first_dirty, found.bound)
    offset = found.first_dirty
    names_are_durable = True
    while offset < found.bound and not mapping.is_full:
        number = log.segments.number_of(offset)
        if log.failure is not None or number < 0:
            return
        segment = log.segments[number]
        file = segment.file
        mapping.open(file, segment.near(offset), segment.size, base_offset=segment.base_offset)
        while not mapping.is_done:
            yield partial(mapping.step, limits.piece_bytes)
        offset = log.segments.base_after(log.segments.number_of(segment.base_offset)) or found.bound
        if not mapping.is_full:
            table.skip_to(min(offset, found.bound) - 1)
        if offset > log.recovery_point:
            yield partial(_sync, file)
            names_are_durable = False
    if not names_are_durable:
        yield partial(_sync_folder, log)
    yield partial(_count_live, table)


def _begin(table: KeyTable, start: int, end: int) -> int:
    table.begin(start, end)
    return 0


def _count_live(table: KeyTable) -> int:
    table.count_live()
    return 0


def _rewrite(rewriting: Rewriting, group: list[Segment], limits: Limits) -> Generator[Work, int, None]:
    rewriting.begin()
    for segment in group:
        rewriting.open(
            segment.file, segment.size, is_last=segment is group[-1], base_offset=segment.base_offset
        )
        while not rewriting.is_done:
            yield partial(rewriting.step, limits.piece_bytes)
    rewriting.begin_indexes()
    yield rewriting.finish


def _rewriting(
    log: PartitionLog,
    group: list[Segment],
    table: KeyTable,
    window: Window,
    transactions: CleanedTransactions,
    known: KnownProducers,
    now_ms: int,
) -> Rewriting:
    config = log.config
    end_offset = log.segments.base_after(log.segments.number_of(group[-1].base_offset)) or log.log_end_offset
    producers = known.between(group[0].base_offset, end_offset)
    horizon_ms = now_ms + config.delete_retention_ms
    if config.remote_storage_enable:
        # What a delete marker deletes may be in the remote store: there it goes, and the marker after it.
        now_ms = NEVER_MS
    writer = SegmentWriter(
        table,
        base_offset=group[0].base_offset,
        now_ms=now_ms,
        delete_retention_ms=horizon_ms - now_ms,
        index_interval_bytes=config.index_interval_bytes,
        index_bytes_max=min(
            index_bytes(sum(segment.size for segment in group), config), config.segment_index_bytes
        ),
        kept_offsets=producers.last_offsets,
        room_bytes=window.size // 2,
    )
    return Rewriting(
        log.storage.disk,
        group[0].stem,
        writer=writer,
        window=window,
        transactions=transactions,
        producers=producers,
        now_ms=now_ms,
    )


def _swap(log: PartitionLog, group: list[Segment], rewriting: Rewriting, now_ms: int) -> None:
    new = Segment(
        log.storage,
        log.folder,
        group[0].base_offset,
        size=rewriting.size,
        config=log.config,
        created_ms=group[-1].created_ms,
        has_aborted=len(rewriting.suffixes) > 3,
    )
    log.swap_in(group, new, rewriting.suffixes, now_ms=now_ms)


def _count(done: Cleaned, group: list[Segment], rewriting: Rewriting) -> None:
    done.segments_before += len(group)
    done.segments_after += 1
    done.bytes_before += sum(segment.size for segment in group)
    done.bytes_after += rewriting.size
    done.records_read += rewriting.records_read
    done.records_kept += rewriting.records_kept


def _sync(file: File) -> int:
    file.sync()
    return 0


def _sync_folder(log: PartitionLog) -> int:
    log.storage.disk.sync_folder(log.folder)
    return 0


def _aborted(log: PartitionLog, bound: int) -> list[AbortedTxn]:
    """Those that have begun before `bound`; their markers may lie behind it."""
    return [txn for segment in log.segments for txn in segment.indexes.aborted() if txn.first_offset < bound]
