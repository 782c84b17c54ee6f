"""The compiled kernels of compaction with the faces of their plain twins: bytes in, arrays there."""

import numpy as np

from headrace.base.chunks import Buffer
from headrace.records import (
    kernels_cleaning_mapping,
    kernels_cleaning_packed,
    kernels_cleaning_rewriting,
    kernels_cleaning_runs,
)

_frombuffer = np.frombuffer
_uint8 = np.uint8


def new_table(size: int) -> memoryview:
    """Zeros. A large array has large pages: entries are looked up all over it, and most misses are spared."""
    return np.zeros(size, _uint8).data


def map_batch(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    last_offset: int,
    position: int,
    size: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
    runs: memoryview,
) -> int:
    return kernels_cleaning_mapping.map_batch(
        _frombuffer(data, _uint8),
        at,
        limit,
        count,
        base_offset,
        last_offset,
        position,
        size,
        _frombuffer(table, np.uint64),
        np.asarray(job),
        np.asarray(tally),
        np.asarray(runs),
    )


def map_batches(
    data: Buffer,
    at: int,
    end: int,
    others: int,
    position: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
    runs: memoryview,
) -> tuple[int, int]:
    return kernels_cleaning_mapping.map_batches(
        _frombuffer(data, _uint8),
        at,
        end,
        others,
        position,
        _frombuffer(table, np.uint64),
        np.asarray(job),
        np.asarray(tally),
        np.asarray(runs),
    )


def count_live(
    table: bytearray | memoryview, slots: int, runs: memoryview, count: int, places: memoryview
) -> None:
    words = _frombuffer(table, np.uint64)
    kernels_cleaning_runs.count_live(words, slots, np.asarray(runs), count, np.asarray(places))


def plan_spans(
    runs: memoryview,
    count: int,
    origin: int,
    size: int,
    keeps_last: int,
    bytes_min: int,
    kept_offsets: memoryview,
    spans: memoryview,
) -> int:
    return kernels_cleaning_runs.plan_spans(
        np.asarray(runs),
        count,
        origin,
        size,
        keeps_last,
        bytes_min,
        np.asarray(kept_offsets),
        np.asarray(spans),
    )


def keep_records(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    drops_tombstones: int,
    out: bytearray,
    out_at: int,
    table: bytearray | memoryview,
    job: memoryview,
) -> tuple[int, int, int, int, int]:
    return kernels_cleaning_rewriting.keep_records(
        _frombuffer(data, _uint8),
        at,
        limit,
        count,
        base_offset,
        base_timestamp,
        drops_tombstones,
        _frombuffer(out, _uint8),
        out_at,
        _frombuffer(table, np.uint64),
        np.asarray(job),
    )


def shift_records(
    data: Buffer, at: int, limit: int, count: int, shift: int, out: bytearray, out_at: int
) -> int:
    body, room = _frombuffer(data, _uint8), _frombuffer(out, _uint8)
    return kernels_cleaning_rewriting.shift_records(body, at, limit, count, shift, room, out_at)


def note_batch(
    size: int,
    last_offset: int,
    max_timestamp: int,
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> None:
    kernels_cleaning_rewriting.note_batch(
        size,
        last_offset,
        max_timestamp,
        np.asarray(job),
        np.asarray(state),
        _frombuffer(index, _uint8),
        _frombuffer(times, _uint8),
    )


def clean_batches(
    data: Buffer,
    at: int,
    end: int,
    last_end: int,
    others: int,
    out: bytearray,
    table: bytearray | memoryview,
    kept_offsets: memoryview,
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> tuple[int, int]:
    return kernels_cleaning_rewriting.clean_batches(
        _frombuffer(data, _uint8),
        at,
        end,
        last_end,
        others,
        _frombuffer(out, _uint8),
        _frombuffer(table, np.uint64),
        np.asarray(kept_offsets),
        np.asarray(job),
        np.asarray(state),
        _frombuffer(index, _uint8),
        _frombuffer(times, _uint8),
    )


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
    return kernels_cleaning_packed.gather_packed(
        _frombuffer(data, _uint8),
        at,
        end,
        mask,
        codec,
        first,
        last,
        _frombuffer(packed, _uint8),
        np.asarray(rows),
    )


def split_bodies(body: Buffer, size: int, data: Buffer, rows: memoryview, count: int) -> bool:
    return kernels_cleaning_packed.split_bodies(
        _frombuffer(body, _uint8), size, _frombuffer(data, _uint8), np.asarray(rows), count
    )


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
    return kernels_cleaning_packed.map_packed(
        _frombuffer(data, _uint8),
        _frombuffer(body, _uint8),
        np.asarray(rows),
        count,
        position,
        _frombuffer(table, np.uint64),
        np.asarray(job),
        np.asarray(tally),
        np.asarray(runs),
    )


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
    return kernels_cleaning_packed.keep_packed(
        _frombuffer(data, _uint8),
        _frombuffer(body, _uint8),
        np.asarray(rows),
        count,
        _frombuffer(room, _uint8),
        _frombuffer(table, np.uint64),
        np.asarray(job),
        np.asarray(state),
    )


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
    kernels_cleaning_packed.put_packed(
        _frombuffer(data, _uint8),
        at,
        _frombuffer(packed, _uint8),
        kept,
        max_timestamp,
        _frombuffer(out, _uint8),
        np.asarray(job),
        np.asarray(state),
        _frombuffer(index, _uint8),
        _frombuffer(times, _uint8),
    )
