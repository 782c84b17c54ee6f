"""The oracle of walking from batch to batch."""

import struct
from typing import Final

from crc32c import crc32c

from headrace.base.chunks import Buffer
from headrace.records.header import ATTRIBUTES_OFFSET, HEADER_BYTES, LOG_OVERHEAD, MAGIC
from headrace.records.kernels.batches import BatchFlaw

_PLACE: Final = struct.Struct(">qi4xbI2xi")  # base offset, length, magic, CRC, last offset delta


def fill_walk(data: Buffer, starts: memoryview, ends: memoryview) -> tuple[int, int, int]:
    view, size, at, offset = memoryview(data), len(data), 0, 0
    flaw, count = BatchFlaw.NONE, 0
    while size - at >= HEADER_BYTES:
        base, length, magic, crc, delta = _PLACE.unpack_from(data, at)
        if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD or delta < 0:
            flaw = BatchFlaw.HEADER
            break
        if base < offset:
            flaw = BatchFlaw.ORDER
            break
        following = at + LOG_OVERHEAD + length
        if following > size:
            break
        if crc32c(view[at + ATTRIBUTES_OFFSET : following]) != crc:
            flaw = BatchFlaw.CRC
            break
        offset = base + delta + 1
        starts[count], ends[count] = at, offset
        count += 1
        at = following
    return flaw, count, at
