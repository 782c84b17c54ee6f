"""The codecs a batch's records may be packed with, unpacked within bounds.

What comes from a client is unpacked into a buffer that is never larger than the caller's limit nor than the
packed bytes could honestly fill: LZ4 and zstd frames are walked from block header to block header first,
snappy's stated length is held against the largest ratio the format allows, gzip is inflated piece by piece.
A content-size field is only ever believed downwards. So 256 MiB of zeros in 8 kB of zstd cost what the
caller's limit says and no more (zstd may hold a window of the same size beside it). `unpack_start` gives the
first bytes alone, to look at before the rest is paid for.

What is accepted is what Apache Kafka 4.3's broker accepts, since a batch that it refuses is one that Java
consumers cannot read: gzip of several members, trailing bytes ignored; snappy raw (librdkafka) or in xerial's
framing (Java); one LZ4 frame of independent blocks with an end mark; any number of zstd frames.

Measured (1 MiB of words, one core): zlib inflates as fast as cramjam's gzip and can be stopped, so gzip is
the standard library's; the other three are cramjam's, which stop cleanly when their output buffer is full.
zstd is packed by zstandard, which keeps its context between batches: 1.7 kB 50 -> 7 us, 10 kB 43 -> 32 us.
"""

import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam
import zstandard

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.base.large_memory import Room, grow_room, take_room


class Codec(IntEnum):
    """The number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UnknownCodecError(InvalidBytesError):
    """The batch's attributes name a codec that does not exist."""


class UnpackedTooLargeError(InvalidBytesError):
    """The packed bytes unpack to more than the limit."""


# A snappy copy of 64 bytes takes 3, so no stream can say more than this of itself.
_SNAPPY_RATIO_MAX: Final = 22

# Inflated at once: most batches are one piece.
_PIECE_BYTES: Final = 1024 * 1024

# What is inflated further has so much room at first, and is offered in pieces of so many bytes.
_ROOM_BYTES: Final = 2 * _PIECE_BYTES
_OFFERED_BYTES: Final = 64 * 1024
_GZIP_MEMBER: Final = b"\x1f\x8b\x08"

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\x01\0\0\0\x01"  # version, oldest version that can read it
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_LEVEL_FAST: Final = (
    9  # Kafka's default level stands for LZ4's fast mode, not for level 9 of its slow one
)
_LZ4_LEVEL_MAX: Final = 12  # Kafka's scale goes on to 17, with nothing more to gain

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a byte of 0x50 to 0x5f
_ZSTD_BLOCK_BYTES_MAX: Final = 128 * 1024
_ZSTD_LEVEL: Final = 3


class _ZstdPacker(threading.local):
    """A thread's own, since none may be used by two at once; made for the level that was last asked for."""

    def __init__(self) -> None:
        self._level = _ZSTD_LEVEL
        self._packer = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)

    def pack(self, data: Buffer, level: int) -> bytes:
        if level != self._level:
            self._packer = zstandard.ZstdCompressor(level=level)
            self._level = level
        return self._packer.compress(data)


