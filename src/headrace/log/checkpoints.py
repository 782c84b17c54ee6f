"""Kafka's small text files: what a log directory and a partition remember between runs.

A checkpoint is a version line (0), a line with the number of entries, and one line per entry. An offset
checkpoint's entries are `topic partition offset`, a leader epoch checkpoint's `epoch startOffset`.
`partition.metadata` holds the topic's id, `.kafka_cleanshutdown` the epoch of the broker that stopped in
order (KIP-966 asks for it at registration).

All are hints that can be had again from the log itself, from the controller or, of what has left this disk,
from the remote store: what cannot be parsed is told as InvalidBytesError, and the reader goes on without it.

A digit that flipped makes another number, and these files have no checksum. So what is written here ends with
one that Kafka reads over: 32 blanks and tabs behind the last word, the bits of a CRC-32C (`seal`). A file
that ends without any was written by Kafka, and is taken as it is.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition, uuid_bytes, uuid_text

VERSION: Final = 0
NO_BROKER_EPOCH: Final = -1


_BITS: Final = str.maketrans("01", " \t")


def seal(data: bytes) -> bytes:
    """The same with a checksum in white space, before the end of the last line."""
    body = data.rstrip(b"\n")
    return body + f"{crc32c(body):032b}".translate(_BITS).encode() + data[len(body) :]


def unseal(data: bytes) -> bytes:
    """The same without its checksum, if it has one; InvalidBytesError where that is another's."""
    body = data.rstrip()
    white = data[len(body) :]
    if white in (b"", b"\n"):
        return data
    if white.removesuffix(b"\n") != seal(body)[len(body) :]:
        raise InvalidBytesError("its checksum is that of other bytes")
    return body + b"\n"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    data = _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))
    return seal(data) if offsets else data  # the number of entries has no room for it


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offset of each partition. A file without a byte is a new one: no partition yet."""
    offsets = {}
    for topic, partition, offset in _decode(unseal(data), fields=3):
        offsets[TopicPartition(topic, _number(partition))] = _number(offset)
    return offsets


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs; both must rise."""
    entries = [(_number(epoch), _number(start)) for epoch, start in _decode(data, fields=2)]
    for earlier, later in pairwise(entries):
        if later[0] <= earlier[0] or later[1] < earlier[1]:
            raise InvalidBytesError(f"epoch {later} cannot follow {earlier}")
    return entries


def encode_aborted(seals: Mapping[int, tuple[int, int]]) -> bytes:
    """Of each segment that has a transaction index: how many entries, and their CRC-32C."""
    data = _encode(f"{base_offset} {count} {crc}" for base_offset, (count, crc) in sorted(seals.items()))
    return seal(data) if seals else data


def decode_aborted(data: bytes) -> dict[int, tuple[int, int]]:
    return {
        _number(base_offset): (_number(count), _number(crc))
        for base_offset, count, crc in _decode(unseal(data), fields=3)
    }


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> TopicId:
    lines = dict(line.partition(": ")[::2] for line in _text(data).splitlines())
    if lines.get("version") != "0":
        raise InvalidBytesError(f"version {lines.get('version')!r} is not known")
    try:
        return TopicId(uuid_bytes(lines.get("topic_id", "")))
    except ValueError as error:
        raise InvalidBytesError(str(error)) from None


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """The broker epoch; -1 where the file does not tell, as that of an older Kafka."""
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
    return epoch if isinstance(epoch, int) else NO_BROKER_EPOCH


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()


def _decode(data: bytes, *, fields: int) -> list[list[str]]:
    if not data:
        return []
    if not data.endswith(b"\n"):
        raise InvalidBytesError("its last line is not whole")
    version, *rest = _text(data).splitlines()
    if version != str(VERSION):
        raise InvalidBytesError(f"version {version[:16]!r} is not known")
    if not rest:
        raise InvalidBytesError("the number of entries is missing")
    entries = [line.split() for line in rest[1:] if line]
    if len(entries) != _number(rest[0]):
        raise InvalidBytesError(f"{rest[0]} entries are announced, {len(entries)} are there")
    for entry in entries:
        if len(entry) != fields:
            raise InvalidBytesError(f"{' '.join(entry)[:80]!r} does not have {fields} fields")
    return entries


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidBytesError(f"{text[:40]!r} is not a number")
    return int(text)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidBytesError(f"not text: {error}") from None
