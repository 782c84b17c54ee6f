"""What Apache Kafka 4.3.1 answers to single produced batches, and what we do.

Every `kafka` code below was given by a real node (one combined KRaft node, Produce v8 unless said
otherwise, one batch per connection). `ours` is set only where we differ, with the reason. Run against a
node again by sending each case's bytes to a topic with its settings.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam

from tests.records.raw_batches import NOW_MS, raw_batch, raw_record

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
OK, CORRUPT, TOO_LARGE, BAD_TIMESTAMP, NO_CODEC, INVALID, SERVER_ERROR = 0, 2, 10, 32, 76, 87, -1

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "small": {"max.message.bytes": "500"},
    "compact": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "strict-time": {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"},
    "strict-compact": {
        "message.timestamp.before.max.ms": "60000",
        "message.timestamp.after.max.ms": "60000",
        "cleanup.policy": "compact",
    },
    "gzip": {"compression.type": "gzip"},
    "uncompressed": {"compression.type": "uncompressed"},
    "small-uncompressed": {"compression.type": "uncompressed", "max.message.bytes": "500"},
}


class Case(NamedTuple):
    name: str
    batch: bytes
    kafka: int
    ours: int | None = None
    topic: str = "plain"
    version: int = 8
    bad_records: tuple[int, ...] = ()

    @property
    def expected(self) -> int:
        return self.kafka if self.ours is None else self.ours


def all_cases(now_ms: int = NOW_MS) -> list[Case]:
    """`now_ms` is the time in the batches: that of the node which is asked."""
    groups = (_frames, _headers, _orders, _records, _topic_rules, _codec_forms)
    return [case for group in groups for case in group(now_ms)]


def _frames(now: int) -> Iterator[Case]:
    """One whole batch, or what else is in the partition's bytes."""
    good = raw_batch(raw_record(), base_timestamp=now)
    yield Case("good", good, OK)
    yield Case("good, oldest version", good, OK, version=3)
    yield Case("nothing", b"", INVALID)
    yield Case("11 bytes", bytes(11), INVALID)
    yield Case("up to magic only", struct.pack(">qiib", 0, 1000, 0, 2), INVALID)
    yield Case("header cut off", good[:60], INVALID)
    yield Case("two batches", good * 2, INVALID)
    yield Case("two batches, v3", good * 2, INVALID, version=3)
    yield Case("5 bytes behind", good + bytes(5), OK)
    yield Case("12 zero bytes behind", good + bytes(12), CORRUPT)
    yield Case("30 zero bytes behind", good + bytes(30), CORRUPT)
    yield Case("a batch cut off behind", good + good[:40], OK)
    yield Case("a batch of no magic behind", good + struct.pack(">qiib", 0, 1000, 0, 7), CORRUPT)
    for magic in (0, 1):
        yield Case(f"magic {magic}", raw_batch(raw_record(), magic=magic), INVALID)
    for magic in (3, 9, 127, -1):
        yield Case(f"magic {magic}", raw_batch(raw_record(), magic=magic), CORRUPT)
    for length in (-(2**31), -1, 0, 10, 13, 14, 48):
        yield Case(f"length {length}", raw_batch(raw_record(), length=length), CORRUPT)
    yield Case("length 1000", raw_batch(raw_record(), length=1000), INVALID)
    # Kafka adds up to a negative number; the batch is simply not all there.
    yield Case("length 2^31-1", raw_batch(raw_record(), length=2**31 - 1), SERVER_ERROR, INVALID)


