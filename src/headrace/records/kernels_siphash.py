"""SipHash-2-4-128 over the keys of a records section, compiled by numba.

Apart from `kernels` because it is the only one that computes with unsigned numbers: every operand here is a
uint64, constants included, since numba makes a float of a uint64 and a plain number.
"""

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from headrace.records.kernels import kernel

types: Any = numba.types

_U64: Final = types.uint64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS: Final = types.Array(types.int64, 1, "C", readonly=True)
_PAIRS: Final = types.Array(types.uint64, 1, "C")

_State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@kernel(_U64(_U64, _U64))
def _rotate(word: np.uint64, bits: np.uint64) -> np.uint64:
    return (word << bits) | (word >> (np.uint64(64) - bits))


@kernel(types.UniTuple(_U64, 4)(_U64, _U64, _U64, _U64, types.int64))
def _rounds(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, count: int) -> _State:
    for _ in range(count):
        a += b
        b = _rotate(b, np.uint64(13)) ^ a
        a = _rotate(a, np.uint64(32))
        c += d
        d = _rotate(d, np.uint64(16)) ^ c
        a += d
        d = _rotate(d, np.uint64(21)) ^ a
        c += b
        b = _rotate(b, np.uint64(17)) ^ c
        c = _rotate(c, np.uint64(32))
    return a, b, c, d


@kernel(_U64(_BYTES, types.int64, types.int64))
def _word(data: NDArray[np.uint8], at: int, size: int) -> np.uint64:
    word = np.uint64(0)
    for index in range(size):
        word |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return word


@kernel(types.UniTuple(_U64, 2)(_BYTES, types.int64, types.int64, _U64, _U64))
def _siphash(
    data: NDArray[np.uint8], start: int, size: int, secret_0: np.uint64, secret_1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    a = np.uint64(0x736F6D6570736575) ^ secret_0
    b = np.uint64(0x646F72616E646F6D) ^ secret_1 ^ np.uint64(0xEE)
    c = np.uint64(0x6C7967656E657261) ^ secret_0
    d = np.uint64(0x7465646279746573) ^ secret_1
    for at in range(0, size + 1, 8):
        word = _word(data, start + at, min(8, size - at))
        if at + 8 > size:
            word |= np.uint64(size & 0xFF) << np.uint64(56)
        a, b, c, d = _rounds(a, b, c, d ^ word, 2)
        a ^= word
    a, b, c, d = _rounds(a, b, c ^ np.uint64(0xEE), d, 4)
    low = a ^ b ^ c ^ d
    a, b, c, d = _rounds(a, b ^ np.uint64(0xDD), c, d, 4)
    return low, a ^ b ^ c ^ d


@kernel(types.void(_BYTES, _NUMBERS, _NUMBERS, _U64, _U64, _PAIRS))
def siphash_spans(
    data: NDArray[np.uint8],
    at: NDArray[np.int64],
    size: NDArray[np.int64],
    secret_0: np.uint64,
    secret_1: np.uint64,
    hashes: NDArray[np.uint64],
) -> None:
    for index in range(hashes.shape[0] // 2):
        if size[index] < 0:
            hashes[2 * index] = np.uint64(0)
            hashes[2 * index + 1] = np.uint64(0)
        else:
            low, high = _siphash(data, at[index], size[index], secret_0, secret_1)
            hashes[2 * index] = low
            hashes[2 * index + 1] = high
