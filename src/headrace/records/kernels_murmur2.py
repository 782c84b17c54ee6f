"""The hash by which every Kafka producer chooses a partition, at native speed; see `kernels` for how.

In a file of its own, which calls nothing of another: numba's cache looks only at the file a kernel is in.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels import Bytes, Numbers, kernel

types: Any = numba.types
_int64 = cast(Callable[[Any], int], np.int64)

_I64: Final = types.int64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS: Final = types.Array(types.int64, 1, "C", readonly=True)
_HASHES: Final = types.Array(types.int32, 1, "C")


@kernel(_I64(_BYTES, _I64, _I64))
def _word(data: Bytes, at: int, size: int) -> int:
    """Up to 8 bytes as a little-endian number."""
    word = 0
    for index in range(size):
        word |= _int64(data[at + index]) << (8 * index)
    return word


@kernel(types.int32(_BYTES))
def murmur2(data: Bytes) -> int:
    size: int = data.shape[0]
    mixed = 0x9747B28C ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = _word(data, at, 4) * 0x5BD1E995 & 0xFFFFFFFF
        word = (word ^ (word >> 24)) * 0x5BD1E995 & 0xFFFFFFFF
        mixed = (mixed * 0x5BD1E995 & 0xFFFFFFFF) ^ word
    if size & 3:
        mixed = (mixed ^ _word(data, whole, size & 3)) * 0x5BD1E995 & 0xFFFFFFFF
    mixed = (mixed ^ (mixed >> 13)) * 0x5BD1E995 & 0xFFFFFFFF
    mixed ^= mixed >> 15
    return mixed - ((mixed >> 31) << 32)


@kernel(types.void(_BYTES, _NUMBERS, _NUMBERS, _HASHES))
def murmur2_spans(data: Bytes, at: Numbers, size: Numbers, hashes: NDArray[np.int32]) -> None:
    for index in range(hashes.shape[0]):
        start, length = at[index], size[index]
        hashes[index] = murmur2(data[start : start + length]) if length >= 0 else 0