def _headers(now: int) -> Iterator[Case]:
    """Fields of the header by themselves."""
    one = raw_record()

    def batch(records: bytes = one, **fields: int) -> bytes:
        return raw_batch(records, base_timestamp=now, **fields)

    yield Case("no records", batch(b"", count=1), INVALID)
    yield Case("count 0, nothing inside", batch(b"", count=0), INVALID)
    yield Case("count 0, last delta 0", batch(b"", count=0, last_offset_delta=0), INVALID)
    yield Case("count 0, a record inside", batch(count=0, last_offset_delta=0), INVALID)
    yield Case("count -1", batch(count=-1), INVALID)
    yield Case("count -1, last delta 0", batch(count=-1, last_offset_delta=0), INVALID)
    yield Case("count 2, one record", batch(count=2), INVALID)
    yield Case("count 1000, one record", batch(count=1000), INVALID)
    yield Case("last delta 5 of one", batch(last_offset_delta=5), INVALID)
    yield Case("last delta -5 of one", batch(last_offset_delta=-5), INVALID)
    yield Case("wrong CRC", batch(crc=1), CORRUPT)
    yield Case("base offset 5", batch(base_offset=5), INVALID)
    yield Case("base offset -1", batch(base_offset=-1), INVALID)
    yield Case("control batch", batch(attributes=0x20), INVALID)
    yield Case("producer without sequence", batch(producer_id=5, producer_epoch=0), INVALID)
    yield Case("producer, sequence -5", batch(producer_id=5, producer_epoch=0, base_sequence=-5), INVALID)
    yield Case("sequence without producer", batch(base_sequence=3), OK)
    yield Case("producer id -2", batch(producer_id=-2, producer_epoch=0, base_sequence=0), OK)
    yield Case("leader epoch 55", batch(leader_epoch=55), OK)
    yield Case("delete horizon", batch(attributes=0x40), OK)
    yield Case("bits nobody uses", batch(attributes=0x80), OK)
    # -1 tells a client nothing: there is an error for this.
    for codec in (5, 6, 7):
        yield Case(f"codec {codec}", batch(attributes=codec), SERVER_ERROR, NO_CODEC)
    packed = bytes(cramjam.zstd.compress(one))
    for version, code in ((3, NO_CODEC), (6, NO_CODEC), (7, OK), (8, OK)):
        yield Case(f"zstd in v{version}", batch(packed, attributes=ZSTD), code, version=version)
    yield Case("too large", batch(raw_record() * 300, count=300), TOO_LARGE, topic="small")


def _orders(now: int) -> Iterator[Case]:
    """Two things wrong at once: which is seen first."""
    one = raw_record()

    def batch(records: bytes = one, **fields: int) -> bytes:
        return raw_batch(records, base_timestamp=now, **fields)

    big = {"count": 300}
    zstd = bytes(cramjam.zstd.compress(one))
    yield Case("wrong CRC, two", batch(crc=1) * 2, INVALID)
    yield Case("wrong CRC, control", batch(crc=1, attributes=0x20), CORRUPT)
    yield Case("wrong CRC, count lies", batch(crc=1, count=5), CORRUPT)
    yield Case("wrong CRC, base offset", batch(crc=1, base_offset=5), INVALID)
    yield Case("wrong CRC, codec 7", batch(crc=1, attributes=7), CORRUPT)
    yield Case("wrong CRC, zstd in v3", batch(zstd, crc=1, attributes=ZSTD), NO_CODEC, version=3)
    yield Case("zstd in v3, two", batch(zstd, attributes=ZSTD) * 2, NO_CODEC, version=3)
    yield Case("magic 1, two", batch(magic=1) * 2, INVALID)
    yield Case("wrong CRC, too large", batch(one * 300, crc=1, **big), TOO_LARGE, topic="small")
    yield Case("base offset, too large", batch(one * 300, base_offset=3, **big), INVALID, topic="small")
    yield Case("control, too large", batch(one * 300, attributes=0x20, **big), TOO_LARGE, topic="small")
    yield Case(
        "codec 7, count lies", batch(attributes=7, count=5, last_offset_delta=1), SERVER_ERROR, NO_CODEC
    )
    yield Case("garbage gzip, count lies", batch(b"garbage", attributes=GZIP, last_offset_delta=3), INVALID)
    yield Case("garbage gzip, control", batch(b"garbage", attributes=GZIP | 0x20), INVALID)
    yield Case("control, count lies", batch(attributes=0x20, last_offset_delta=3), INVALID)
    keyless = raw_record(key=None)
    broken = raw_record(offset_delta=1, key_size=1000)
    yield Case("no key, then a broken record", batch(keyless + broken, count=2), INVALID, topic="compact")
    yield Case("no key, then a stray byte", batch(keyless + b"\0"), INVALID, topic="compact")
    late = raw_record(timestamp_delta=-100_000) + b"\0"
    yield Case("late, then a stray byte", batch(late), INVALID, topic="strict-time")


