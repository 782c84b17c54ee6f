"""Kafka requests as bytes, made by hand: what a client library would never send.

Only non-flexible versions are used, where a string is an int16 length and its bytes, an array an int32 count.
"""

import socket
import struct
import time
from dataclasses import dataclass

import crc32c

PRODUCE, METADATA, FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS = 0, 3, 10, 18, 19
CONNECT_SECONDS = 30.0
ANSWER_SECONDS = 60.0
DESCRIBE_SECONDS = 15.0  # it is asked again by whoever wants to know


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def request(key: int, version: int, body: bytes = b"", *, correlation_id: int = 7) -> bytes:
    """A whole frame: length, header with a client id, body."""
    return framed(struct.pack(">hhi", key, version, correlation_id) + text("raw") + body)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def create_topic(name: str) -> bytes:
    """CreateTopics v2: one partition and replica; no assignment or configuration; not only validated."""
    return request(
        CREATE_TOPICS, 2, struct.pack(">i", 1) + text(name) + struct.pack(">ihiiib", 1, 1, 0, 0, 5000, 0)
    )


def described_by(address: str, topic: str) -> tuple[int, int] | None:
    """A topic's error and number of partitions as this very broker tells them (Metadata v1); None without an
    answer.

    An entry is an error, the name, a flag, and the count of partitions.
    """
    try:
        frame = talk(
            address, request(METADATA, 1, struct.pack(">i", 1) + text(topic)), DESCRIBE_SECONDS
        ).frame
    except OSError:
        return None
    at = frame.find(text(topic))
    if at < 0:
        return None
    (error,) = struct.unpack_from(">h", frame, at - 2)
    (count,) = struct.unpack_from(">i", frame, at + len(text(topic)) + 1)
    return error, count


def produce(topic: str, records: bytes) -> bytes:
    """Produce v3 with acks=all to partition 0."""
    head = struct.pack(">hhii", -1, -1, 5000, 1)
    return request(PRODUCE, 3, head + text(topic) + struct.pack(">iii", 1, 0, len(records)) + records)


# attributes, time delta 0, offset delta 0, no key, the value "a", no headers; all preceded by its length
ONE_RECORD = bytes.fromhex("0e 00 00 00 01 02 61 00")


def batch(
    records: bytes = ONE_RECORD,
    *,
    count: int = 1,
    codec: int = 0,
    magic: int = 2,
    crc: int | None = None,
    length: int | None = None,
) -> bytes:
    """A record batch of format 2 with a true check sum, unless another is given."""
    body = struct.pack(">hiqqqhii", codec, count - 1, 1, 1, -1, -1, -1, count) + records
    checked = struct.pack(">ibI", 0, magic, crc32c.crc32c(body) if crc is None else crc) + body
    return struct.pack(">qi", 0, len(checked) if length is None else length) + checked


@dataclass(frozen=True)
class Outcome:
    """What became of a connection: an answer, or closed, or neither in the time given."""

    state: str
    frame: bytes = b""

    @property
    def correlation_id(self) -> int:
        return int(struct.unpack_from(">i", self.frame, 4)[0])

    @property
    def first_error(self) -> int:
        """Of ApiVersions."""
        return int(struct.unpack_from(">h", self.frame, 8)[0])

    @property
    def topic_error(self) -> int:
        """Of CreateTopics v2, after the throttle time, a count and the name."""
        (name_bytes,) = struct.unpack_from(">h", self.frame, 16)
        return int(struct.unpack_from(">h", self.frame, 18 + name_bytes)[0])

    @property
    def produce_error(self) -> int:
        """Of Produce v3, after a count, the name, a count and the partition."""
        (name_bytes,) = struct.unpack_from(">h", self.frame, 12)
        return int(struct.unpack_from(">h", self.frame, 14 + name_bytes + 8)[0])


class Connection:
    """One socket to the broker."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), CONNECT_SECONDS)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, payload: bytes) -> None:
        self._socket.sendall(payload)

    def outcome(self, seconds: float = ANSWER_SECONDS) -> Outcome:
        deadline = time.monotonic() + seconds
        frame = b""
        try:
            while len(frame) < 4 or len(frame) < 4 + struct.unpack_from(">i", frame)[0]:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                more = self._socket.recv(1 << 16)
                if not more:
                    return Outcome("closed")
                frame += more
        except TimeoutError:
            return Outcome("silent")
        except ConnectionError:
            return Outcome("closed")
        return Outcome("answered", frame)


def talk(bootstrap: str, payload: bytes, seconds: float = ANSWER_SECONDS) -> Outcome:
    """One request on a connection of its own."""
    with Connection(bootstrap) as connection:
        try:
            connection.send(payload)
        except ConnectionError:  # closed before all of it was taken
            return Outcome("closed")
        return connection.outcome(seconds)
