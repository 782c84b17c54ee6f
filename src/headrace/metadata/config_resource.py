"""What settings can belong to."""

from enum import IntEnum
from typing import Final, NamedTuple


class ResourceType(IntEnum):
    """A kind of resource; the numbers are those of Kafka's protocol and of its records."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigKey(NamedTuple):
    """Whose settings: a `ResourceType` and a name."""

    resource_type: int
    name: str


CLUSTER_DEFAULT: Final = ConfigKey(ResourceType.BROKER, "")
"""Settings of all brokers at once live under the broker with no name."""
