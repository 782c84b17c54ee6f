"""Records with everything that a record can have, for every client to send and every other to read back."""

import random
import time
from collections.abc import Iterable
from dataclasses import replace

from tests.compat.clients.face import Record
from tests.compat.clients.roster import BLURS_EMPTY, Entry

ALL_BYTES = bytes(range(256))
LONG_TEXT = b"the river carries what the sluice lets through; " * 200

# kind: (key, value, headers)
KINDS: dict[str, tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = {
    "plain": (b"key", b"value", ()),
    "null key": (None, b"value", ()),
    "null value": (b"tombstone", None, ()),
    "null both": (None, None, ()),
    "empty key": (b"", b"value", ()),
    "empty value": (b"key", b"", ()),
    "headers": (b"key", b"value", (("trace", b"\x00\xff"), ("origin", b"compat"))),
    "repeated header": (b"key", b"value", (("step", b"1"), ("step", b"2"), ("last", b"3"))),
    "empty header": (b"key", b"value", (("empty", b""),)),
    "null header": (b"key", b"value", (("nothing", None),)),
    "header name beyond ascii": (b"key", b"value", (("Größe-水", b"x"),)),
    "all bytes": (ALL_BYTES, ALL_BYTES[::-1], (("all", ALL_BYTES),)),
    "long": (b"key", LONG_TEXT, ()),
}


def hour_ago_ms() -> int:
    """A time for records that is neither in the future nor near any retention."""
    return time.time_ns() // 1_000_000 - 3_600_000


def sample_records(sender: Entry, partition: int, first_ms: int) -> list[Record]:
    """One of every kind that the client can send, a millisecond apart, and a run of small ones."""
    kinds = [parts for kind, parts in KINDS.items() if kind not in sender.cannot]
    records = [
        Record(partition, first_ms + at, key, value, headers)
        for at, (key, value, headers) in enumerate(kinds)
    ]
    run = (
        Record(partition, first_ms + 100 + at, b"%d" % (at % 7), b"small value %d" % at) for at in range(50)
    )
    return [*records, *run]


def incompressible(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def numbered(records: Iterable[Record], first_offset: int = 0) -> list[Record]:
    """As they are read back: with the offsets that they have if nothing else was sent to their partition."""
    offsets: dict[int, int] = {}
    out = []
    for record in records:
        offset = offsets.get(record.partition, first_offset)
        offsets[record.partition] = offset + 1
        out.append(replace(record, offset=offset))
    return sorted(out, key=lambda record: (record.partition, record.offset))


def as_seen_by(reader: Entry, records: Iterable[Record]) -> list[Record]:
    """What the client can show of them."""
    if BLURS_EMPTY not in reader.cannot:
        return list(records)
    return [
        replace(
            record,
            key=record.key or None,
            value=record.value or None,
            headers=tuple((name, value or None) for name, value in record.headers),
        )
        for record in records
    ]
