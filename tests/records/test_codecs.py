"""Codecs: against other libraries in both directions, at every level, and within their bounds."""

import contextlib
import gzip
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.errors import InvalidBytesError
from headrace.records.codecs import (
    Codec,
    UnknownCodecError,
    UnpackedTooLargeError,
    compress,
    decompress,
    unpack_start,
)
from tests.records.produce_cases import xerial

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b" ".join(b"word%d" % (n * n % 977) for n in range(60_000))
LIMIT = 1 << 20


def unpack(codec: int, data: bytes, limit_bytes: int = LIMIT) -> bytes:
    return bytes(decompress(codec, data, limit_bytes=limit_bytes))


@given(data=st.binary(max_size=3000), codec=st.sampled_from(Codec))
def test_round_trip(data: bytes, codec: Codec) -> None:
    assert unpack(codec, bytes(compress(codec, data))) == data


@pytest.mark.parametrize("size", [0, 1, 32_767, 32_768, 32_769, 65_536, 131_073, len(TEXT)])
@pytest.mark.parametrize("codec", PACKED)
def test_block_borders(codec: Codec, size: int) -> None:
    assert unpack(codec, bytes(compress(codec, memoryview(TEXT)[:size]))) == TEXT[:size]


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, level) for level in (-1, 1, 9)]
    + [(Codec.LZ4, level) for level in (1, 3, 9, 12, 17)]
    + [(Codec.ZSTD, level) for level in (-131072, -1, 1, 3, 22)],
)
def test_every_level_of_kafka(codec: Codec, level: int) -> None:
    assert unpack(codec, bytes(compress(codec, TEXT, level))) == TEXT


def test_levels_matter() -> None:
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)):
        assert len(compress(codec, TEXT, high)) < len(compress(codec, TEXT, low))
    assert compress(Codec.LZ4, TEXT, 9) == compress(Codec.LZ4, TEXT), "Kafka's default is the fast mode"


def test_many_threads_pack_at_once() -> None:
    texts = [TEXT[start : start + 50_000] for start in range(16)]
    levels = [None, 1, 9, None] * 4
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            packed = threads.map(lambda text, level: compress(Codec.ZSTD, text, level), texts, levels)
            assert [bytes(cramjam.zstd.decompress(each)) for each in packed] == texts


def test_others_read_ours() -> None:
    packed = {codec: bytes(compress(codec, TEXT)) for codec in PACKED}
    assert gzip.decompress(packed[Codec.GZIP]) == TEXT
    assert lz4.frame.decompress(packed[Codec.LZ4]) == TEXT
    assert lz4.frame.get_frame_info(packed[Codec.LZ4])["block_linked"] is False
    assert bytes(cramjam.zstd.decompress(packed[Codec.ZSTD])) == TEXT
    assert xerial(TEXT) == packed[Codec.SNAPPY]


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
def test_lz4_of_others(block_size: int, store_size: bool, checksums: bool) -> None:
    frame = lz4.frame.compress(
        TEXT,
        block_size=block_size,
        block_linked=False,
        store_size=store_size,
        content_checksum=checksums,
        block_checksum=checksums,
    )
    assert unpack(Codec.LZ4, frame) == TEXT


def test_lz4_of_raw_blocks() -> None:
    noise = bytes(cramjam.zstd.compress(TEXT))
    assert unpack(Codec.LZ4, lz4.frame.compress(noise, block_linked=False)) == noise


def test_snappy_of_others() -> None:
    assert unpack(Codec.SNAPPY, snappy.compress(TEXT)) == TEXT


