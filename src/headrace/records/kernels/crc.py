"""CRC-32C for compiled kernels, by the CPU itself; loaded when the first kernel that needs it is.

Where the CPU has no such instruction, tables compute the CRC eight bytes at a time. A step of the CRC takes
as long as three that do not wait for each other. So three stretches are walked side by side, and joined: a
CRC moves on over zeros by looking up each of its bytes. 8 -> 20 GB/s.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import numba
import numba.core.cgutils
import numba.core.codegen
import numba.extending
import numpy as np
from crc32c import crc32c as _crc32c

from headrace.records.kernels.machine import Bytes, Words, kernel, word_at

types: Any = numba.types
cgutils: Any = numba.core.cgutils
codegen: Any = numba.core.codegen
_intrinsic = cast(Callable[[Callable[..., Any]], Callable[..., Any]], numba.extending.intrinsic)
_int64 = cast(Callable[[Any], int], np.int64)

_I64: Final = types.int64
_U64: Final = types.uint64
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_WORDS: Final = types.Array(types.uint64, 2, "C", readonly=True)


_X86_CRC: Final = bool(codegen.ll.get_host_cpu_features().get("sse4.2"))


@_intrinsic
def _crc_word(typing_context: Any, crc: Any, word: Any) -> Any:
    """The CPU's step of CRC-32C over eight bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = cgutils.ir.IntType(64)
        kind = cgutils.ir.FunctionType(number, [number, number])
        step = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
        return builder.call(step, args)

    return types.uint64(types.uint64, types.uint64), generate


def _crc_tables() -> Words:
    tables = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for number in range(1, 8):
        for byte in range(256):
            before = int(tables[number - 1, byte])
            tables[number, byte] = int(tables[0, before & 0xFF]) ^ (before >> 8)
    return tables


_TABLES: Final = _crc_tables()

_LONG, _SHORT = 1024, 128


def _zeros_tables(size: int) -> Words:
    """What each byte of a CRC becomes when `size` zeros follow."""
    zeros, ones = bytes(size), 0xFFFFFFFF  # which the function puts in and takes out
    after = [[_crc32c(zeros, (byte << 8 * at) ^ ones) ^ ones for byte in range(256)] for at in range(4)]
    return np.array(after, np.uint64)


_LONG_ZEROS: Final = _zeros_tables(_LONG)
_SHORT_ZEROS: Final = _zeros_tables(_SHORT)

if _X86_CRC:

    @kernel(_U64(_U64, _U64))
    def _crc_step(crc: np.uint64, data: np.uint64) -> np.uint64:
        return _crc_word(crc, data)  # type: ignore[no-any-return]

else:

    @kernel(_U64(_U64, _U64))
    def _crc_step(crc: np.uint64, data: np.uint64) -> np.uint64:
        mixed = data ^ crc
        found = np.uint64(0)
        for number in range(8):
            byte = (mixed >> np.uint64(8 * number)) & np.uint64(0xFF)
            found ^= _TABLES[7 - number, byte]
        return found


@kernel(_U64(_U64, _WORDS))
def _move_on(crc: np.uint64, zeros: Words) -> np.uint64:
    found = np.uint64(0)
    for number in range(4):
        found ^= zeros[number, (crc >> np.uint64(8 * number)) & np.uint64(0xFF)]
    return found


@kernel(_U64(_U64, _BYTES, _I64, _I64, _WORDS))
def _crc_of_three(crc: np.uint64, data: Bytes, at: int, size: int, zeros: Words) -> np.uint64:
    """Of three stretches of `size` bytes each, which follow what `crc` is of."""
    second = third = np.uint64(0)
    for place in range(at, at + size, 8):
        crc = _crc_step(crc, word_at(data, place))
        second = _crc_step(second, word_at(data, place + size))
        third = _crc_step(third, word_at(data, place + 2 * size))
    return _move_on(_move_on(crc, zeros) ^ second, zeros) ^ third


@kernel(_I64(_BYTES, _I64, _I64))
def crc32c(data: Bytes, at: int, end: int) -> int:
    """Of the bytes from `at` to before `end`."""
    crc = np.uint64(0xFFFFFFFF)
    while at + 3 * _LONG <= end:
        crc = _crc_of_three(crc, data, at, _LONG, _LONG_ZEROS)
        at += 3 * _LONG
    while at + 3 * _SHORT <= end:
        crc = _crc_of_three(crc, data, at, _SHORT, _SHORT_ZEROS)
        at += 3 * _SHORT
    while at + 8 <= end:
        crc = _crc_step(crc, word_at(data, at))
        at += 8
    while at < end:
        low = (crc ^ np.uint64(data[at])) & np.uint64(0xFF)
        crc = (crc >> np.uint64(8)) ^ _TABLES[0, low]
        at += 1
    return _int64(crc ^ np.uint64(0xFFFFFFFF))
