"""What a scenario asks of a client, whatever its language.

A client that lives in this process implements `Client` directly; one in another language is a program that
takes the same calls as JSON lines (external.py). Offsets, partitions and times are plain integers, a
partition map is a dict, and a refusal by the broker is a RefusedError with Kafka's error code.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_SECONDS = 120.0
# Nobody here waits for a session to end, and a busy machine may hold a member up for long.
SESSION_MS = 45_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """One record as sent (offset -1) or as read."""

    partition: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1

    def __repr__(self) -> str:
        """Short enough to read in a failure, with sizes for what is cut."""
        parts = (f"{self.partition}/{self.offset}@{self.timestamp_ms}", _short(self.key), _short(self.value))
        return f"<{' '.join(parts)} {[(name, _short(value)) for name, value in self.headers]}>"


class RefusedError(Exception):
    """The broker answered with this error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def check_code(code: int, what: str) -> None:
    if code:
        raise RefusedError(code, what)


def refusal_of(error: Exception) -> RefusedError:
    """For the errors of kafka-python and aiokafka, which carry Kafka's code."""
    return RefusedError(getattr(error, "errno", -1), repr(error))


class Client(ABC):
    """A client library, connected to one broker."""

    @abstractmethod
    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[int]:
        """Sends with acks=all to the partitions that the records name; answers their offsets."""

    @abstractmethod
    def consume(
        self, topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None = None
    ) -> list[Record]:
        """Reads each partition from its start (default: the beginning) to its end; sorted."""

    @abstractmethod
    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """The first offset at or after the time for each partition, -1 where there is none."""

    @abstractmethod
    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first and the next offset of each partition."""

    @abstractmethod
    def join(self, member: str, group: str, topic: str) -> None:
        """Starts a member: from committed offsets, else from the beginning; no commits unasked."""

    @abstractmethod
    def assigned(self, member: str) -> list[int]:
        """The partitions that the member owns now, sorted."""

    @abstractmethod
    def taken(self, member: str) -> list[Record]:
        """All that the member has read so far, in the order read."""

    @abstractmethod
    def commit(self, member: str) -> None:
        """Commits the member's positions, and waits for the answer."""

    @abstractmethod
    def leave(self, member: str) -> None:
        """Leaves the group in order."""

    @abstractmethod
    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets committed by the group, where there are any."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def topics(self) -> list[str]: ...

    @abstractmethod
    def describe_topic(self, topic: str) -> dict[int, dict[str, Any]]:
        """leader, replicas and isr of each partition."""

    @abstractmethod
    def add_partitions(self, topic: str, count: int) -> None:
        """Lets the topic have `count` partitions."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def topic_config(self, topic: str) -> dict[str, str]: ...

    @abstractmethod
    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def cluster(self) -> dict[str, Any]:
        """controller: its id; brokers: a list of [id, host, port]."""

    @abstractmethod
    def groups(self) -> list[str]: ...

    @abstractmethod
    def describe_group(self, group: str) -> dict[str, Any]:
        """state, and the number of members."""

    @abstractmethod
    def delete_group(self, group: str) -> None: ...

    @abstractmethod
    def delete_records(self, topic: str, before: Mapping[int, int]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Ends what the client has running."""


def eventually(ask: Callable[[], T], what: str | Callable[[], str], seconds: float = WAIT_SECONDS) -> T:
    """Asks until the answer is true, and returns it; says what was waited for when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {seconds:.0f} s in vain: {told}")
        time.sleep(0.02)


def _short(data: bytes | None) -> str:
    if data is None or len(data) <= 24:
        return repr(data)
    return f"{data[:16]!r}…{len(data)}"
