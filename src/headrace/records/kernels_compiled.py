"""The compiled kernels with the faces of their plain twins: bytes in, where the kernels want arrays.

Wrapping a buffer as an array and entering compiled code cost half a microsecond together. That is less than
a plain twin takes for a single record, so the compiled kernels serve batches of every size.
"""

import numpy as np

from headrace.base.chunks import Buffer
from headrace.records import kernels, kernels_murmur2
from headrace.records.flaws import SPAN_COLUMNS, Found, Scan
from headrace.records.produce_run import NO_RUN, ROWS_MAX, RUN_FIELDS, RunHead, RunRow

_frombuffer = np.frombuffer
_uint8 = np.uint8


def scan_records(body: Buffer, count: int, base_timestamp: int) -> Scan:
    return kernels.scan_records(_frombuffer(body, _uint8), count, base_timestamp)


def find_record(
    body: Buffer, count: int, base_timestamp: int, timestamp_min: int, offset_delta_min: int
) -> Found:
    array = _frombuffer(body, _uint8)
    return kernels.find_record(array, count, base_timestamp, timestamp_min, offset_delta_min)


def fill_spans(
    body: Buffer, count: int, base_offset: int, base_timestamp: int, block: bytearray
) -> tuple[int, int]:
    columns = _frombuffer(block, np.int64).reshape(SPAN_COLUMNS, count)
    return kernels.fill_spans(_frombuffer(body, _uint8), count, base_offset, base_timestamp, columns)


def produce_run(data: Buffer, at: int, end: int) -> tuple[RunHead, list[RunRow]]:
    rows = np.empty((ROWS_MAX, RUN_FIELDS), np.int64)
    head = kernels.produce_run(_frombuffer(data, _uint8), at, end, rows)
    count = head[0]
    if not count:
        return NO_RUN, []
    return RunHead._make(head), rows[:count].tolist()


def murmur2(data: Buffer) -> int:
    return kernels_murmur2.murmur2(_frombuffer(data, _uint8))


def murmur2_spans(data: Buffer, at: memoryview, size: memoryview, hashes: memoryview) -> None:
    array = _frombuffer(data, _uint8)
    kernels_murmur2.murmur2_spans(array, np.asarray(at), np.asarray(size), np.asarray(hashes))


def siphash_spans(
    data: Buffer, at: memoryview, size: memoryview, secret_0: int, secret_1: int, hashes: memoryview
) -> None:
    from headrace.records import kernels_siphash  # at the first call: only compaction needs it

    kernels_siphash.siphash_spans(
        _frombuffer(data, _uint8),
        np.asarray(at),
        np.asarray(size),
        np.uint64(secret_0),
        np.uint64(secret_1),
        np.asarray(hashes),
    )
