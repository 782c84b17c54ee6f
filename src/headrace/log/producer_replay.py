"""Producer state for an offset: the latest usable snapshot below it, what the tail before it adds, then the
batches in between."""

import contextlib

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.producer_snapshots import ProducerSnapshots
from headrace.log.producer_states import ProducerStates
from headrace.log.producer_tail import recall_batches
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.records.batch import crc_matches


def rebuild_producers(
    producers: ProducerStates,
    snapshots: ProducerSnapshots,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Make `producers` what the log up to `end_offset` says; snapshots outside of the log are removed.

    Aborted transactions are in the segments' indexes already: only the producers are told of them. A damaged
    segment is replayed as far as it can be walked: it must not keep the log from opening, nor
    open a transaction that nobody began.
    """
    snapshots.remove_outside(above=log_start_offset, up_to=end_offset)
    restore_producers(producers, snapshots, segments, log_start_offset, end_offset, now_ms)


def restore_producers(
    producers: ProducerStates,
    snapshots: ProducerSnapshots,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """The same from snapshots that are all at or below `end_offset`."""
    snapshots.load_latest(producers, log_start_offset=log_start_offset, now_ms=now_ms)
    start_offset = producers.end_offset
    recall_batches(producers, segments)
    for segment in segments.from_number(segments.number_of(start_offset)):
        if segment.base_offset >= end_offset:
            break
        with contextlib.suppress(ApiError, InvalidBytesError):
            _replay(producers, segment, start_offset, end_offset)
    producers.end_offset = end_offset


def _replay(producers: ProducerStates, segment: Segment, start_offset: int, end_offset: int) -> None:
    for _, header, batch in segment.batches(segment.locate(start_offset)):
        if header.base_offset >= end_offset:
            break
        if header.producer_id < 0 or header.last_offset < start_offset:
            continue
        if not crc_matches(batch, 0, header) and not producers.continues(header):
            continue
        completed = producers.apply(header, batch)
        if completed is not None:
            producers.complete(completed)
