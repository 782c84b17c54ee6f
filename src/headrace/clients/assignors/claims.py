"""What members say they had before, and who is believed where two say the same.

A sticky assignor starts from what members own. Normally no two of them own the same partition; after a
missed rebalance one may still claim what was given to another since. The later generation is then believed
(KIP-792). Claims of one generation contradict each other: neither keeps the partition, and whoever gets it
must wait until all have let go of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.consumer_partition_assignor import NO_GENERATION, Subscription
from headrace.clients.assignors.orders import hashed_members


class MemberData(NamedTuple):
    """One member's word: what it had, and since which generation."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True)
class Claims:
    """Whose partitions are whose, members in hash order."""

    owned: dict[str, list[TopicPartition]]
    contested: set[TopicPartition]
    earlier: dict[TopicPartition, str]
    """Who had a partition last, of those whose memory is not of the latest generation."""


def settle_claims(
    existing: frozenset[TopicPartition],
    subscriptions: Mapping[str, Subscription],
    memories: Mapping[str, MemberData],
) -> Claims:
    """Give each existing partition at most one owner."""
    members = hashed_members(subscriptions)
    owned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    contested: set[TopicPartition] = set()
    owner: dict[TopicPartition, str] = {}
    for member in members:
        generation = memories[member].generation
        for partition in memories[member].partitions:
            if partition not in existing:
                continue
            other = owner.get(partition)
            if other is not None:
                # Of the other, Java takes the subscription's word rather than its user data's. The two differ
                # only for members of before KIP-792, whose claims it thereby holds for older than any.
                other_generation = subscriptions[other].generation
                if generation < other_generation:
                    continue
                if partition in owned[other]:
                    owned[other].remove(partition)
                if generation == other_generation:
                    contested.add(partition)
            owner[partition] = member
            if other is None or generation > other_generation:
                owned[member].append(partition)
    return Claims(owned, contested, _earlier_owners(members, memories))


def _earlier_owners(members: Iterable[str], memories: Mapping[str, MemberData]) -> dict[TopicPartition, str]:
    latest = max((memory.generation for memory in memories.values()), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member in members:
        partitions, generation = memories[member]
        if generation < latest:
            for partition in partitions:
                if partition not in found or generation > found[partition][0]:
                    found[partition] = generation, member
    return {partition: member for partition, (_, member) in found.items()}
