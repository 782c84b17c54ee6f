"""Writing batches to a log.

A leader's batch is checked (`records.validate` for clients), compared with its producer's state, given its
offset and epoch in place, and written with one call; only then does anything in memory change. A follower
writes what its leader decided, after checking that the bytes are whole and continue the log.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.faults import fail, undo_write
from headrace.log.producer_states import BatchMark
from headrace.log.roll import roll_to
from headrace.log.segment import RELATIVE_OFFSET_MAX
from headrace.records.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    batches,
    crc_matches,
    read_header,
    read_txn_marker,
    stamp,
)
from headrace.records.validate import validate_produced

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

NO_APPEND_TIME: Final = -1

Batches = list[tuple[int, BatchHeader]]
"""Batches with their positions in the bytes they are in."""


class Origin(Enum):
    """Who wrote a leader's batch, and so how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft leader"


class AppendResult(NamedTuple):
    """What a produce reply needs. Of a duplicate these are the offsets of its first arrival."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


EPOCH_PER_TXN_SINCE: Final = 12
"""The version of Produce whose producers have a new epoch for each transaction (KIP-890)."""


def append_from_client(
    log: "PartitionLog", batch: Buffer, leader_epoch: int, now_ms: int, api_version: int
) -> AppendResult:
    """One batch of a produce request."""
    produced = validate_produced(batch, rules=log.rules, now_ms=now_ms, api_version=api_version)
    header: BatchHeader = produced.header
    if header.producer_id >= 0:
        duplicate = log.producers.check(header, sequence=True)
        if header.is_transactional and api_version >= EPOCH_PER_TXN_SINCE:
            log.producers.check_first(header)
        if duplicate is not None:
            return _duplicate(log, duplicate)
    first_offset = log.log_end_offset
    try:
        _write(log, produced.buffer, header, first_offset, leader_epoch, now_ms)
    except ApiError as error:
        if header.producer_id >= 0:
            log.producers.refusals.note(header, error.code)
        raise
    append_time_ms = header.max_timestamp if header.attributes & 8 else NO_APPEND_TIME
    return AppendResult(
        first_offset, first_offset + header.last_offset_delta, append_time_ms, log.log_start_offset
    )


def note_refusal(log: "PartitionLog", batch: Buffer, error: ApiError) -> None:
    """A client's batch is refused before anything of it was looked at."""
    if len(batch) < HEADER_BYTES:
        return
    header = read_header(batch)
    if header.magic == MAGIC and header.producer_id >= 0 and not header.is_control:
        log.producers.refusals.note(header, error.code)


def append_own(log: "PartitionLog", data: Buffer, *, leader_epoch: int, now_ms: int) -> AppendResult:
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
    return AppendResult(first_offset, log.log_end_offset - 1, NO_APPEND_TIME, log.log_start_offset)


def _check_own(log: "PartitionLog", header: BatchHeader, batch: Buffer) -> None:
    if header.is_control:
        log.producers.check_marker(header, read_txn_marker(batch)[1])
    else:
        log.producers.check(header, sequence=False)


def _duplicate(log: "PartitionLog", mark: BatchMark) -> AppendResult:
    append_time_ms = mark.timestamp if log.rules.log_append_time else NO_APPEND_TIME
    return AppendResult(mark.first_offset, mark.last_offset, append_time_ms, log.log_start_offset, True)


def _write(
    log: "PartitionLog",
    batch: bytearray | memoryview,
    header: BatchHeader,
    first_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> None:
    """Give a batch its place, write it, and take it in."""
    size = len(batch)
    latest_epoch = log.epochs.latest
    if leader_epoch < latest_epoch:
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{log.topic_partition} was written in epoch {latest_epoch}, epoch {leader_epoch} is over",
        )
    last_offset = first_offset + header.last_offset_delta
    segment = log.segments.active
    if segment.should_roll(
        log.config,
        batch_bytes=size,
        last_offset=last_offset,
        max_timestamp=header.max_timestamp,
        now_ms=now_ms,
    ):
        segment = roll_to(log, first_offset, now_ms)
    stamp(batch, 0, base_offset=first_offset, leader_epoch=leader_epoch)
    try:
        segment.append((batch,))
    except OSError as error:
        raise undo_write(log, error) from error
    segment.note_batches(((size, last_offset, header.max_timestamp),))
    log.log_end_offset = last_offset + 1
    if leader_epoch > latest_epoch:
        log.epochs.assign(leader_epoch, first_offset)
    if header.producer_id < 0:
        log.producers.end_offset = last_offset + 1
    elif header.is_control:
        apply_marker(log, header._replace(base_offset=first_offset), batch)
    else:
        log.producers.apply_data(header, first_offset)


