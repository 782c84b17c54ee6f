"""Producer state for an offset: the latest usable snapshot below it, what the tail before it adds, then the
batches in between.

A snapshot has room for one batch of each producer, but a producer has up to five requests in flight, and
repeats all of them when a restart cuts its connection. Apache Kafka refuses the older ones then. The log
still has them, so after a restore the batches right before the snapshot are walked, headers only, and
whatever leads without a gap to the batch that the snapshot names is remembered too. Nothing but an unbroken
chain of sequences in one epoch is believed, so damage in the tail costs memory of batches, and never makes
one up.
"""

import contextlib
from itertools import pairwise
from typing import Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.log_segment import LogSegment
from headrace.log.log_segments import LogSegments
from headrace.log.producer_snapshots import ProducerSnapshots
from headrace.log.producer_state_manager import (
    BATCHES_KEPT,
    BatchMetadata,
    ProducerStateEntry,
    ProducerStateManager,
)
from headrace.records.batch import BatchHeader, crc_matches


def rebuild_producers(
    producers: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: LogSegments,
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
    producers: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: LogSegments,
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


def _replay(producers: ProducerStateManager, segment: LogSegment, start_offset: int, end_offset: int) -> None:
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


# -- a producer's last batches, from the log's tail ----------------------------------------------------------

# Enough, in the end, for five batches of the largest usual size, 1 MiB.
SPAN_BYTES: Final = (64 << 10, 256 << 10, 1 << 20, 6 << 20)
# A node may have to do this for thousands of logs: with so many headers seen it looks no further.
HEADERS_ENOUGH: Final = 300


def recall_batches(producers: ProducerStateManager, segments: LogSegments) -> None:
    """Add to each producer, as a snapshot restored it, the batches that came before the one it names.

    The walk starts small, grows only while producers lack batches, and ends after a number of headers or
    bytes, whichever comes first.
    """
    wanted = {state.producer_id: state for state in producers.producers.values() if _may_lack(state)}
    if not wanted:
        return
    for span_bytes in SPAN_BYTES:
        headers, is_all = _headers_before(segments, producers.end_offset, span_bytes)
        found: dict[int, list[BatchMetadata]] = {producer_id: [] for producer_id in wanted}
        for header in headers:
            state = wanted.get(header.producer_id)
            if state is not None and header.producer_epoch == state.epoch and not header.is_control:
                found[header.producer_id].append(_mark(header))
        for producer_id, marks in found.items():
            _lead_to_last(wanted[producer_id], marks)
        if is_all or len(headers) >= HEADERS_ENOUGH or not any(map(_may_lack, wanted.values())):
            break


def _may_lack(state: ProducerStateEntry) -> bool:
    """Whether the batches it has are neither as many as are kept nor all there ever were."""
    return 0 < len(state.batches) < BATCHES_KEPT and state.batches[0].first_sequence != 0


def _mark(header: BatchHeader) -> BatchMetadata:
    return BatchMetadata(
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
    )


def _lead_to_last(state: ProducerStateEntry, marks: list[BatchMetadata]) -> None:
    """Keep the marks, oldest first, that lead to the producer's last batch without a gap."""
    last = state.batches[-1]
    chain = [last]
    before = [mark for mark in marks if mark.last_offset < last.first_offset]
    for later, earlier in pairwise([last, *reversed(before)]):
        follows = earlier.last_sequence + 1 & 0x7FFFFFFF == later.first_sequence
        if not follows or earlier.last_offset >= later.first_offset or len(chain) == BATCHES_KEPT:
            break
        chain.insert(0, earlier)
    state.batches = chain


def _headers_before(
    segments: LogSegments, end_offset: int, span_bytes: int
) -> tuple[list[BatchHeader], bool]:
    """Headers of about the last `span_bytes` before an offset, and whether the log has no others there.

    What cannot be walked ends the look back: batches before damage lead to nothing.
    """
    headers: list[BatchHeader] = []
    number = segments.number_of(end_offset - 1)
    with contextlib.suppress(ApiError, InvalidBytesError):
        while number >= 0 and span_bytes > 0 and len(headers) < HEADERS_ENOUGH:
            segment = segments[number]
            end = segment.locate(end_offset)
            start = segment.start_before(end - span_bytes)
            headers = _walk(segment, start, end) + headers
            span_bytes -= end - start
            if start:
                return headers, False
            number -= 1
    return headers, True


def _walk(segment: LogSegment, start: int, end: int) -> list[BatchHeader]:
    headers = []
    for position, header in segment.headers(start):
        if position >= end:
            break
        headers.append(header)
    return headers