def _records(now: int) -> Iterator[Case]:
    """Records that do not follow the format, plain and packed."""
    two = raw_record() + raw_record(offset_delta=1)
    shapes: list[tuple[str, bytes, int, int, int | None, int, int | None]] = [
        # name, records, count, Kafka plain, ours, Kafka gzip, ours: it looks less closely into packed batches
        ("two records", two, 2, OK, None, OK, None),
        ("offset delta 5", raw_record(offset_delta=5), 1, OK, INVALID, SERVER_ERROR, INVALID),
        ("offset delta -1", raw_record(offset_delta=-1), 1, OK, INVALID, SERVER_ERROR, INVALID),
        ("equal offset deltas", raw_record() * 2, 2, OK, INVALID, SERVER_ERROR, INVALID),
        ("key size -2", raw_record(key=None, key_size=-2), 1, OK, INVALID, OK, INVALID),
        ("key past the end", raw_record(key_size=1000), 1, INVALID, None, INVALID, None),
        ("value size -2", raw_record(value=None, value_size=-2), 1, OK, INVALID, OK, INVALID),
        ("value past the end", raw_record(value_size=5), 1, INVALID, None, INVALID, None),
        ("value that is not there", raw_record(value_size=-1), 1, INVALID, None, INVALID, None),
        ("-1 headers", raw_record(header_count=-1), 1, INVALID, None, INVALID, None),
        ("a million headers", raw_record(header_count=10**6), 1, INVALID, None, INVALID, None),
        ("a header short", raw_record(header_count=1), 1, INVALID, None, INVALID, None),
        ("header without key", raw_record(headers=[(None, b"v")]), 1, INVALID, None, INVALID, None),
        ("header without value", raw_record(headers=[(b"h", None)]), 1, OK, None, OK, None),
        ("header key not UTF-8", raw_record(headers=[(b"\xff\xfe", b"x")]), 1, OK, None, OK, None),
        ("record size 2 too small", raw_record(size=6), 1, INVALID, None, OK, INVALID),
        ("record size 0", b"\0", 1, INVALID, None, INVALID, None),
        ("record size -1", b"\x01", 1, INVALID, None, INVALID, None),
        ("bytes behind the fields", raw_record(extra=b"zz"), 1, INVALID, None, INVALID, None),
        ("record attributes", raw_record(attributes=255), 1, OK, None, OK, None),
        ("a size of two bytes for one", b"\x90\x00" + raw_record()[1:], 1, OK, None, OK, None),
        ("a timestamp of 11 bytes", b"\x1e\0" + b"\x80" * 10 + bytes(5), 1, INVALID, None, INVALID, None),
        ("a stray byte", raw_record() + b"\0", 1, INVALID, None, INVALID, None),
        ("one record more", two, 1, INVALID, None, INVALID, None),
        ("one record less", raw_record(), 2, INVALID, None, INVALID, None),
        ("nothing", b"", 1, INVALID, None, INVALID, None),
    ]
    for name, records, count, plain, ours_plain, packed, ours_packed in shapes:
        batch = raw_batch(records, base_timestamp=now, count=count)
        yield Case(f"{name}, plain", batch, plain, ours_plain)
        batch = raw_batch(gzip.compress(records), base_timestamp=now, count=count, attributes=GZIP)
        yield Case(f"{name}, gzip", batch, packed, ours_packed)


