"""What plain Python and a CPU do in different ways, for compiled kernels: the second forms of `notation`.

Loads of eight bytes, copies, prefetches and giving way are LLVM's, reached through numba's intrinsics.
"""

import zlib
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numba.core.cgutils
import numba.extending
import numpy as np
from numpy.typing import NDArray

types: Any = numba.types
cgutils: Any = numba.core.cgutils
_intrinsic = cast(Callable[[Callable[..., Any]], Callable[..., Any]], numba.extending.intrinsic)
_int64 = cast(Callable[[Any], int], np.int64)

_P = ParamSpec("_P")
_R = TypeVar("_R")

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


def fingerprint(folder: Traversable) -> str:
    """Of all kernels' source: numba's cache sees that a kernel's own file has changed, not that what it calls
    elsewhere has. So what is compiled is kept under a name that has this."""
    sources = {each.name: each for each in folder.iterdir() if each.name.endswith(".py")}
    sources.pop("__init__.py", None)  # has words only
    source = b"".join(sources[name].read_bytes() for name in sorted(sources))
    return f"{zlib.crc32(source):08x}"


_MADE_OF: Final = fingerprint(files("headrace.records.kernels"))


def kernel(signature: Any) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Compile for this signature, or load what was compiled before."""

    def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
        function.__qualname__ = f"{function.__name__}_{_MADE_OF}"
        return cast(Callable[_P, _R], numba.njit(signature, cache=True, nogil=True)(function))

    return compiled


def part(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Something that kernels call, compiled into each of them."""
    return cast(Callable[_P, _R], numba.njit(function, nogil=True))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


@_intrinsic
def word_at(typing_context: Any, data: Any, at: Any) -> Any:
    """Eight bytes as a little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], args[0], args[1])
        word = builder.load(builder.bitcast(place, cgutils.ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.int64), generate


@_intrinsic
def copy(typing_context: Any, target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:
    """`size` bytes from one array to another one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into = _pointer(context, builder, signature.args[0], args[0], args[1])
        out_of = _pointer(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, into, out_of, args[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@_intrinsic
def give_way(typing_context: Any) -> Any:
    """Let whoever waits for this core have it. A kernel runs for long without a call to the system, and Linux
    takes the core from it at the next tick only, 4 ms later."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        signature = cgutils.ir.FunctionType(cgutils.ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, signature, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@_intrinsic
def prefetch(typing_context: Any, data: Any, at: Any) -> Any:
    """Begin to bring an array's word into the cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], args[0], args[1])
        byte, number = cgutils.ir.IntType(8).as_pointer(), cgutils.ir.IntType(32)
        kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for_reading, keep, is_data = number(0), number(3), number(1)
        builder.call(ask, [builder.bitcast(place, byte), for_reading, keep, is_data])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


@part
def signed_at(data: Bytes, at: int, size: int) -> int:
    number = _int64(data[at])
    number -= (number & 128) << 1
    for index in range(1, size):
        number = (number << 8) | _int64(data[at + index])
    return number


@part
def put_signed(room: Bytes, at: int, value: int, size: int) -> None:
    for index in range(size):
        room[at + index] = np.uint8((value >> (8 * (size - 1 - index))) & 0xFF)


@part
def bytes_at(data: Bytes, at: int, size: int) -> np.uint64:
    found = np.uint64(0)
    for index in range(size):
        found |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return found


@part
def new_numbers(count: int) -> NDArray[np.int64]:
    return np.empty(count, np.int64)


@part
def new_words(count: int) -> Words:
    return np.empty(count, np.uint64)


@part
def new_bytes(count: int) -> Bytes:
    return np.empty(count, np.uint8)


FORMS: Final[dict[str, Any]] = {
    "word": np.uint64,
    "number": np.int64,
    "signed_at": signed_at,
    "put_signed": put_signed,
    "word_at": word_at,
    "bytes_at": bytes_at,
    "copy": copy,
    "give_way": give_way,
    "prefetch": prefetch,
    "new_numbers": new_numbers,
    "new_words": new_words,
    "new_bytes": new_bytes,
}
"""By the names that `notation` has for them."""
