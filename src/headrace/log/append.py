"""Writing batches to a log.

A leader's batch is checked (`records.validate` for clients), compared with its producer's state, given its
offset and epoch in place, and written with one call; only then does anything in memory change. Large ones
are checked by a thread and written in slices (`large_write`) first. What a follower writes is in
`follower_append`.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.large_memory import LARGE_BYTES
from headrace.log.faults import fail_log, undo_write
from headrace.log.large_write import LargeWrite, LargeWriteError, LogBusyError
from headrace.log.log_segment import LogSegment
from headrace.log.log_segments import roll_to
from headrace.log.producer_state_manager import NO_OFFSET, BatchMetadata, ProducerStateManager
from headrace.log.time_index import ENTRY_BYTES
from headrace.records.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    batches,
    read_header,
    read_txn_marker,
    stamp,
)
from headrace.records.header import ATTRIBUTES_OFFSET
from headrace.records.kernels.produce import RunHead, RunRow
from headrace.records.validate import ProducedBatch, validate_produced
from headrace.settings.topic import TopicConfig
from headrace.wire.schemas.produce import TRANSACTION_V2_SINCE

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

NO_APPEND_TIME: Final = -1

Batches = list[tuple[int, BatchHeader]]
"""Batches with their positions in the bytes they are in."""


class AppendOrigin(Enum):
    """Who wrote a leader's batch, and so how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft leader"


class LogAppendInfo(NamedTuple):
    """What a produce reply needs. Of a duplicate these are the offsets of its first arrival."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


def append_from_client(
    log: "UnifiedLog",
    batch: Buffer,
    leader_epoch: int,
    now_ms: int,
    api_version: int,
    produced: ProducedBatch | None = None,
) -> LogAppendInfo:
    """One batch of a produce request. LargeBatchError where a thread must check it first, and give it as
    `produced`; LargeWriteError where it must be written in slices first; LogBusyError while another is.
    """
    if log.large_write is not None and not log.large_write.is_of(produced):
        raise LogBusyError(log.large_write)
    is_large = produced is not None and len(produced.buffer) > LARGE_BYTES
    if produced is None:
        produced = validate_produced(batch, rules=log.rules, now_ms=now_ms, api_version=api_version)
    header: BatchHeader = produced.header
    if header.producer_id >= 0:
        duplicate = log.producer_state_manager.check(header, sequence=True)
        if header.is_transactional and api_version >= TRANSACTION_V2_SINCE:
            log.producer_state_manager.check_first(header)
        if duplicate is not None:
            return _duplicate(log, duplicate)
    first_offset = log.log_end_offset
    try:
        if is_large:
            _write_large(log, produced, first_offset, leader_epoch, now_ms)
        else:
            _write(log, produced.buffer, header, first_offset, leader_epoch, now_ms)
    except ApiError as error:
        if header.producer_id >= 0:
            log.producer_state_manager.refusals.note(header, error.code)
        raise
    append_time_ms = header.max_timestamp if header.attributes & 8 else NO_APPEND_TIME
    return LogAppendInfo(
        first_offset, first_offset + header.last_offset_delta, append_time_ms, log.log_start_offset
    )


def note_refusal(log: "UnifiedLog", batch: Buffer, error: ApiError) -> None:
    """A client's batch is refused before anything of it was looked at."""
    if len(batch) < HEADER_BYTES:
        return
    header = read_header(batch)
    if header.magic == MAGIC and header.producer_id >= 0 and not header.is_control:
        log.producer_state_manager.refusals.note(header, error.code)


def append_own(log: "UnifiedLog", data: Buffer, *, leader_epoch: int, now_ms: int) -> LogAppendInfo:
    """Batches of a coordinator or of the metadata quorum's leader: our own, so not checked as a client's
    are."""
    first_offset = log.log_end_offset
    view = memoryview(data) if not isinstance(data, bytes) else memoryview(bytearray(data))
    found = list(batches(view))
    if not found or found[-1][0] + found[-1][1].size != len(view):
        raise ApiError(ErrorCode.INVALID_RECORD, "an append takes whole batches")
    for at, header in found:
        if header.producer_id >= 0:
            _check_own(log, header, view[at : at + header.size])
    for at, header in found:
        _write(log, view[at : at + header.size], header, log.log_end_offset, leader_epoch, now_ms)
    return LogAppendInfo(first_offset, log.log_end_offset - 1, NO_APPEND_TIME, log.log_start_offset)


def _check_own(log: "UnifiedLog", header: BatchHeader, batch: Buffer) -> None:
    if header.is_control:
        log.producer_state_manager.check_marker(header, read_txn_marker(batch)[1])
    else:
        log.producer_state_manager.check(header, sequence=False)


def _duplicate(log: "UnifiedLog", mark: BatchMetadata) -> LogAppendInfo:
    append_time_ms = mark.timestamp if log.rules.log_append_time else NO_APPEND_TIME
    return LogAppendInfo(mark.first_offset, mark.last_offset, append_time_ms, log.log_start_offset, True)