def _topic_rules(now: int) -> Iterator[Case]:
    """What a topic's settings refuse, plain and packed."""
    keyless, late = raw_record(key=None), raw_record(timestamp_delta=-100_000)
    third_keyless = raw_record() + raw_record(key=None, offset_delta=1) + raw_record(key=None, offset_delta=2)
    mixed = late + raw_record(key=None, offset_delta=1) + raw_record(offset_delta=2, timestamp_delta=100_000)
    shapes: list[tuple[str, str, bytes, int, tuple[int, ...]]] = [
        ("compact", "no key", keyless, INVALID, (0,)),
        ("compact", "two of three without key", third_keyless, INVALID, (1, 2)),
        ("compact", "tombstone", raw_record(value=None), OK, ()),
        ("strict-time", "late", late, BAD_TIMESTAMP, (0,)),
        ("strict-time", "early", raw_record(timestamp_delta=100_000), BAD_TIMESTAMP, (0,)),
        ("strict-time", "no timestamp", raw_record(timestamp_delta=-1 - now), OK, ()),
        ("strict-time", "timestamp -5", raw_record(timestamp_delta=-5 - now), BAD_TIMESTAMP, (0,)),
        ("plain", "timestamp -5", raw_record(timestamp_delta=-5 - now), OK, ()),
        (
            "strict-compact",
            "late, without key",
            raw_record(key=None, timestamp_delta=-100_000),
            INVALID,
            (0,),
        ),
        ("strict-compact", "late, no key, early", mixed, BAD_TIMESTAMP, (0, 1, 2)),
        ("append-time", "late is no matter", late, OK, ()),
        ("gzip", "repacked", raw_record(), OK, ()),
        ("uncompressed", "repacked", raw_record(), OK, ()),
    ]
    for topic, name, records, code, bad in shapes:
        count = 3 if len(bad) > 1 else 1
        batch = raw_batch(records, base_timestamp=now, count=count)
        yield Case(f"{topic}: {name}, plain", batch, code, topic=topic, bad_records=bad)
        batch = raw_batch(gzip.compress(records), base_timestamp=now, count=count, attributes=GZIP)
        yield Case(f"{topic}: {name}, gzip", batch, code, topic=topic, bad_records=bad)
    swelling = raw_batch(gzip.compress(raw_record(value=bytes(5000))), base_timestamp=now, attributes=GZIP)
    yield Case("too large once unpacked", swelling, TOO_LARGE, topic="small-uncompressed")
    stamped = {"attributes": 8, "base_timestamp": now}
    yield Case("append time set by the client", raw_batch(raw_record(), **stamped), OK)
    batch = raw_batch(raw_record(), **stamped, max_timestamp=-1)
    yield Case("the same, of no time", batch, BAD_TIMESTAMP, bad_records=(0,))
    batch = raw_batch(raw_record() + raw_record(offset_delta=1), **stamped, count=2)
    yield Case("the same, to append time", batch, BAD_TIMESTAMP, topic="append-time", bad_records=(0, 1))


