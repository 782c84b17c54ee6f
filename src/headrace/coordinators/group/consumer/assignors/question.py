"""What an assignor is asked: members with their subscriptions, topics with their partitions."""

from dataclasses import dataclass, field

from headrace.coordinators.group.consumer.member import Partitions
from headrace.coordinators.group.consumer.topics_view import Racks

Targets = dict[str, dict[bytes, frozenset[int]]]
"""The answer: partitions by topic id, for each member."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it. `current` is its target so far, which a sticky assignor keeps."""

    topics: frozenset[bytes]
    instance_id: str | None = None
    rack_id: str | None = None
    current: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """Members by id; topics by id, as the racks of each partition. Every subscribed topic is known."""

    members: dict[str, Subscriber]
    topics: dict[bytes, Racks]
