"""Packed batches that are unpacked many at once.

zstd unpacks any number of frames that follow each other as one. Most of the cost of unpacking a batch of some
kilobytes is not the work but what is around it: a context, a buffer, a few calls with the GIL. So the packed
records of the batches of a window are put one behind the other, unpacked with one call, and found again by
their numbers of records. Where that does not come out even, or is larger than the buffers, nothing is given
and the caller unpacks batch by batch.
"""

from typing import Final, NamedTuple

import cramjam

from headrace.base.chunks import Buffer
from headrace.records.codecs import Codec
from headrace.records.compaction.layout import PackedColumn
from headrace.records.header import CODEC_MASK, CONTROL, TRANSACTIONAL
from headrace.records.kernels.choice import in_use
from headrace.records.kernels.compaction_packed import gather_packed, split_bodies

PACKED_BYTES: Final = 64 << 10
ROOM_BYTES: Final = 1 << 20
BATCHES_MAX: Final = 64
_MASK: Final = CODEC_MASK | TRANSACTIONAL | CONTROL


class UnpackedBatches(NamedTuple):
    """Some batches of a window; good until the next are unpacked."""

    body: memoryview
    rows: memoryview
    batches: int
    room: bytearray  # for the records of the batches that lose some

    def row(self, number: int) -> list[int]:
        """The numbers of one: see `PackedColumn`."""
        return self.rows[number * len(PackedColumn) : (number + 1) * len(PackedColumn)].tolist()


class BatchUnpacker:
    """Buffers that are used again and again: a little more than two mebibytes, from the first batch on."""

    def __init__(self) -> None:
        self._packed = bytearray(0)
        self._room = self._kept_room = bytearray(0)
        self._rows = memoryview(bytearray(8 * len(PackedColumn) * BATCHES_MAX)).cast("q")

    def unpack(self, data: Buffer, at: int, end: int, *, first: int, last: int) -> UnpackedBatches | None:
        """The batches from `at` on, as long as they are packed with zstd, whole, in no transaction, and have
        an offset from `first` to `last`; None where there are not two, or they do not unpack together."""
        if not self._room:
            self._packed = bytearray(PACKED_BYTES)
            self._room, self._kept_room = bytearray(ROOM_BYTES), bytearray(ROOM_BYTES)
        count, used = in_use(gather_packed)(
            data, at, end, _MASK, Codec.ZSTD, first, last, self._packed, self._rows
        )
        if count < 2:
            return None
        try:
            size = cramjam.zstd.decompress_into(memoryview(self._packed)[:used], self._room)
        except cramjam.DecompressionError:
            return None
        if not in_use(split_bodies)(self._room, size, data, self._rows, count):
            return None
        return UnpackedBatches(memoryview(self._room)[:size], self._rows, count, self._kept_room)
