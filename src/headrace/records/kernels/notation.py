"""What kernels are written in: the types of what goes in and out, and the functions that have two forms.

A kernel's annotations are its signature. `int` is an int64 and `Word` a uint64: numba makes a float of a mix
of the two, so that all of a word's operands are words, constants too (annotate them). Plain Python's numbers
do not wrap around; words are masked where they could grow, which costs compiled code nothing, and sums of
int64 are checked before.

The functions here are what plain Python and a CPU do in different ways. Everything else has one form.
"""

from collections.abc import Callable
from typing import Annotated, Final, ParamSpec, TypeVar

from crc32c import crc32c as _crc32c

from headrace.base.chunks import Buffer

_P = ParamSpec("_P")
_R = TypeVar("_R")

Word = Annotated[int, "uint64"]

Bytes = Annotated[Buffer, "uint8", "read"]
Room = Annotated[bytearray | memoryview, "uint8"]
Numbers = Annotated[memoryview, "int64", "read"]
Cells = Annotated[memoryview, "int64"]
Ints = Annotated[memoryview, "int32"]
Words = Annotated[memoryview, "uint64"]
Rows = Annotated[memoryview, "int64", "2d"]

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
_MASK: Final = 2**64 - 1

KERNELS: Final[dict[Callable[..., object], bool]] = {}
"""In the order of their files; False for parts, which are compiled into each kernel that calls them."""


def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Marks what is compiled by itself, for the signature that its annotations are."""
    KERNELS[function] = True
    return function


def part(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Marks what is compiled into each kernel that calls it, and costs nothing where that comes from the
    cache."""
    KERNELS[function] = False
    return function


def word(number: int) -> Word:
    """An int64 as a word of the same bits."""
    return number & _MASK


def number(found: Word) -> int:
    """A word below 2^63 as an int64."""
    return found


def signed_at(data: Bytes, at: int, size: int) -> int:
    """A big-endian number of so many bytes."""
    return int.from_bytes(data[at : at + size], "big", signed=True)


def put_signed(room: Room, at: int, value: int, size: int) -> None:
    """Write the lowest bytes of a number, big-endian."""
    room[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")


def word_at(data: Bytes, at: int) -> Word:
    """Eight bytes as a little-endian number."""
    return int.from_bytes(data[at : at + 8], "little")


def bytes_at(data: Bytes, at: int, size: int) -> Word:
    """Up to eight bytes as a little-endian number."""
    return int.from_bytes(data[at : at + size], "little")


def copy(target: Room, to: int, source: Bytes, at: int, size: int) -> None:
    """So many bytes from one array to another one."""
    target[to : to + size] = memoryview(source)[at : at + size]


def crc32c(data: Bytes, at: int, end: int) -> int:
    """Of the bytes from `at` to before `end`."""
    return int(_crc32c(memoryview(data)[at:end]))


def give_way() -> None:
    """Let whoever waits for this core have it: a compiled kernel runs for long without a call to the
    system."""


def prefetch(table: Words, at: int) -> None:
    """Begin to bring an entry into the CPU's cache."""


def new_numbers(count: int) -> Cells:
    """Room for numbers, with anything in it."""
    return memoryview(bytearray(8 * count)).cast("q")


def new_words(count: int) -> Words:
    """Room for words, with anything in it."""
    return memoryview(bytearray(8 * count)).cast("Q")


def new_bytes(count: int) -> Room:
    """Room for bytes, with anything in it."""
    return bytearray(count)
