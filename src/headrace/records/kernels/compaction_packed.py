"""Batches packed with zstd, many at once: gathered, taken apart, put into the offset map, looked up in it,
and rewritten."""

from typing import Final

from headrace.records.kernels.compaction_mapping import map_batch
from headrace.records.kernels.compaction_parts import TURN_BYTES, next_turn, read_varint, see_batch
from headrace.records.kernels.compaction_rewriting import keep_records, note_batch
from headrace.records.kernels.notation import (
    Bytes,
    Cells,
    Numbers,
    Room,
    Words,
    copy,
    crc32c,
    kernel,
    put_signed,
    signed_at,
)

# Those of `compaction.layout` as plain numbers: constants cost nothing.
_MORE, _BAD_RECORD = 0, 5
_AT, _SIZE, _BODY_AT, _BODY_END, _RECORDS, _KEPT, _TOMBSTONES, _MAX_TIME, _KEPT_AT, _KEPT_END = range(10)
_PACKED: Final = 10
_NOW_MS: Final = 6
_S_OUT, _S_READ, _S_KEPT = 0, 8, 9


@kernel
def gather_packed(
    data: Bytes,
    at: int,
    end: int,
    mask: int,
    codec: int,
    first: int,
    last: int,
    packed: Room,
    rows: Cells,
) -> tuple[int, int]:
    """Copy what the batches from `at` on have packed to `packed`, one behind the other, up to a batch of
    another kind (its attributes under `mask` are not `codec`), without records or damaged, or one with no
    offset from `first` to `last`. How many, and their bytes."""
    count, used = 0, 0
    while (count + 1) * _PACKED <= len(rows):
        code, size = see_batch(data, at, end)
        if code >= 0 or signed_at(data, at + 21, 2) & mask != codec:
            break
        base_offset = signed_at(data, at, 8)
        if base_offset + signed_at(data, at + 23, 4) < first or base_offset > last:
            break
        if size == 61 or used + size - 61 > len(packed):
            break
        if crc32c(data, at + 21, at + size) != signed_at(data, at + 17, 4) & 0xFFFFFFFF:
            break
        copy(packed, used, data, at + 61, size - 61)
        used += size - 61
        rows[count * _PACKED + _AT] = at
        rows[count * _PACKED + _SIZE] = size
        count += 1
        at += size
    return count, used


@kernel
def split_bodies(body: Bytes, size: int, data: Bytes, rows: Cells, count: int) -> bool:
    """Find where each batch's records are in `body`, which has those of all; False where they do not fill it
    exactly."""
    at = 0
    for number in range(count):
        row = number * _PACKED
        rows[row + _BODY_AT] = at
        rows[row + _RECORDS] = signed_at(data, rows[row + _AT] + 57, 4)
        for _ in range(rows[row + _RECORDS]):
            record_size, start = read_varint(body, at, size)
            if start < 0 or record_size < 0 or record_size > size - start:
                return False
            at = start + record_size
        rows[row + _BODY_END] = at
    return bool(at == size)


@kernel
def map_packed(
    data: Bytes,
    body: Bytes,
    rows: Cells,
    count: int,
    position: int,
    table: Words,
    params: Numbers,
    counters: Cells,
    runs: Cells,
) -> tuple[int, int]:
    """Put the keys of these batches into the table, as `map_batch` does; a code, and how many were put."""
    turn_end = TURN_BYTES
    for number in range(count):
        row = number * _PACKED
        turn_end = next_turn(rows[row + _BODY_AT], turn_end)
        at, size = rows[row + _AT], rows[row + _SIZE]
        base_offset = signed_at(data, at, 8)
        code = map_batch(
            body,
            rows[row + _BODY_AT],
            rows[row + _BODY_END],
            rows[row + _RECORDS],
            base_offset,
            base_offset + signed_at(data, at + 23, 4),
            position + at,
            size,
            table,
            params,
            counters,
            runs,
        )
        if code != _MORE:
            return code, number
    return _MORE, count


@kernel
def keep_packed(
    data: Bytes,
    body: Bytes,
    rows: Cells,
    count: int,
    room: Room,
    table: Words,
    params: Numbers,
    state: Cells,
) -> tuple[int, int]:
    """Look the records of these batches up, as `keep_records` does: those that stay are in `room` where some
    of their batch go. A code, and how many batches were looked at."""
    used, turn_end = 0, TURN_BYTES
    for number in range(count):
        row = number * _PACKED
        turn_end = next_turn(rows[row + _BODY_AT], turn_end)
        at = rows[row + _AT]
        base_timestamp = signed_at(data, at + 27, 8)
        drops = signed_at(data, at + 21, 2) & 64 != 0 and base_timestamp <= params[_NOW_MS]
        kept, tombstones, max_timestamp, end, _ = keep_records(
            body,
            rows[row + _BODY_AT],
            rows[row + _BODY_END],
            rows[row + _RECORDS],
            signed_at(data, at, 8),
            base_timestamp,
            drops,
            room,
            used,
            table,
            params,
        )
        if kept < 0:
            return _BAD_RECORD, number
        rows[row + _KEPT], rows[row + _TOMBSTONES], rows[row + _MAX_TIME] = kept, tombstones, max_timestamp
        rows[row + _KEPT_AT], rows[row + _KEPT_END] = used, end
        state[_S_READ] += rows[row + _RECORDS]
        state[_S_KEPT] += kept
        used = end
    return _MORE, count


@kernel
def put_packed(
    data: Bytes,
    at: int,
    packed: Bytes,
    kept: int,
    max_timestamp: int,
    out: Room,
    params: Numbers,
    state: Cells,
    index: Room,
    times: Room,
) -> None:
    """Write the batch at `at` anew, with the `kept` records that `packed` has, behind what `out` has."""
    out_at, size = state[_S_OUT], len(packed) + 61
    copy(out, out_at, data, at, 61)
    copy(out, out_at + 61, packed, 0, size - 61)
    put_signed(out, out_at + 8, size - 12, 4)
    if not signed_at(data, at + 21, 2) & 8:
        put_signed(out, out_at + 35, max_timestamp, 8)
    put_signed(out, out_at + 57, kept, 4)
    put_signed(out, out_at + 17, crc32c(out, out_at + 21, out_at + size), 4)
    last_offset = signed_at(data, at, 8) + signed_at(data, at + 23, 4)
    note_batch(size, last_offset, signed_at(out, out_at + 35, 8), params, state, index, times)
