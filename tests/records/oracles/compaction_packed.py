"""The oracle of `kernels.compaction_packed`."""

from headrace.base.chunks import Buffer
from headrace.records.compaction.layout import PackedColumn, Parameter, StopReason, WriterState
from headrace.records.header import HEADER_BYTES, LOG_APPEND_TIME, crc_matches, join_batch, read_header
from tests.records.oracles.compaction_mapping import map_batch, see_batch
from tests.records.oracles.compaction_rewriting import keep_records, note_batch
from tests.records.oracles.records import _number


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
    while (count + 1) * len(PackedColumn) <= len(rows):
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
        rows[count * len(PackedColumn) + PackedColumn.AT] = at
        rows[count * len(PackedColumn) + PackedColumn.SIZE] = header.size
        count += 1
        at += header.size
    return count, used


def split_bodies(body: Buffer, size: int, data: Buffer, rows: memoryview, count: int) -> bool:
    """Find where each batch's records are in `body`, which has those of all; False where they do not fill it
    exactly."""
    at = 0
    for row in range(0, count * len(PackedColumn), len(PackedColumn)):
        rows[row + PackedColumn.BODY_AT] = at
        rows[row + PackedColumn.RECORDS] = read_header(data, rows[row + PackedColumn.AT]).record_count
        for _ in range(rows[row + PackedColumn.RECORDS]):
            record_size, start = _number(body, at, size, 64)
            if start < 0 or not 0 <= record_size <= size - start:
                return False
            at = start + record_size
        rows[row + PackedColumn.BODY_END] = at
    return at == size


def map_packed(
    data: Buffer,
    body: Buffer,
    rows: memoryview,
    count: int,
    position: int,
    table: bytearray | memoryview,
    params: memoryview,
    counters: memoryview,
    runs: memoryview,
) -> tuple[int, int]:
    """Put the keys of these batches into the table, as `map_batch` does; a code, and how many were put."""
    for number in range(count):
        row = number * len(PackedColumn)
        at = rows[row + PackedColumn.AT]
        header = read_header(data, at)
        code = map_batch(
            body,
            rows[row + PackedColumn.BODY_AT],
            rows[row + PackedColumn.BODY_END],
            header.record_count,
            header.base_offset,
            header.last_offset,
            position + at,
            header.size,
            table,
            params,
            counters,
            runs,
        )
        if code != StopReason.MORE:
            return code, number
    return StopReason.MORE, count


def keep_packed(
    data: Buffer,
    body: Buffer,
    rows: memoryview,
    count: int,
    room: bytearray,
    table: bytearray | memoryview,
    params: memoryview,
    state: memoryview,
) -> tuple[int, int]:
    """Look the records of these batches up, as `keep_records` does: those that stay are in `room` where some
    of their batch go. A code, and how many batches were looked at."""
    used = 0
    for number in range(count):
        row = number * len(PackedColumn)
        header = read_header(data, rows[row + PackedColumn.AT])
        horizon_ms = header.delete_horizon_ms
        kept, tombstones, max_timestamp, end, _ = keep_records(
            body,
            rows[row + PackedColumn.BODY_AT],
            rows[row + PackedColumn.BODY_END],
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            int(horizon_ms is not None and horizon_ms <= params[Parameter.NOW_MS]),
            room,
            used,
            table,
            params,
        )
        if kept < 0:
            return StopReason.BAD_RECORD, number
        rows[row + PackedColumn.KEPT], rows[row + PackedColumn.TOMBSTONES] = kept, tombstones
        rows[row + PackedColumn.MAX_TIME] = max_timestamp
        rows[row + PackedColumn.KEPT_AT], rows[row + PackedColumn.KEPT_END] = used, end
        state[WriterState.READ] += header.record_count
        state[WriterState.KEPT] += kept
        used = end
    return StopReason.MORE, count


def put_packed(
    data: Buffer,
    at: int,
    packed: Buffer,
    kept: int,
    max_timestamp: int,
    out: bytearray,
    params: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> None:
    """Write the batch at `at` anew, with the `kept` records that `packed` has, behind what `out` has."""
    header = read_header(data, at)._replace(record_count=kept)
    if not header.attributes & LOG_APPEND_TIME:
        header = header._replace(max_timestamp=max_timestamp)
    batch = join_batch(header, packed)
    out_at = state[WriterState.OUT]
    out[out_at : out_at + len(batch)] = batch
    note_batch(len(batch), header.last_offset, header.max_timestamp, params, state, index, times)
