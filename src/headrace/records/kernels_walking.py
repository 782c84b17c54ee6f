"""Walking from batch to batch at native speed, compiled by numba: see `batch_walk` for what it answers."""
# Kernels stay in one file: numba's cache sees that a file has changed, not that what it calls elsewhere has.

from collections.abc import Callable
from typing import Any, Final, cast

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels import kernel
from headrace.records.kernels_llvm import crc32c as _crc

PARTS: Final = "86c7e77b"
"""Of the parts that this kernel was made of: a test tells what to write here when one has changed."""

types: Any = numba.types
_int64 = cast(Callable[[Any], int], np.int64)

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

_I64: Final = types.int64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS: Final = types.Array(types.int64, 1, "C")

# `batch_walk.Flaw` as plain numbers: numba's cache does not look into other modules.
_NONE, _HEADER, _ORDER, _CRC = 0, 1, 2, 3


@kernel(_I64(_BYTES, _I64, _I64))
def _signed(data: Bytes, at: int, size: int) -> int:
    """A big-endian number."""
    number = _int64(data[at])
    number -= (number & 128) << 1
    for index in range(1, size):
        number = (number << 8) | _int64(data[at + index])
    return number


@kernel(types.UniTuple(_I64, 3)(_BYTES, _NUMBERS, _NUMBERS))
def walk_batches(data: Bytes, starts: Numbers, ends: Numbers) -> tuple[int, int, int]:
    at, count, size, offset = 0, 0, len(data), 0
    while size - at >= 61:
        length = _signed(data, at + 8, 4)
        delta = _signed(data, at + 23, 4)
        if data[at + 16] != 2 or length < 49 or delta < 0:
            return _HEADER, count, at
        base = _signed(data, at, 8)
        if base < offset:
            return _ORDER, count, at
        following = at + 12 + length
        if following > size:
            break
        if _crc(data, at + 21, following) != _signed(data, at + 17, 4) & 0xFFFFFFFF:
            return _CRC, count, at
        offset = base + delta + 1
        starts[count] = at
        ends[count] = offset
        count += 1
        at = following
    return _NONE, count, at
