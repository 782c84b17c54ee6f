"""What a broker is at, by Kafka's names and numbers."""

from enum import IntEnum


class BrokerState(IntEnum):
    """The states that a node shows of itself. Ready is more than RUNNING: a broker may be fenced."""

    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
