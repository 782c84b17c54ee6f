"""Walking over a run of whole batches: where each starts, where its offsets end, and whether it is what was
written. One pass over the bytes for what is then found by bisection.

Compiled where kernels are loaded: a thread that walks then holds up nobody, which matters where batches are
small and many.
"""

from array import array
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.header import HEADER_BYTES
from headrace.records.kernels.choice import in_use
from headrace.records.kernels.notation import Bytes, Cells, crc32c, kernel, new_numbers, signed_at


class BatchFlaw(IntEnum):
    """Why a walk ends before the bytes do."""

    NONE = 0
    HEADER = 1
    ORDER = 2
    CRC = 3


_TEXTS: Final = {
    BatchFlaw.HEADER: "there is no batch at byte {}",
    BatchFlaw.ORDER: "the batch at byte {} does not follow the one before it",
    BatchFlaw.CRC: "the CRC of the batch at byte {} does not match",
}

# `BatchFlaw` as plain numbers: constants cost nothing.
_NONE, _HEADER, _ORDER, _CRC = 0, 1, 2, 3


class BatchWalk(NamedTuple):
    """Where batches start in the bytes, and the offset behind each; they end at `end`. What is behind that is
    a batch that is cut off.
    """

    starts: "array[int]"
    ends: "array[int]"
    end: int


@kernel
def fill_walk(data: Bytes, starts: Cells, ends: Cells) -> tuple[int, int, int]:
    """Where batches start, and the offset behind each; a flaw, how many there are, and where they end."""
    at, count, size, offset = 0, 0, len(data), 0
    while size - at >= 61:
        length = signed_at(data, at + 8, 4)
        delta = signed_at(data, at + 23, 4)
        if data[at + 16] != 2 or length < 49 or delta < 0:
            return _HEADER, count, at
        base = signed_at(data, at, 8)
        if base < offset:
            return _ORDER, count, at
        following = at + 12 + length
        if following > size:
            break
        if crc32c(data, at + 21, following) != signed_at(data, at + 17, 4) & 0xFFFFFFFF:
            return _CRC, count, at
        offset = base + delta + 1
        starts[count] = at
        ends[count] = offset
        count += 1
        at = following
    return _NONE, count, at


def walk_batches(data: Buffer) -> BatchWalk:
    """InvalidBytesError where a batch is not one, is not what was written, or has offsets before those of the
    one before it.
    """
    room = len(data) // HEADER_BYTES + 1
    starts, ends = new_numbers(room), new_numbers(room)
    flaw, count, end = in_use(fill_walk)(data, starts, ends)
    if flaw:
        raise InvalidBytesError(_TEXTS[BatchFlaw(flaw)].format(end))
    return BatchWalk(array("q", starts[:count]), array("q", ends[:count]), end)