@pytest.mark.parametrize("content_size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_zstd_of_others(content_size: bool, checksum: bool) -> None:
    packer = zstandard.ZstdCompressor(write_content_size=content_size, write_checksum=checksum)
    for data in (b"", b"x", b"x" * 255, b"x" * 256, b"x" * 70_000, TEXT, bytes(cramjam.gzip.compress(TEXT))):
        assert unpack(Codec.ZSTD, packer.compress(data)) == data
    stream = packer.compressobj()
    pieces = [stream.compress(TEXT[:1000]), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    pieces += [stream.compress(TEXT[1000:]), stream.flush()]
    assert unpack(Codec.ZSTD, b"".join(pieces)) == TEXT


def test_gzip_of_many_pieces() -> None:
    data = TEXT * 8
    assert len(data) > 3 << 20
    halves = gzip.compress(data[: 1 << 20]) + gzip.compress(data[1 << 20 :])
    assert unpack(Codec.GZIP, halves, limit_bytes=len(data)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT))
    assert unpack(codec, packed, limit_bytes=len(TEXT)) == TEXT
    with pytest.raises(UnpackedTooLargeError):
        unpack(codec, packed, limit_bytes=len(TEXT) - 1)


def test_any_ratio_is_honest() -> None:
    """20 MB of one letter, as Kafka takes them."""
    letters = b"a" * 20_000_000
    packed = bytes(compress(Codec.ZSTD, letters))
    assert len(packed) < 10_000
    assert unpack(Codec.ZSTD, packed, limit_bytes=len(letters)) == letters


BOMB = """
import resource, sys
from headrace.records.codecs import Codec, UnpackedTooLargeError, compress, decompress, unpack_start
codec = Codec[sys.argv[1]]
packed = bytes(compress(codec, bytes(64 << 20), 9))
unpack_start(codec, packed, 1 << 16)
pages = int(open("/proc/self/statm").read().split()[0])
mebibytes = pages * resource.getpagesize() >> 20
resource.setrlimit(resource.RLIMIT_AS, ((mebibytes + 40) << 20,) * 2)
try:
    decompress(codec, packed, limit_bytes=12 << 20)
except UnpackedTooLargeError:
    print("refused", len(unpack_start(codec, packed, 1 << 16)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to limit its memory")
@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: Codec) -> None:
    """64 MiB of zeros and a limit of 12 MiB, in a process that can have 40 MiB more and no more than that."""
    done = subprocess.run(
        [sys.executable, "-c", BOMB, codec.name], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused", "0" if codec == Codec.SNAPPY else "65536"]


def test_a_stated_size_is_not_believed() -> None:
    with pytest.raises(InvalidBytesError):  # raw snappy that says 4 GiB
        unpack(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100), limit_bytes=1 << 40)
    frame = bytearray(zstandard.ZstdCompressor(level=1).compress(TEXT))
    assert frame[4] >> 6 == 2, "a content size of 4 bytes"
    for lie in (0, len(TEXT) - 1, len(TEXT) + 1, 2**32 - 1):
        frame[6 - (frame[4] >> 5 & 1) : 10 - (frame[4] >> 5 & 1)] = lie.to_bytes(4, "little")
        with pytest.raises(InvalidBytesError):
            unpack(Codec.ZSTD, bytes(frame))


@settings(max_examples=300)
@given(
    codec=st.sampled_from(PACKED),
    size=st.integers(0, 3000),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 30),
    behind=st.binary(max_size=20),
)
def test_bad_streams_raise_nothing_else(
    codec: Codec, size: int, changes: list[tuple[int, int]], cut: int, behind: bytes
) -> None:
    packed = bytearray(compress(codec, TEXT[:size]))
    for at, byte in changes:
        packed[at % len(packed)] = byte
    data = bytes(packed[: max(0, len(packed) - cut)]) + behind
    with contextlib.suppress(InvalidBytesError):
        assert len(unpack(codec, data, limit_bytes=5000)) <= 5000
    assert len(unpack_start(codec, data, 100)) <= 100


@given(codec=st.integers(0, 9), data=st.binary(max_size=60))
def test_noise_raises_nothing_else(codec: int, data: bytes) -> None:
    with contextlib.suppress(InvalidBytesError):
        unpack(codec, data)


def test_unknown_codecs() -> None:
    with pytest.raises(UnknownCodecError):
        compress(5, b"")
    with pytest.raises(UnknownCodecError):
        unpack(7, b"")


@pytest.mark.parametrize("codec", PACKED)
def test_the_start_of_a_stream(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT))
    start = bytes(unpack_start(codec, packed, 1000))
    assert start == (b"" if codec == Codec.SNAPPY else TEXT[:1000])
    short = bytes(compress(codec, TEXT[:10]))
    assert bytes(unpack_start(codec, short, 1000)) == (b"" if codec == Codec.SNAPPY else TEXT[:10])
