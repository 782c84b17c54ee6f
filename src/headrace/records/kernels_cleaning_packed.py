"""Batches packed with zstd, many at once, at native speed: gathered, taken apart, and put into the table.

Compiled by numba; `kernels_cleaning_packed_plain` has the twins, which say what each answers.
"""

from typing import Final

from headrace.records.kernels import kernel
from headrace.records.kernels_cleaning_mapping import map_batch
from headrace.records.kernels_cleaning_parts import (
    BYTES,
    I64,
    NUMBERS,
    ROOM,
    STATE,
    TABLE,
    Bytes,
    Numbers,
    Words,
    read_signed,
    read_varint,
    see_batch,
    types,
)
from headrace.records.kernels_llvm import copy as _copy
from headrace.records.kernels_llvm import crc32c as _crc

PARTS: Final = "071be13b"
"""Of the parts that these kernels were made of: see `kernels_cleaning_parts`."""


# Those of `cleaning_layout` as plain numbers: numba's cache does not look into other modules.
_MORE: Final = 0
_AT, _SIZE, _BODY_AT, _BODY_END = 0, 1, 2, 3
_PACKED: Final = 4


@kernel(types.UniTuple(I64, 2)(BYTES, I64, I64, I64, I64, I64, I64, ROOM, STATE))
def gather_packed(
    data: Bytes,
    at: int,
    end: int,
    mask: int,
    codec: int,
    first: int,
    last: int,
    packed: Bytes,
    rows: Numbers,
) -> tuple[int, int]:
    count, used = 0, 0
    while (count + 1) * _PACKED <= rows.shape[0]:
        code, size = see_batch(data, at, end)
        if code >= 0 or read_signed(data, at + 21, 2) & mask != codec:
            break
        base_offset = read_signed(data, at, 8)
        if base_offset + read_signed(data, at + 23, 4) < first or base_offset > last:
            break
        if size == 61 or used + size - 61 > packed.shape[0]:
            break
        if _crc(data, at + 21, at + size) != read_signed(data, at + 17, 4) & 0xFFFFFFFF:
            break
        _copy(packed, used, data, at + 61, size - 61)
        used += size - 61
        rows[count * _PACKED + _AT] = at
        rows[count * _PACKED + _SIZE] = size
        count += 1
        at += size
    return count, used


@kernel(types.boolean(BYTES, I64, BYTES, STATE, I64))
def split_bodies(body: Bytes, size: int, data: Bytes, rows: Numbers, count: int) -> bool:
    at = 0
    for number in range(count):
        row = number * _PACKED
        rows[row + _BODY_AT] = at
        for _ in range(read_signed(data, rows[row + _AT] + 57, 4)):
            record_size, start = read_varint(body, at, size)
            if start < 0 or record_size < 0 or record_size > size - start:
                return False
            at = start + record_size
        rows[row + _BODY_END] = at
    return bool(at == size)


@kernel(types.UniTuple(I64, 2)(BYTES, BYTES, NUMBERS, I64, I64, TABLE, NUMBERS, STATE, STATE))
def map_packed(
    data: Bytes,
    body: Bytes,
    rows: Numbers,
    count: int,
    position: int,
    table: Words,
    job: Numbers,
    tally: Numbers,
    runs: Numbers,
) -> tuple[int, int]:
    for number in range(count):
        row = number * _PACKED
        at, size = rows[row + _AT], rows[row + _SIZE]
        base_offset = read_signed(data, at, 8)
        code = map_batch(
            body,
            rows[row + _BODY_AT],
            rows[row + _BODY_END],
            read_signed(data, at + 57, 4),
            base_offset,
            base_offset + read_signed(data, at + 23, 4),
            position + at,
            size,
            table,
            job,
            tally,
            runs,
        )
        if code != _MORE:
            return code, number
    return _MORE, count
