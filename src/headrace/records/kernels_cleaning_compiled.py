"""The compiled kernels of compaction with the faces of their plain twins: bytes in, arrays there."""

import numpy as np

from headrace.base.chunks import Buffer
from headrace.records import kernels_cleaning

_frombuffer = np.frombuffer
_uint8 = np.uint8


def new_table(size: int) -> memoryview:
    """Zeros. A large array has large pages: entries are looked up all over it, and most misses are spared."""
    return np.zeros(size, _uint8).data


def map_records(
    data: Buffer,
    at: int,
    limit: int,
    count: int,
    base_offset: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
) -> int:
    body, words = _frombuffer(data, _uint8), _frombuffer(table, np.uint64)
    return kernels_cleaning.map_records(
        body, at, limit, count, base_offset, words, np.asarray(job), np.asarray(tally)
    )


def map_batches(
    data: Buffer,
    at: int,
    end: int,
    others: int,
    table: bytearray | memoryview,
    job: memoryview,
    tally: memoryview,
) -> tuple[int, int]:
    window, words = _frombuffer(data, _uint8), _frombuffer(table, np.uint64)
    return kernels_cleaning.map_batches(window, at, end, others, words, np.asarray(job), np.asarray(tally))


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
    return kernels_cleaning.keep_records(
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
    return kernels_cleaning.shift_records(body, at, limit, count, shift, room, out_at)


def note_batch(
    size: int,
    last_offset: int,
    max_timestamp: int,
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> None:
    kernels_cleaning.note_batch(
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
    scratch: bytearray,
    table: bytearray | memoryview,
    kept_offsets: memoryview,
    job: memoryview,
    state: memoryview,
    index: bytearray,
    times: bytearray,
) -> tuple[int, int]:
    return kernels_cleaning.clean_batches(
        _frombuffer(data, _uint8),
        at,
        end,
        last_end,
        others,
        _frombuffer(out, _uint8),
        _frombuffer(scratch, _uint8),
        _frombuffer(table, np.uint64),
        np.asarray(kept_offsets),
        np.asarray(job),
        np.asarray(state),
        _frombuffer(index, _uint8),
        _frombuffer(times, _uint8),
    )