_zstd: Final = _ZstdPacker()


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` packed as Kafka's Java producer packs it. Levels are those of Kafka's compression.*.level."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, 31)
    if codec == Codec.SNAPPY:
        return _pack_xerial(data)
    if codec == Codec.LZ4:
        return _pack_lz4(data, level)
    if codec == Codec.ZSTD:
        return _zstd.pack(data, _ZSTD_LEVEL if level is None else level)
    raise UnknownCodecError(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, *, limit_bytes: int) -> Buffer:
    """What `data` unpacks to; InvalidBytesError where it does not, or not within `limit_bytes`."""
    if codec == Codec.NONE:
        return data
    view = memoryview(data)
    try:
        if codec == Codec.GZIP:
            return _unpack_gzip(view, limit_bytes)
        if codec == Codec.SNAPPY:
            return _unpack_snappy(view, limit_bytes)
        if codec == Codec.LZ4:
            end, size = _measure_lz4(view)
            return _unpack_into(cramjam.lz4.decompress_into, view[:end], size, limit_bytes)
        if codec == Codec.ZSTD:
            unpack = cramjam.zstd.decompress_into
            return _unpack_into(unpack, view, _measure_zstd(view), limit_bytes) if view else b""
    except (zlib.error, cramjam.DecompressionError) as error:
        raise InvalidBytesError(f"records packed with {Codec(codec).name} do not unpack: {error}") from None
    except IndexError:
        raise InvalidBytesError(f"records packed with {Codec(codec).name} are cut off") from None
    raise UnknownCodecError(f"there is no codec {codec}")


def unpack_start(codec: int, data: Buffer, size: int) -> Buffer:
    """The first `size` bytes that `data` unpacks to, or fewer; faults behind them are not seen.

    Empty where the codec cannot be stopped half-way (raw snappy, whose ratio is small anyway).
    """
    if codec == Codec.GZIP:
        try:
            return zlib.decompressobj(31).decompress(memoryview(data)[: 2 * size], size)
        except zlib.error:
            return b""
    if codec not in (Codec.LZ4, Codec.ZSTD):
        return b""
    out = bytearray(size)
    unpack = cramjam.lz4.decompress_into if codec == Codec.LZ4 else cramjam.zstd.decompress_into
    try:
        return memoryview(out)[: unpack(data, out)]
    except cramjam.DecompressionError as error:
        return out if _is_full(error) else b""


def _is_full(error: Exception) -> bool:
    return "write whole buffer" in str(error)


def _unpack_into(
    unpack: Callable[[memoryview, Room], int], data: memoryview, size: int, limit: int
) -> memoryview:
    """Unpack to a buffer of `size` bytes, the most there can be, or of `limit` where that is less."""
    out = take_room(min(size, limit))
    try:
        return memoryview(out)[: unpack(data, out)]
    except cramjam.DecompressionError as error:
        if size > limit and _is_full(error):
            raise _too_large(limit) from None
        raise


def _too_large(limit: int) -> UnpackedTooLargeError:
    return UnpackedTooLargeError(f"the packed records unpack to more than {limit} bytes")


def _unpack_gzip(data: memoryview, limit: int) -> Buffer:
    """Inflate member after member in pieces, so that at no time more than the limit and a piece is held.

    What is packed is offered in pieces as well: zlib copies what it was given and did not take, every time.
    """
    inflater = zlib.decompressobj(31)
    offered = data if len(data) <= _PIECE_BYTES else data[:_PIECE_BYTES]
    piece = inflater.decompress(offered, min(limit + 1, _PIECE_BYTES))
    if inflater.eof and offered is data and not inflater.unused_data and len(piece) <= limit:
        return piece
    out = take_room(_ROOM_BYTES)
    at = size = 0
    while True:
        at += len(offered) - len(inflater.unused_data if inflater.eof else inflater.unconsumed_tail)
        if size + len(piece) > limit:
            raise _too_large(limit)
        if size + len(piece) > len(out):
            out = grow_room(out, min(2 * len(out), limit + _PIECE_BYTES))
        out[size : size + len(piece)] = piece
        size += len(piece)
        if inflater.eof:
            if bytes(data[at : at + 3]) != _GZIP_MEMBER:  # Java stops at whatever is no further member
                return memoryview(out)[:size]
            inflater = zlib.decompressobj(31)
        elif not piece and at == len(data):
            raise InvalidBytesError("a gzip member is cut off")
        offered = data[at : at + _OFFERED_BYTES]
        piece = inflater.decompress(offered, min(limit + 1 - size, _PIECE_BYTES))


def _pack_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unpack_snappy(data: memoryview, limit: int) -> memoryview:
    blocks = [data] if bytes(data[:8]) != _XERIAL_MAGIC else _xerial_blocks(data)
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > limit:
        raise _too_large(limit)
    out = memoryview(take_room(sum(sizes)))
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        at += cramjam.snappy.decompress_raw_into(block, out[at : at + size])
    return out[:at]


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """The snappy streams in xerial's framing. A header may come again, where streams were joined."""
    blocks = []
    at = 0
    while at + 4 <= len(data):
        if bytes(data[at : at + 8]) == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if not 0 < size <= len(data) - at:
            raise InvalidBytesError(f"a snappy block of {size} bytes does not fit the {len(data) - at} left")
        blocks.append(data[at : at + size])
        at += size
    return blocks


def _snappy_size(block: memoryview) -> int:
    """The stated size of a snappy stream, refused where the stream is too short to hold it."""
    size = cramjam.snappy.decompress_raw_len(block)
    if size > _SNAPPY_RATIO_MAX * len(block):
        raise InvalidBytesError(f"{len(block)} bytes of snappy cannot unpack to {size}")
    return size


def _pack_lz4(data: Buffer, level: int | None) -> memoryview:
    # Java's reader knows independent blocks only.
    fast = level is None or level == _LZ4_LEVEL_FAST
    packer = cramjam.lz4.Compressor(
        level=1 if fast else min(level or 1, _LZ4_LEVEL_MAX), content_checksum=False, block_linked=False
    )
    packer.compress(bytes(data))  # it takes nothing but bytes
    return memoryview(packer.finish())


def _measure_lz4(data: memoryview) -> tuple[int, int]:
    """Where the LZ4 frame ends, and the most it can unpack to."""
    if bytes(data[:4]) != _LZ4_MAGIC:
        raise InvalidBytesError("the records do not start with an LZ4 frame")
    flags, block_bytes_max = data[4], 1 << 8 + 2 * (data[5] >> 4 & 7)
    if flags >> 6 != 1 or not flags & 0x20 or flags & 0x03:
        raise InvalidBytesError(f"an LZ4 frame with flags {flags:#x} is none of independent blocks")
    if block_bytes_max < 1 << 16:
        raise InvalidBytesError(f"an LZ4 frame cannot have blocks of {block_bytes_max} bytes")
    trailer = 4 if flags & 0x10 else 0  # each block's checksum
    at = 7 + (8 if flags & 0x08 else 0)  # magic, flags, block size, [content size], header checksum
    most = 0
    while True:
        if at + 4 > len(data):
            raise InvalidBytesError("an LZ4 frame has no end mark")
        word = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if word == 0:
            return at + (4 if flags & 0x04 else 0), most
        size = word & 0x7FFFFFFF
        most += min(block_bytes_max, size if word >> 31 else 255 * size)
        at += size + trailer


def _measure_zstd(data: memoryview) -> int:
    """The most these zstd frames can unpack to: the sum over their blocks, or a content size below it."""
    total = at = 0
    while at < len(data):
        if bytes(data[at + 1 : at + 4]) == _ZSTD_SKIPPABLE and data[at] >> 4 == 5:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if bytes(data[at : at + 4]) != _ZSTD_MAGIC:
            raise InvalidBytesError("the records do not consist of zstd frames")
        at, most = _measure_zstd_frame(data, at + 4)
        total += most
    return total


def _measure_zstd_frame(data: memoryview, at: int) -> tuple[int, int]:
    descriptor = data[at]
    single_segment = descriptor & 0x20
    content_flag = descriptor >> 6
    at += 1 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    content_bytes = (1 if single_segment else 0, 2, 4, 8)[content_flag]
    content_size = int.from_bytes(data[at : at + content_bytes], "little") + (256 if content_flag == 1 else 0)
    at += content_bytes
    most = 0
    last = False
    while not last:
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == 1 else size)  # a run keeps one byte for all
        most += _ZSTD_BLOCK_BYTES_MAX if kind == 2 else size
    return at + (4 if descriptor & 4 else 0), min(most, content_size) if content_bytes else most
