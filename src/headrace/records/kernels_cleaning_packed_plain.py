"""The plain Python twins of `kernels_cleaning_packed`: the same answers, and the same bytes."""

from headrace.base.chunks import Buffer
from headrace.records.cleaning_layout import Code, Job, Packed, State
from headrace.records.header import HEADER_BYTES, LOG_APPEND_TIME, crc_matches, join_batch, read_header
from headrace.records.kernels_cleaning_mapping_plain import map_batch, see_batch
from headrace.records.kernels_cleaning_rewriting_plain import keep_records, note_batch
from headrace.records.kernels_plain import _number


def gather_packed(
    data: Buffer,
    at: int,
    end: int,
    mask: int,
    codec: int,
    first: int,
    last: int,
    packed: bytearray,
    rows: memoryview,
) -> tuple[int, int]:
    """Copy what the batches from `at` on have packed to `packed`, one behind the other, up to a batch of
    another kind (its attributes under `mask` are not `codec`), without records or damaged, or one with no
    offset from `first` to `last`. How many, and their bytes."""
    count = used = 0
    while (count + 1) * len(Packed) <= len(rows):
        _, header = see_batch(data, at, end)
        if header is None or header.attributes & mask != codec:
            break
        if header.last_offset < first or header.base_offset > last:
            break
        size = header.size - HEADER_BYTES
        if not size or used + size > len(packed) or not crc_matches(data, at, header):
            break
        packed[used : used + size] = memoryview(data)[at + HEADER_BYTES : at + header.size]
        used += size
        rows[count * len(Packed) + Packed.AT] = at
        rows[count * len(Packed) + Packed.SIZE] = header.size
        count += 1
        at += header.size
    return count, used


def split_bodies(body: Buffer, size: int, data: Buffer, rows: memoryview, count: int) -> bool:
    """Find where each batch's records are in `body`, which has those of all; False where they do not fill it
    exactly."""
    at = 0
    for row in range(0, count * len(Packed), len(Packed)):
        rows[row + Packed.BODY_AT] = at
        rows[row + Packed.RECORDS] = read_header(data, rows[row + Packed.AT]).record_count
        for _ in range(rows[row + Packed.RECORDS]):
            record_size, start = _number(body, at, size, 64)
            if start < 0 or not 0 <= record_size <= size - start:
                return False
            at = start + record_size
        rows[row + Packed.BODY_END] = at
    return at == size


def map_packed(
    data: Buffer,
    body: Buffer,
    rows: memoryview,
    count: int,
    position: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
    runs: memoryview,
) -> tuple[int, int]:
    """Put the keys of these batches into the table, as `map_batch` does; a code, and how many were put."""
    for number in range(count):
        row = number * len(Packed)
        at = rows[row + Packed.AT]
        header = read_header(data, at)
        code = map_batch(
            body,
            rows[row + Packed.BODY_AT],
            rows[row + Packed.BODY_END],
            header.record_count,
            header.base_offset,
            header.last_offset,
            position + at,
            header.size,
            table,
            job,
            tally,
            runs,
        )
        if code != Code.MORE:
            return code, number
    return Code.MORE, count


def keep_packed(
    data: Buffer,
    body: Buffer,
    rows: memoryview,
    count: int,
    room: bytearray,
    table: bytearray | memoryview,
    job: memoryview,
    state: memoryview,
) -> tuple[int, int]:
    """Look the records of these batches up, as `keep_records` does: those that stay are in `room` where some
    of their batch go. A code, and how many batches were looked at."""
    used = 0
    for number in range(count):
        row = number * len(Packed)
        header = read_header(data, rows[row + Packed.AT])
        horizon_ms = header.delete_horizon_ms
        kept, tombstones, max_timestamp, end, _ = keep_records(
            body,
            rows[row + Packed.BODY_AT],
            rows[row + Packed.BODY_END],
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            int(horizon_ms is not None and horizon_ms <= job[Job.NOW_MS]),
            room,
            used,
            table,
            job,
        )
        if kept < 0:
            return Code.BAD_RECORD, number
        rows[row + Packed.KEPT], rows[row + Packed.TOMBSTONES] = kept, tombstones
        rows[row + Packed.MAX_TIME] = max_timestamp
        rows[row + Packed.KEPT_AT], rows[row + Packed.KEPT_END] = used, end
        state[State.READ] += header.record_count
        state[State.KEPT] += kept
        used = end
    return Code.MORE, count


def put_packed(
    data: Buffer,
    at: int,
    packed: Buffer,
    kept: int,
    max_timestamp: int,
    out: bytearray,
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> None:
    """Write the batch at `at` anew, with the `kept` records that `packed` has, behind what `out` has."""
    header = read_header(data, at)._replace(record_count=kept)
    if not header.attributes & LOG_APPEND_TIME:
        header = header._replace(max_timestamp=max_timestamp)
    batch = join_batch(header, packed)
    out_at = state[State.OUT]
    out[out_at : out_at + len(batch)] = batch
    note_batch(len(batch), header.last_offset, header.max_timestamp, job, state, index, times)