def _write(
    log: "UnifiedLog",
    batch: bytearray | memoryview,
    header: BatchHeader,
    first_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> None:
    """Give a batch its place, write it, and take it in."""
    segment = _segment_for(log, header, len(batch), first_offset, leader_epoch, now_ms)
    stamp(batch, 0, base_offset=first_offset, leader_epoch=leader_epoch)
    try:
        segment.append((batch,))
    except OSError as error:
        raise undo_write(log, error) from error
    _take_in(log, segment, batch, header, first_offset, leader_epoch)


def _write_large(
    log: "UnifiedLog", produced: ProducedBatch, first_offset: int, leader_epoch: int, now_ms: int
) -> None:
    """Take in a batch that was written in slices; where it was not, or the log has changed since, have it
    written."""
    batch, header = produced.buffer, produced.header
    segment = _segment_for(log, header, len(batch), first_offset, leader_epoch, now_ms)
    write = log.large_write or LargeWrite(log, batch, produced)
    if not write.is_in_place(leader_epoch):
        if write.may_try:
            write.place(leader_epoch)
            raise LargeWriteError(write)
        stamp(batch, 0, base_offset=first_offset, leader_epoch=leader_epoch)
        try:
            segment.append((batch,))
        except OSError as error:
            raise undo_write(log, error) from error
    _take_in(log, segment, batch, header, first_offset, leader_epoch)
    write.over()


def _segment_for(
    log: "UnifiedLog", header: BatchHeader, size: int, first_offset: int, leader_epoch: int, now_ms: int
) -> LogSegment:
    """The segment that a batch of this epoch goes to, which may be a new one."""
    latest_epoch = log.leader_epoch_cache.latest_epoch
    if leader_epoch < latest_epoch:
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{log.topic_partition} was written in epoch {latest_epoch}, epoch {leader_epoch} is over",
        )
    segment = log.segments.active
    if segment.should_roll(
        log.config,
        batch_bytes=size,
        last_offset=first_offset + header.last_offset_delta,
        max_timestamp=header.max_timestamp,
        now_ms=now_ms,
    ):
        segment = roll_to(log, first_offset, now_ms)
    return segment


def _take_in(
    log: "UnifiedLog",
    segment: LogSegment,
    batch: bytearray | memoryview,
    header: BatchHeader,
    first_offset: int,
    leader_epoch: int,
) -> None:
    """A batch is written: make it part of the log."""
    last_offset = first_offset + header.last_offset_delta
    segment.note_batches(((len(batch), last_offset, header.max_timestamp),))
    log.log_end_offset = last_offset + 1
    if leader_epoch > log.leader_epoch_cache.latest_epoch:
        log.leader_epoch_cache.assign(leader_epoch, first_offset)
    if header.producer_id < 0:
        log.producer_state_manager.end_offset = last_offset + 1
    elif header.is_control:
        apply_marker(log, header._replace(base_offset=first_offset), batch)
    else:
        log.producer_state_manager.apply_data(header, first_offset)


def apply_marker(log: "UnifiedLog", header: BatchHeader, batch: Buffer) -> None:
    """Take in a control batch of a producer: an aborted transaction goes to the index before readers may pass
    it."""
    completed = log.producer_state_manager.apply(header, batch)
    if completed is None:
        return
    aborted = log.producer_state_manager.complete(completed)
    if aborted is not None:
        try:
            log.segments.active.indexes.add_aborted(aborted)
        except OSError as error:
            # Without the entry a reader would be shown aborted records: nothing here can be trusted any more.
            raise fail_log(log, error) from error


# -- runs of plain requests ----------------------------------------------------------------------------------

_SEQUENCES: Final = 0x7FFFFFFF


def append_run(
    log: "UnifiedLog", view: memoryview, run: RunHead, rows: list[RunRow], leader_epoch: int, now_ms: int
) -> int:
    """Append the batches of a run of plain requests (`records.kernels.produce`) as leader: one look at the
    segment, one write for all of them. How many, from the first on, are in the log now.

    What such a batch needs besides is checked here: its CRC, and that it is the next one its producer must
    send. The first that fails ends the run. It, and all of a run that the log cannot take as it is, goes the
    way of single batches (`append_from_client`), which knows what to answer.
    """
    first_offset = log.log_end_offset
    segment = log.segments.active
    if (
        leader_epoch < log.leader_epoch_cache.latest_epoch
        or log.large_write is not None
        or not log.rules.takes(run, now_ms)
        or not _fits(log.config, segment, run, last_offset=first_offset + run.records - 1, now_ms=now_ms)
    ):
        return 0
    chunks, marks, numbered = _stamped(log.producer_state_manager, view, rows, first_offset, leader_epoch)
    if not chunks:
        return 0
    try:
        segment.append(chunks)
    except OSError as error:
        undo_write(log, error)
        for chunk in chunks:
            stamp(chunk, 0, base_offset=0, leader_epoch=-1)
        return 0
    if leader_epoch > log.leader_epoch_cache.latest_epoch:
        log.leader_epoch_cache.assign(leader_epoch, first_offset)
    segment.note_batches(marks)
    log.log_end_offset = log.producer_state_manager.end_offset = segment.end_offset
    for header, offset in numbered:
        log.producer_state_manager.apply_data(header, offset)
    return len(chunks)


def _fits(config: TopicConfig, segment: LogSegment, run: RunHead, *, last_offset: int, now_ms: int) -> bool:
    """Whether the segment need not roll, and has room for an index entry for each batch."""
    return not segment.should_roll(
        config,
        batch_bytes=run.batch_bytes,
        last_offset=last_offset,
        max_timestamp=run.max_timestamp,
        now_ms=now_ms,
    ) and not segment.indexes_full(config.segment_index_bytes - ENTRY_BYTES * run.requests)


def _stamped(
    producers: ProducerStateManager, view: memoryview, rows: list[RunRow], offset: int, leader_epoch: int
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


def _is_next(producers: ProducerStateManager, header: BatchHeader, expected: dict[int, int]) -> bool:
    """Whether a producer that is known goes on where it, or its last batch of this run, stopped."""
    producer_id = header.producer_id
    state = producers.producers.get(producer_id)
    if state is None or header.producer_epoch != state.epoch or state.txn_first_offset != NO_OFFSET:
        return False
    if header.base_sequence != expected.get(producer_id, state.next_sequence):
        return False
    expected[producer_id] = header.base_sequence + header.record_count & _SEQUENCES
    return True
