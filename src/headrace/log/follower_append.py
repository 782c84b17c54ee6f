"""Writing what a leader sent to a follower's log: whole batches as they are, after checking that their bytes
are whole and continue the log.

To pass through all bytes of a large answer takes long, so there are two ways. `append_as_follower` does it at
once; `append_in_slices` does the same piece by piece, and has a batch that is large by itself checked and
written in slices (`large_write`), as a leader's is.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.large_memory import LARGE_BYTES
from headrace.log.append import apply_marker
from headrace.log.faults import undo_write
from headrace.log.large_write import SLICE_BYTES, LargeWrite
from headrace.log.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from headrace.log.log_segments import roll_to
from headrace.records.batch import BatchHeader, batches, crc_matches
from headrace.records.header import ATTRIBUTES_OFFSET

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

Batches = list[tuple[int, BatchHeader]]
"""Batches with their positions in the bytes they are in."""


def append_as_follower(log: "UnifiedLog", data: Buffer, *, now_ms: int) -> int:
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


def _write_rolling(log: "UnifiedLog", view: memoryview, found: Batches, now_ms: int) -> None:
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


def _next_base(log: "UnifiedLog", header: BatchHeader) -> int:
    """The log's end, so that segments have no gap between them and recovery sees a lost end; unless offsets
    jump further than a segment can hold."""
    far = header.last_offset - log.log_end_offset > RELATIVE_OFFSET_MAX
    return header.base_offset if far else log.log_end_offset


def _checked_batches(log: "UnifiedLog", view: memoryview) -> Batches:
    try:
        found = list(batches(view))
    except InvalidBytesError as error:
        raise _corrupt(log, error) from None
    next_offset = log.log_end_offset
    for at, header in found:
        if not crc_matches(view, at, header):
            raise _corrupt(log, "a batch's CRC does not match")
        if header.base_offset < next_offset:
            raise _does_not_follow(log, header, next_offset)
        next_offset = header.next_offset
    return found


def _corrupt(log: "UnifiedLog", what: object) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: {what}")


def _does_not_follow(log: "UnifiedLog", header: BatchHeader, end: int) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{log.topic_partition} ends at {end}, a batch at {header.base_offset} cannot follow",
    )


def _write_run(log: "UnifiedLog", chunk: memoryview, run: Batches) -> None:
    """Write batches that go to one segment with one call, and take them in."""
    if not run:
        return
    segment = log.segments.active
    try:
        segment.append((chunk,))
    except OSError as error:
        raise undo_write(log, error) from error
    _take_in(log, segment, chunk, run)


def _take_in(log: "UnifiedLog", segment: LogSegment, chunk: memoryview, run: Batches) -> None:
    """Batches are written: make them part of the log."""
    segment.note_batches(
        [(header.size, header.last_offset, header.record_timestamp_max) for _, header in run]
    )
    log.log_end_offset = run[-1][1].next_offset
    for at, header in run:
        if header.leader_epoch != log.leader_epoch_cache.latest_epoch:
            log.leader_epoch_cache.note(header.leader_epoch, header.base_offset)
            log.leader_epoch_cache.reach_back_to(log.local_start_offset)
        if header.producer_id >= 0 and header.is_control:
            apply_marker(log, header, chunk[at : at + header.size])
        else:
            log.producer_state_manager.apply(header, chunk)


# -- in slices -----------------------------------------------------------------------------------------------


def append_in_slices(log: "UnifiedLog", data: Buffer, *, now_ms: int) -> Generator[None, None, None]:
    """The same, so much at a time as takes no time to speak of. What is appended stays, whatever comes of the
    rest. Ends early where somebody else has changed the log's end meanwhile."""
    end = log.log_end_offset
    for piece in _pieces(log, memoryview(data)):
        header = next(batches(piece))[1]
        if header.size <= LARGE_BYTES:
            append_as_follower(log, piece, now_ms=now_ms)
        else:
            yield from _append_large(log, piece, header, now_ms)
        if log.log_end_offset < header.next_offset:
            return
        end = log.log_end_offset
        yield
        if log.failure is not None:
            raise log.failure
        if log.log_end_offset != end:
            return


def _pieces(log: "UnifiedLog", view: memoryview) -> Iterator[memoryview]:
    """Batches that together are not large, and each large one by itself."""
    start = end = 0
    try:
        for at, header in batches(view):
            end = at + header.size
            if end - start > LARGE_BYTES:
                if at > start:
                    yield view[start:at]
                start = at
            if header.size > LARGE_BYTES:
                yield view[start:end]
                start = end
    except InvalidBytesError as error:
        raise _corrupt(log, error) from None
    if end > start:
        yield view[start:end]


def _append_large(
    log: "UnifiedLog", batch: memoryview, header: BatchHeader, now_ms: int
) -> Generator[None, None, None]:
    yield from _check_crc(log, batch, header)
    while log.large_write is not None:  # of a client, from when this replica led: it is about to be abandoned
        yield
    if log.failure is not None:
        raise log.failure
    if header.base_offset < log.log_end_offset:
        raise _does_not_follow(log, header, log.log_end_offset)
    end = log.log_end_offset
    write = LargeWrite(log, batch, None)
    try:
        while not write.is_in_place(header.leader_epoch):
            _roll_if_due(log, header, now_ms)
            if not write.may_try:
                _write_run(log, batch, [(0, header)])
                return
            write.place(header.leader_epoch)
            yield from write.slices()
            if log.failure is not None:
                raise log.failure
            if log.log_end_offset != end:
                return
        _take_in(log, log.segments.active, batch, [(0, header)])
        write.over()
    finally:
        write.abandon()


def _check_crc(log: "UnifiedLog", batch: memoryview, header: BatchHeader) -> Generator[None, None, None]:
    crc = 0
    for at in range(ATTRIBUTES_OFFSET, len(batch), SLICE_BYTES):
        crc = crc32c(batch[at : at + SLICE_BYTES], crc)
        yield
    if crc != header.crc:
        raise _corrupt(log, "a batch's CRC does not match")


def _roll_if_due(log: "UnifiedLog", header: BatchHeader, now_ms: int) -> None:
    if log.segments.active.should_roll(
        log.config,
        batch_bytes=header.size,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
        now_ms=now_ms,
    ):
        roll_to(log, _next_base(log, header), now_ms)
