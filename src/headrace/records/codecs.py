"""The codecs a batch's records may be packed with."""

import zlib
from enum import IntEnum
from typing import cast

import cramjam

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError


class Codec(IntEnum):
    """The number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` packed as Kafka's producer packs it."""
    if codec == Codec.GZIP:
        return zlib.compress(data, -1 if level is None else level, 31)
    if codec == Codec.SNAPPY:
        return memoryview(cramjam.snappy.compress_raw(data))
    if codec == Codec.LZ4:
        return memoryview(cramjam.lz4.compress(data))
    if codec == Codec.ZSTD:
        return memoryview(cramjam.zstd.compress(data, level))
    return data


def decompress(codec: int, data: Buffer, *, limit_bytes: int) -> Buffer:
    """The reverse."""
    try:
        if codec == Codec.GZIP:
            return zlib.decompressobj(31).decompress(data, limit_bytes)
        if codec == Codec.SNAPPY:
            return cast(Buffer, memoryview(cramjam.snappy.decompress_raw(data)))
        if codec == Codec.LZ4:
            return cast(Buffer, memoryview(cramjam.lz4.decompress(data)))
        if codec == Codec.ZSTD:
            return cast(Buffer, memoryview(cramjam.zstd.decompress(data)))
    except (zlib.error, cramjam.DecompressionError) as error:
        raise InvalidBytesError(f"records packed with codec {codec} cannot be unpacked: {error}") from None
    return data