def _codec_forms(now: int) -> Iterator[Case]:
    """The streams each codec may be, and those it may not."""
    records = b"".join(raw_record(offset_delta=index, value=b"x" * 1000) for index in range(200))

    def case(name: str, codec: int, packed: bytes, kafka: int, ours: int | None = None) -> Case:
        return Case(name, raw_batch(packed, base_timestamp=now, attributes=codec, count=200), kafka, ours)

    for codec, name in ((GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd")):
        yield case(f"{name}: garbage", codec, b"notgzip....", SERVER_ERROR, CORRUPT)
    for codec, name in ((GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4")):
        yield case(f"{name}: empty", codec, b"", SERVER_ERROR, CORRUPT)
    yield case("zstd: empty", ZSTD, b"", INVALID)
    yield from _gzip_forms(case, records)
    yield from _snappy_forms(case, records)
    yield from _lz4_forms(case, records)
    yield from _zstd_forms(case, records)


def _gzip_forms(case, records: bytes) -> Iterator[Case]:  # type: ignore[no-untyped-def]
    packed = gzip.compress(records)
    yield case("gzip", GZIP, packed, OK)
    yield case("gzip: two members", GZIP, gzip.compress(records[:999]) + gzip.compress(records[999:]), OK)
    yield case("gzip: an empty member behind", GZIP, packed + gzip.compress(b""), OK)
    yield case("gzip: an empty member first", GZIP, gzip.compress(b"") + packed, OK)
    yield case("gzip: garbage behind", GZIP, packed + b"garbage!!!", OK)
    yield case("gzip: zeros behind", GZIP, packed + bytes(20), OK)
    yield case("gzip: no trailer", GZIP, packed[:-8], SERVER_ERROR, CORRUPT)
    yield case("gzip: wrong trailer", GZIP, packed[:-8] + bytes(8), SERVER_ERROR, CORRUPT)
    yield case("gzip: half", GZIP, packed[: len(packed) // 2], SERVER_ERROR, CORRUPT)
    yield case("gzip: zlib instead", GZIP, zlib.compress(records), SERVER_ERROR, CORRUPT)


def xerial(data: bytes, *, block: int = 32768, versions: tuple[int, int] = (1, 1)) -> bytes:
    out = b"\x82SNAPPY\0" + struct.pack(">ii", *versions)
    for at in range(0, len(data), block):
        packed = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out += struct.pack(">i", len(packed)) + packed
    return out


def _snappy_forms(case, records: bytes) -> Iterator[Case]:  # type: ignore[no-untyped-def]
    raw = bytes(cramjam.snappy.compress_raw(records))
    framed = xerial(records)
    yield case("snappy: raw", SNAPPY, raw, OK)
    yield case("snappy: xerial", SNAPPY, framed, OK)
    yield case("snappy: xerial, one block", SNAPPY, xerial(records, block=1 << 20), OK)
    yield case("snappy: xerial, versions 5", SNAPPY, xerial(records, versions=(5, 5)), OK)
    yield case("snappy: xerial joined", SNAPPY, xerial(records[:999]) + xerial(records[999:]), OK)
    yield case("snappy: xerial, 2 bytes behind", SNAPPY, framed + b"\0\0", OK)
    yield case("snappy: xerial, empty", SNAPPY, xerial(b""), INVALID)
    yield case("snappy: xerial, a block of 0", SNAPPY, framed + bytes(4), SERVER_ERROR, CORRUPT)
    yield case("snappy: xerial, a block of -1", SNAPPY, framed + b"\xff" * 4, SERVER_ERROR, CORRUPT)
    yield case("snappy: xerial cut off", SNAPPY, framed[:-5], SERVER_ERROR, CORRUPT)
    yield case("snappy: raw, bytes behind", SNAPPY, raw + b"zz", SERVER_ERROR, CORRUPT)
    google = bytes(cramjam.snappy.compress(records))
    yield case("snappy: Google's framing", SNAPPY, google, SERVER_ERROR, CORRUPT)


def lz4_frame(data: bytes, *, linked: bool = False, checksum: bool = False) -> bytes:
    packer = cramjam.lz4.Compressor(content_checksum=checksum, block_linked=linked)
    packer.compress(data)
    return bytes(packer.finish())


def _lz4_forms(case, records: bytes) -> Iterator[Case]:  # type: ignore[no-untyped-def]
    frame = lz4_frame(records)
    wrong_header = frame[:6] + bytes([frame[6] ^ 1]) + frame[7:]
    yield case("lz4", LZ4, frame, OK)
    yield case("lz4: content checksum", LZ4, lz4_frame(records, checksum=True), OK)
    yield case("lz4: linked blocks", LZ4, lz4_frame(records, linked=True), SERVER_ERROR, CORRUPT)
    yield case("lz4: no end mark", LZ4, frame[:-4], SERVER_ERROR, CORRUPT)
    yield case("lz4: cut off", LZ4, frame[:-20], SERVER_ERROR, CORRUPT)
    yield case("lz4: a second frame is ignored", LZ4, frame * 2, OK)
    yield case("lz4: in two frames", LZ4, lz4_frame(records[:999]) + lz4_frame(records[999:]), INVALID)
    yield case("lz4: garbage behind", LZ4, frame + b"garbage", OK)
    yield case("lz4: wrong header checksum", LZ4, wrong_header, SERVER_ERROR, CORRUPT)


def zstd_stream(data: bytes) -> bytes:
    packer = cramjam.zstd.Compressor()
    packer.compress(data)
    return bytes(packer.finish())


def _zstd_forms(case, records: bytes) -> Iterator[Case]:  # type: ignore[no-untyped-def]
    frame = bytes(cramjam.zstd.compress(records))
    note = struct.pack("<II", 0x184D2A50, 5) + b"hello"
    halves = bytes(cramjam.zstd.compress(records[:999])) + bytes(cramjam.zstd.compress(records[999:]))
    yield case("zstd", ZSTD, frame, OK)
    yield case("zstd: no content size", ZSTD, zstd_stream(records), OK)
    yield case("zstd: two frames", ZSTD, halves, OK)
    yield case("zstd: an empty frame first", ZSTD, bytes(cramjam.zstd.compress(b"")) + frame, OK)
    yield case("zstd: a skippable frame first", ZSTD, note + frame, OK)
    yield case("zstd: a skippable frame behind", ZSTD, frame + note, OK)
    yield case("zstd: cut off", ZSTD, frame[:-10], SERVER_ERROR, CORRUPT)
    yield case("zstd: garbage behind", ZSTD, frame + b"garbage!!!", SERVER_ERROR, CORRUPT)
