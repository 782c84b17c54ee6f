"""Transactions as files tell of them: which were aborted, and how far all are decided.

A broker keeps a list of aborted transactions beside each segment (`.txnindex`), in the segment of their
markers. Where a broker runs, it says what the last stable offset is, and the lists hold everything below it:
a marker is listed before it counts.

Without a broker the last stable offset is found as a broker finds it at its start: from the latest snapshot
of the producers (`.snapshot`) and the headers of the batches behind it. Markers met on the way are added to
the lists, since those of a copy may be older than its log.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.disk import Disk, File
from headrace.log.file_names import SNAPSHOT, TXN_INDEX, parse_segment_file
from headrace.log.producer_snapshots import ProducerEntry, decode_snapshot
from headrace.log.producer_state_manager import ProducerStateManager
from headrace.log.transaction_index import ENTRY_BYTES, AbortedTxn, read_aborted
from headrace.records.batch import BatchHeader
from headrace.spark.segments.errors import DamagedSegmentError, NotInFilesError
from headrace.spark.segments.listing import ListedSegment, number_of, segment_stem
from headrace.spark.segments.places import open_segment, position_of

_NEVER_MS: Final = 1 << 62  # producers of a folder that nobody serves do not expire


class Decided(NamedTuple):
    """How far transactions are decided, and those aborted on the way there from the last snapshot."""

    last_stable_offset: int
    aborted: tuple[AbortedTxn, ...]


def aborted_between(
    disk: Disk, folder: str, segments: Sequence[ListedSegment], first: int, upto: int
) -> list[AbortedTxn]:
    """Aborted transactions with records in [first, upto), by the lists of the segments from `first` on."""
    found: list[AbortedTxn] = []
    for segment in segments[max(number_of(segments, first), 0) :]:
        for txn in _listed(disk, folder, segment):
            if txn.last_offset >= first and txn.first_offset < upto:
                found.append(txn)
            if txn.last_stable_offset >= upto:
                return found  # all that started below `upto` was decided when this one was
    return found


def _listed(disk: Disk, folder: str, segment: ListedSegment) -> list[AbortedTxn]:
    """A last entry that is being written belongs to a marker that no reader of ours may reach yet."""
    path = segment_stem(folder, segment.base_offset) + TXN_INDEX
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        if segment.has_aborted:
            raise NotInFilesError(f"{path} is gone: its segment was deleted or compacted") from None
        return []
    try:
        return list(read_aborted(data[: len(data) - len(data) % ENTRY_BYTES]))
    except InvalidBytesError as error:
        raise DamagedSegmentError(f"{path} does not tell which transactions were aborted: {error}") from None


def decide(disk: Disk, folder: str, segments: Sequence[ListedSegment], bound: int) -> Decided:
    """Follow the transactions from the latest snapshot up to `bound`, the high watermark."""
    producers = ProducerStateManager()
    start = _restore(disk, folder, producers, segments, bound)
    aborted = []
    for header, batch in _batches_of_producers(disk, folder, segments, start, bound):
        completed = producers.apply(header, batch)
        txn = None if completed is None else producers.complete(completed)
        if txn is not None:
            aborted.append(txn)
    producers.on_high_watermark(bound)
    unstable = producers.first_unstable_offset
    return Decided(bound if unstable is None else min(unstable, bound), tuple(aborted))


def _restore(
    disk: Disk, folder: str, producers: ProducerStateManager, segments: Sequence[ListedSegment], bound: int
) -> int:
    """Producers of the latest usable snapshot not behind `bound`; the offset from which to follow them."""
    parsed = [parse_segment_file(name) for name in disk.list(folder)]
    offsets = [each.base_offset for each in parsed if each and each.suffix == SNAPSHOT and not each.state]
    first = segments[0].base_offset if segments else 0
    for offset in sorted((each for each in offsets if first < each <= bound), reverse=True):
        entries = _snapshot(disk, segment_stem(folder, offset) + SNAPSHOT)
        if entries is not None:
            producers.restore(entries, offset, now_ms=0, expiry_ms=_NEVER_MS)
            return offset
    return first


def _snapshot(disk: Disk, path: str) -> list[ProducerEntry] | None:
    try:
        return decode_snapshot(disk.read_file(path))
    except (FileNotFoundError, InvalidBytesError):
        return None


def _batches_of_producers(
    disk: Disk, folder: str, segments: Sequence[ListedSegment], start: int, bound: int
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Headers of batches in [start, bound) that were written under a producer id; with markers, all bytes."""
    for segment in segments[max(number_of(segments, start), 0) :]:
        if segment.base_offset >= bound:
            return
        file = open_segment(disk, folder, segment.base_offset)
        try:
            yield from _in_file(
                file, position_of(disk, folder, segment.base_offset, file, start), start, bound
            )
        except (InvalidBytesError, OldFormatError) as error:
            raise DamagedSegmentError(f"{file.path}, below offset {bound}: {error}") from None


def _in_file(file: File, position: int, start: int, bound: int) -> Iterator[tuple[BatchHeader, bytes]]:
    for at, header in scan_headers(file, position, file.size()):
        if header.has_producer and header.last_offset >= start:
            yield header, file.read(at, header.size) if header.is_control else b""
        if header.next_offset >= bound:
            return
