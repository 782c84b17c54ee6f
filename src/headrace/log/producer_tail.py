"""A restored producer's last batches, looked up again in the log's tail.

A snapshot has room for one batch of each producer, but a producer has up to five requests in flight, and
repeats all of them when a restart cuts its connection. Apache Kafka refuses the older ones then. The log
still has them, so after a restore the batches right before the snapshot are walked, headers only, and
whatever leads without a gap to the batch that the snapshot names is remembered too.

The walk is short: it starts small, grows only while producers lack batches, and ends after a number of
headers or bytes, whichever comes first. Nothing but an unbroken chain of sequences in one epoch is believed,
so damage in the tail costs memory of batches, and never makes one up.
"""

import contextlib
from itertools import pairwise
from typing import Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.producer_states import BATCHES_KEPT, BatchMark, ProducerState, ProducerStates
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.records.batch import BatchHeader

# Enough, in the end, for five batches of the largest usual size, 1 MiB.
SPAN_BYTES: Final = (64 << 10, 256 << 10, 1 << 20, 6 << 20)
# A node may have to do this for thousands of logs: with so many headers seen it looks no further.
HEADERS_ENOUGH: Final = 300


def recall_batches(producers: ProducerStates, segments: Segments) -> None:
    """Add to each producer, as a snapshot restored it, the batches that came before the one it names."""
    wanted = {state.producer_id: state for state in producers.producers.values() if _may_lack(state)}
    if not wanted:
        return
    for span_bytes in SPAN_BYTES:
        headers, is_all = _headers_before(segments, producers.end_offset, span_bytes)
        found: dict[int, list[BatchMark]] = {producer_id: [] for producer_id in wanted}
        for header in headers:
            state = wanted.get(header.producer_id)
            if state is not None and header.producer_epoch == state.epoch and not header.is_control:
                found[header.producer_id].append(_mark(header))
        for producer_id, marks in found.items():
            _lead_to_last(wanted[producer_id], marks)
        if is_all or len(headers) >= HEADERS_ENOUGH or not any(map(_may_lack, wanted.values())):
            break


def _may_lack(state: ProducerState) -> bool:
    """Whether the batches it has are neither as many as are kept nor all there ever were."""
    return 0 < len(state.batches) < BATCHES_KEPT and state.batches[0].first_sequence != 0


def _mark(header: BatchHeader) -> BatchMark:
    return BatchMark(
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
    )


def _lead_to_last(state: ProducerState, marks: list[BatchMark]) -> None:
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


def _headers_before(segments: Segments, end_offset: int, span_bytes: int) -> tuple[list[BatchHeader], bool]:
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


def _walk(segment: Segment, start: int, end: int) -> list[BatchHeader]:
    headers = []
    for position, header in segment.headers(start):
        if position >= end:
            break
        headers.append(header)
    return headers
