"""CoordinatorShard: a coordinator's state over one partition of its internal topic, as the runtime sees it.

Requests read a shard's state and return records; only their replay changes it. Which partition keeps a group
or a transactional id follows from its name.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.base.error_codes import ErrorCode


class CoordinatorRecord(NamedTuple):
    """A key and its value (None deletes), as messages of `wire`; `version` is the value's."""

    key: object
    value: object | None
    version: int = 0


class CoordinatorShard(Protocol):
    """The state machine over one partition of an internal topic, changed by replay."""

    def replay(self, key: object, value: object | None) -> None: ...

    def replay_transactional(self, producer_id: int, key: object, value: object | None) -> None:
        """A record of an open transaction."""
        ...

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction has ended: its records count from now on, or never."""
        ...

    def on_loaded(self) -> None:
        """All of the partition was replayed: begin to serve."""
        ...

    def on_unloaded(self) -> None:
        """Leadership is gone: answer waiting requests, cancel timers."""
        ...


Done = Callable[[ErrorCode], None]


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: a signed 32-bit hash over the string's UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition of an internal topic that keeps this group or transactional id."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
