"""Writing the batches of a run of plain requests (`records.produce_run`): one look at the segment, one write
for all of them.

What such a batch needs besides is looked at here: its CRC, and that it is the next one its producer must
send. The first that fails ends the run. It, and all of a run that the log cannot take as it is, goes the way
of single batches (`append`), which knows what to answer.
"""

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headrace.log.faults import undo_write
from headrace.log.producer_states import NO_OFFSET, ProducerStates
from headrace.log.segment import Segment
from headrace.log.time_index import ENTRY_BYTES
from headrace.records.header import ATTRIBUTES_OFFSET, BatchHeader, read_header, stamp
from headrace.records.produce_run import RunHead, RunRow
from headrace.settings.topic import TopicConfig

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

_SEQUENCES: Final = 0x7FFFFFFF


def append_run(
    log: "PartitionLog", view: memoryview, run: RunHead, rows: list[RunRow], leader_epoch: int, now_ms: int
) -> int:
    """Append a run as leader; how many of its batches, from the first on, are in the log now."""
    first_offset = log.log_end_offset
    segment = log.segments.active
    if (
        leader_epoch < log.epochs.latest
        or not log.rules.takes(run, now_ms)
        or not _fits(log.config, segment, run, last_offset=first_offset + run.records - 1, now_ms=now_ms)
    ):
        return 0
    chunks, marks, numbered = _stamped(log.producers, view, rows, first_offset, leader_epoch)
    if not chunks:
        return 0
    try:
        segment.append(chunks)
    except OSError as error:
        undo_write(log, error)
        for chunk in chunks:
            stamp(chunk, 0, base_offset=0, leader_epoch=-1)
        return 0
    if leader_epoch > log.epochs.latest:
        log.epochs.assign(leader_epoch, first_offset)
    segment.note_batches(marks)
    log.log_end_offset = log.producers.end_offset = segment.end_offset
    for header, offset in numbered:
        log.producers.apply_data(header, offset)
    return len(chunks)


def _fits(config: TopicConfig, segment: Segment, run: RunHead, *, last_offset: int, now_ms: int) -> bool:
    """Whether the segment need not roll, and has room for an index entry for each batch."""
    return not segment.should_roll(
        config,
        batch_bytes=run.batch_bytes,
        last_offset=last_offset,
        max_timestamp=run.max_timestamp,
        now_ms=now_ms,
    ) and not segment.indexes_full(config.segment_index_bytes - ENTRY_BYTES * run.requests)


def _stamped(
    producers: ProducerStates, view: memoryview, rows: list[RunRow], offset: int, leader_epoch: int
) -> tuple[list[memoryview], list[tuple[int, int, int]], list[tuple[BatchHeader, int]]]:
    """The batches up to the first bad one with their places in the log, what their segment notes of them, and
    the headers of those that are numbered by their producers.
    """
    chunks: list[memoryview] = []
    marks: list[tuple[int, int, int]] = []
    numbered: list[tuple[BatchHeader, int]] = []
    expected: dict[int, int] = {}
    for _, _, at, size, count, max_timestamp, crc, producer_id in rows:
        chunk = view[at : at + size]
        if crc32c(chunk[ATTRIBUTES_OFFSET:]) != crc:
            break
        if producer_id >= 0:
            header = read_header(chunk)
            if not _is_next(producers, header, expected):
                break
            numbered.append((header, offset))
        stamp(chunk, 0, base_offset=offset, leader_epoch=leader_epoch)
        chunks.append(chunk)
        offset += count
        marks.append((size, offset - 1, max_timestamp))
    return chunks, marks, numbered


def _is_next(producers: ProducerStates, header: BatchHeader, expected: dict[int, int]) -> bool:
    """Whether a producer that is known goes on where it, or its last batch of this run, stopped."""
    producer_id = header.producer_id
    state = producers.producers.get(producer_id)
    if state is None or header.producer_epoch != state.epoch or state.txn_first_offset != NO_OFFSET:
        return False
    if header.base_sequence != expected.get(producer_id, state.next_sequence):
        return False
    expected[producer_id] = header.base_sequence + header.record_count & _SEQUENCES
    return True