def apply_marker(log: "PartitionLog", header: BatchHeader, batch: Buffer) -> None:
    """Take in a control batch of a producer: an aborted transaction goes to the index before readers may pass
    it."""
    completed = log.producers.apply(header, batch)
    if completed is None:
        return
    aborted = log.producers.complete(completed)
    if aborted is not None:
        try:
            log.segments.active.indexes.add_aborted(aborted)
        except OSError as error:
            # Without the entry a reader would be shown aborted records: nothing here can be trusted any more.
            raise fail(log, error) from error


# -- followers -----------------------------------------------------------------------------------------------


def append_as_follower(log: "PartitionLog", data: Buffer, *, now_ms: int) -> int:
    """Write the whole batches of a fetched response, as their leader numbered them; the new end offset.

    A batch that was cut at the end of the response is left out. ApiError where bytes are corrupt, or where
    they do not continue the log.
    """
    view = memoryview(data)
    found = _checked_batches(log, view)
    if not found:
        return log.log_end_offset
    at, last = found[-1]
    if log.segments.active.should_roll(
        log.config,
        batch_bytes=at + last.size,
        last_offset=last.last_offset,
        max_timestamp=max(header.max_timestamp for _, header in found),
        now_ms=now_ms,
    ):
        _write_rolling(log, view, found, now_ms)
    else:
        _write_run(log, view[: at + last.size], found)
    return log.log_end_offset


def _write_rolling(log: "PartitionLog", view: memoryview, found: Batches, now_ms: int) -> None:
    """Write batches that do not all go to the active segment."""
    run_at = run_end = 0
    run: Batches = []
    segment, run_bytes = log.segments.active, 0
    for at, header in found:
        if segment.should_roll(
            log.config,
            batch_bytes=run_bytes + header.size,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
            now_ms=now_ms,
        ):
            _write_run(log, view[run_at:run_end], run)
            run, run_at, run_bytes = [], at, 0
            segment = roll_to(log, _next_base(log, header), now_ms)
        run.append((at - run_at, header))
        run_end = at + header.size
        run_bytes += header.size
    _write_run(log, view[run_at:run_end], run)


def _next_base(log: "PartitionLog", header: BatchHeader) -> int:
    """The log's end, so that segments have no gap between them and recovery sees a lost end; unless offsets
    jump further than a segment can hold."""
    far = header.last_offset - log.log_end_offset > RELATIVE_OFFSET_MAX
    return header.base_offset if far else log.log_end_offset


def _checked_batches(log: "PartitionLog", view: memoryview) -> Batches:
    try:
        found = list(batches(view))
    except InvalidBytesError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: {error}") from None
    next_offset = log.log_end_offset
    for at, header in found:
        if not crc_matches(view, at, header):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: a batch's CRC does not match")
        if header.base_offset < next_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.topic_partition} ends at {next_offset}, a batch at {header.base_offset} cannot follow",
            )
        next_offset = header.next_offset
    return found


def _write_run(log: "PartitionLog", chunk: memoryview, run: Batches) -> None:
    """Write batches that go to one segment with one call, and take them in."""
    if not run:
        return
    segment = log.segments.active
    try:
        segment.append((chunk,))
    except OSError as error:
        raise undo_write(log, error) from error
    segment.note_batches(
        [(header.size, header.last_offset, header.record_timestamp_max) for _, header in run]
    )
    log.log_end_offset = run[-1][1].next_offset
    for at, header in run:
        if header.leader_epoch != log.epochs.latest:
            log.epochs.note(header.leader_epoch, header.base_offset)
            log.epochs.reach_back_to(log.local_start_offset)
        if header.producer_id >= 0 and header.is_control:
            apply_marker(log, header, chunk[at : at + header.size])
        else:
            log.producers.apply(header, chunk)
