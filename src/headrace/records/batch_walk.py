"""Walking over a run of whole batches: where each starts, where its offsets end, and whether it is what was
written. One pass over the bytes for what is then found by bisection.

Compiled where kernels are loaded: a thread that walks then holds up nobody, which matters where batches are
small and many.
"""

import struct
from array import array
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.header import ATTRIBUTES_OFFSET, HEADER_BYTES, LOG_OVERHEAD, MAGIC
from headrace.records.kernel_choice import kernels

_PLACE: Final = struct.Struct(">qi4xbI2xi")  # base offset, length, magic, CRC, last offset delta


class Flaw(IntEnum):
    """Why a walk ends before the bytes do."""

    NONE = 0
    HEADER = 1
    ORDER = 2
    CRC = 3


_TEXTS: Final = {
    Flaw.HEADER: "there is no batch at byte {}",
    Flaw.ORDER: "the batch at byte {} does not follow the one before it",
    Flaw.CRC: "the CRC of the batch at byte {} does not match",
}


class Walk(NamedTuple):
    """Where batches start in the bytes, and the offset behind each; they end at `end`. What is behind that is
    a batch that is cut off.
    """

    starts: "array[int]"
    ends: "array[int]"
    end: int


def walk_batches(data: Buffer) -> Walk:
    """InvalidBytesError where a batch is not one, is not what was written, or has offsets before those of the
    one before it.
    """
    flaw, walk = (_walk_compiled if kernels.compiled else walk_plainly)(data)
    if flaw:
        raise InvalidBytesError(_TEXTS[Flaw(flaw)].format(walk.end))
    return walk


def walk_plainly(data: Buffer) -> tuple[int, Walk]:
    view, size, at, offset = memoryview(data), len(data), 0, 0
    starts, ends = array("q"), array("q")
    flaw = Flaw.NONE
    while size - at >= HEADER_BYTES:
        base, length, magic, crc, delta = _PLACE.unpack_from(data, at)
        if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD or delta < 0:
            flaw = Flaw.HEADER
            break
        if base < offset:
            flaw = Flaw.ORDER
            break
        following = at + LOG_OVERHEAD + length
        if following > size:
            break
        if crc32c(view[at + ATTRIBUTES_OFFSET : following]) != crc:
            flaw = Flaw.CRC
            break
        offset = base + delta + 1
        starts.append(at)
        ends.append(offset)
        at = following
    return flaw, Walk(starts, ends, at)


def _walk_compiled(data: Buffer) -> tuple[int, Walk]:
    import numpy as np

    from headrace.records import kernels_walking  # at the first call: most processes need none

    room = len(data) // HEADER_BYTES + 1
    found = np.empty((2, room), np.int64)
    flaw, count, end = kernels_walking.walk_batches(np.frombuffer(data, np.uint8), found[0], found[1])
    starts, ends = (array("q", row[:count].tobytes()) for row in found)
    return flaw, Walk(starts, ends, end)
