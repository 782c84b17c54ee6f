"""Names for the numbers and bytes that identify things, so that a signature says which one it wants."""

import base64
from random import Random
from typing import Final, NamedTuple, NewType

TopicId = NewType("TopicId", bytes)
"""A topic's or directory's UUID as its 16 raw bytes: hashable, and cheap to read from a frame."""

NO_TOPIC_ID: Final = TopicId(bytes(16))
NO_LEADER: Final = -1
NO_EPOCH: Final = -1
DASH: Final = 62
"""What "-" stands for in URL-safe base64."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name; also the key of every table of partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def new_uuid(rng: Random) -> bytes:
    """A random (version 4) UUID whose text does not begin with a dash, which command lines would take for a
    flag: Kafka's do not either.
    """
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        # The text's first character stands for the first six bits.
        if raw[0] >> 2 != DASH:
            return bytes(raw)


def uuid_text(raw: bytes) -> str:
    """Kafka's way to print a UUID: URL-safe base64 of its 16 bytes, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The reverse of `uuid_text`; raises ValueError where the text is not 16 bytes of URL-safe base64."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a UUID, as MkU3OEVBNTcwNTJENDM2Qg: 16 bytes as base64")
    return raw
