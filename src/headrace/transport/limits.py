"""The bounds of one connection and of all of them together, each with its reason.

A server is open to strangers: whatever a peer can make us hold is bounded here, and nothing is bounded
elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may hold. The defaults are a broker's; a client changes little."""

    # A frame larger than this is a broken or hostile peer: refuse before allocating (Kafka:
    # socket.request.max.bytes).
    frame_bytes_max: int = 100 * MIB
    # Replies that are ready and not yet taken by the kernel. Above it no further request is read, so a peer
    # that does not read its replies holds this much and one reply more.
    unsent_bytes_max: int = 4 * MIB
    # Requests without a reply yet. Each holds a small object only, so this bounds bookkeeping, not data.
    outstanding_max: int = 512
    # One connection's turn of the loop, in either direction: long enough to be worth the wake-up, short
    # enough (about half a millisecond of copying) that thousands of others wait little.
    turn_bytes_max: int = 1 * MIB
    # One piece of a long reply while others get short ones (`sending_turns`): about 0.1 ms, which is less
    # than a small request takes.
    shared_turn_bytes_max: int = 256 * KIB
    # The rest of a large frame wakes us when so much of it is there, or all: a follower read a reply in seven
    # parts. What lacks less than the minimum is not worth the two calls.
    awaited_bytes_min: int = 64 * KIB
    awaited_bytes_max: int = 256 * KIB
    # Quiet for this long with nothing to answer: closed (Kafka: connections.max.idle.ms). 0 or less: never.
    idle_ms_max: int = 600_000
    # Every frame gets memory of its own that must be free of views when its handler returns: slow, finds
    # misuse.
    check_views: bool = False


@dataclass(frozen=True, slots=True)
class ReceiveLimits:
    """What all connections of a process may hold in unfinished frames, and how their buffers are sized."""

    # One read: holds several produce batches of the usual 16 to 64 KiB and stays within the second-level
    # cache.
    buffer_bytes: int = 256 * KIB
    # A connection whose frames are large starts with a buffer of their size, up to this; beyond it every
    # frame makes its buffer grow as its bytes arrive.
    buffer_bytes_expected_max: int = 4 * MIB
    # Buffers kept warm for the next read, so that a steady load allocates nothing.
    spare_bytes_max: int = 16 * MIB
    # Bytes held by unfinished frames: above it their connections are read no further until others are done
    # (Kafka: queued.max.request.bytes, which is unlimited unless set).
    unfinished_bytes_max: int = 512 * MIB
    # Where that is too much, a frame of which nothing came for so long loses its connection. A sender that
    # is there sends more within some round trips.
    idle_ms_max: int = 1_000
    # While others wait for that memory, one that alone may go on must be done by then.
    stalled_ms_max: int = 10_000


@dataclass(frozen=True, slots=True)
class ListenerQuotaLimits:
    """What one listener may let in. Kafka: max.connections and max.connection.creation.rate behind
    `listener.name.NAME.`"""

    connections_max: int = 2**31 - 1
    creation_rate_max: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConnectionQuotaLimits:
    """How many connections are let in. Kafka: max.connections, max.connections.per.ip and its overrides,
    max.connection.creation.rate; and the same of single listeners, by their names."""

    connections_max: int = 2**31 - 1
    creation_rate_max: int = 2**31 - 1
    per_address_max: int = 2**31 - 1
    per_address_overrides: Mapping[str, int] = field(default_factory=dict)
    of_listeners: Mapping[str, ListenerQuotaLimits] = field(default_factory=dict)
