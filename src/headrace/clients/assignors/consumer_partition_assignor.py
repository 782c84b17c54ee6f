"""What an assignor is: who wants what goes in, who gets what comes out.

In a classic group one member, the leader, spreads the partitions of all subscribed topics over all members.
How is a matter between the members: the broker carries subscriptions up and assignments down as bytes it does
not look into. So that a group may mix our members with Java's, the bytes are those of `ConsumerProtocol` and
an assignor of a name gives what Java's of that name gives.

An assignor is asked `user_data` before each join, `assign` if its member leads, and told `on_assignment` what
its own member got. It knows no group, no connection and no clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from headrace.base.chunks import Buffer
from headrace.base.ids import TopicPartition
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas import consumer_protocol as wire

NO_GENERATION = -1
_SUBSCRIPTION_VERSION = 3  # racks (KIP-881)
_ASSIGNMENT_VERSION = 3


class RebalanceProtocol(Enum):
    """What members do with their partitions before they join again (KIP-429)."""

    EAGER = "eager"  # give all up
    COOPERATIVE = "cooperative"  # keep all; give up later what the assignment takes away


class PartitionInfo(NamedTuple):
    """A partition to be assigned, and the racks its replicas are on as far as brokers have said."""

    partition: int
    racks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member says of itself when it joins; its instance id is known from the join itself."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION  # in which it got the partitions it owns
    rack: str | None = None
    instance_id: str | None = field(default=None, kw_only=True)


Topics: TypeAlias = Mapping[str, Sequence[PartitionInfo]]
"""The partitions of each topic that exists, ascending and from 0."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""Each member's partitions, in the order of topic and number; every member is in it."""


class ConsumerPartitionAssignor(Protocol):
    """One way of spreading partitions over members."""

    @property
    def name(self) -> str:
        """What members agree on: every one must support the name that the broker chooses."""
        ...

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """The protocols it can be used with, the preferred one first."""
        ...

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """What goes into this member's subscription for the leader's assignor."""
        ...

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        """Spread the partitions; only topics that somebody subscribes to are looked at."""
        ...

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        """This member got these partitions in this generation."""
        ...


def encode_subscription(subscription: Subscription) -> bytes:
    """The metadata of a JoinGroup request."""
    message = wire.ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=by_topic(subscription.owned_partitions),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return encode_versioned(message, _SUBSCRIPTION_VERSION)


def decode_subscription(metadata: Buffer, *, instance_id: str | None = None) -> Subscription:
    """What a member put into its join; InvalidBytesError where it is no subscription."""
    message = decode_versioned(wire.ConsumerProtocolSubscription, metadata, take_newer=True)
    return Subscription(
        topics=tuple(message.topics),
        user_data=message.user_data,
        owned_partitions=tuple(_partitions(message.owned_partitions)),
        generation=message.generation_id,
        rack=message.rack_id,
        instance_id=instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """One member's part of a SyncGroup request."""
    message = wire.ConsumerProtocolAssignment(assigned_partitions=by_topic(partitions), user_data=user_data)
    return encode_versioned(message, _ASSIGNMENT_VERSION)


def decode_assignment(assignment: Buffer) -> list[TopicPartition]:
    """What a SyncGroup response gives this member; no bytes at all are no partitions."""
    if not assignment:
        return []
    message = decode_versioned(wire.ConsumerProtocolAssignment, assignment, take_newer=True)
    return _partitions(message.assigned_partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> list[wire.TopicPartition]:
    """Partitions as the consumer protocol lists them: topic by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return [wire.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in found.items()]


def _partitions(topics: Iterable[wire.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in topics for number in each.partitions]
