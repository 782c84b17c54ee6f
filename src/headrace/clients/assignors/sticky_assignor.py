"""sticky and cooperative-sticky: as even as can be, and of all such assignments one that moves little.

Both spread alike (`sticky_even`, `sticky_uneven`) and differ in how members tell what they had, and in when
a moved partition changes hands. `sticky` is eager: members give up all before they join, so what they had
and since when is in their user data. `cooperative-sticky` members keep their partitions while they join and
say so in the subscription (KIP-429); a partition that moves is then assigned to nobody in this round: its
owner lets go of it, joins again, and the next round gives it away. Members of before KIP-792 put the
generation into their user data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.clients.assignors.claims import Claims, MemberData, settle_claims
from headrace.clients.assignors.constrained_assignment_builder import ConstrainedAssignmentBuilder
from headrace.clients.assignors.consumer_partition_assignor import (
    NO_GENERATION,
    Assignment,
    RebalanceProtocol,
    Subscription,
    Topics,
    by_topic,
)
from headrace.clients.assignors.general_assignment_builder import GeneralAssignmentBuilder
from headrace.clients.assignors.racks import Racks
from headrace.wire.codec import encode, reader
from headrace.wire.notation import Since, int32, message
from headrace.wire.schemas import consumer_protocol as wire


@message(versions=range(2))
class StickyUserData:
    """What a member of `sticky` had; it does not say its version, the first had no generation."""

    previous_assignment: list[wire.TopicPartition] = field(default_factory=list)
    generation: Annotated[int32, Since(1)] = NO_GENERATION


@message(versions=range(1))
class CooperativeUserData:
    generation: int32 = NO_GENERATION


class StickyAssignor:
    """Even and sticky, for members that give up all before they join."""

    name = "sticky"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._memory: MemberData | None = None

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        if self._memory is None:
            return None
        partitions, generation = self._memory
        return encode(StickyUserData(previous_assignment=by_topic(partitions), generation=generation), 1)

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        self._memory = MemberData(tuple(partitions), generation)

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        memories = {member: _eager_memory(each) for member, each in subscriptions.items()}
        return _in_order(_spread(topics, subscriptions, memories)[0])


class CooperativeStickyAssignor:
    """Even and sticky, for members that keep what they have until it is taken away."""

    name = "cooperative-sticky"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return encode(CooperativeUserData(generation=self._generation), 0)

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        memories = {member: _cooperative_memory(each) for member, each in subscriptions.items()}
        assignment, moving = _spread(topics, subscriptions, memories)
        if moving is None:
            moving = _owned_by_others(assignment, subscriptions)
        return _in_order(
            {
                member: [each for each in partitions if each not in moving]
                for member, partitions in assignment.items()
            }
        )


def _spread(
    topics: Topics, subscriptions: Mapping[str, Subscription], memories: Mapping[str, MemberData]
) -> tuple[Assignment, set[TopicPartition] | None]:
    """The assignment, and the partitions that move in it where the way it was made tells them."""
    wants = {member: frozenset(each.topics) & topics.keys() for member, each in subscriptions.items()}
    if not wants:
        return {}, set()
    wanted = {topic: topics[topic] for topic in frozenset().union(*wants.values())}
    partitions = frozenset(
        TopicPartition(topic, each.partition) for topic in wanted for each in wanted[topic]
    )
    claims: Claims = settle_claims(partitions, subscriptions, memories)
    racks = Racks(wanted, subscriptions)
    if len({frozenset(each.topics) for each in subscriptions.values()}) == 1:
        even = ConstrainedAssignmentBuilder(partitions, claims, racks)
        return even.spread(), even.moving
    return GeneralAssignmentBuilder(wanted, wants, claims, racks).spread(), None


def _in_order(assignment: Assignment) -> Assignment:
    return {member: sorted(partitions) for member, partitions in assignment.items()}


def _owned_by_others(
    assignment: Assignment, subscriptions: Mapping[str, Subscription]
) -> set[TopicPartition]:
    """Partitions that some member gains and some other has to let go of."""
    gained: set[TopicPartition] = set()
    lost: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        owned = frozenset(subscriptions[member].owned_partitions)
        gained |= frozenset(partitions) - owned
        lost |= owned.difference(partitions)
    return gained & lost


def _eager_memory(subscription: Subscription) -> MemberData:
    if not subscription.user_data:
        return MemberData()
    for version in (1, 0):
        try:
            found = reader(StickyUserData, version)(subscription.user_data, 0)[0]
        except InvalidBytesError:
            continue
        partitions = (
            TopicPartition(each.topic, n) for each in found.previous_assignment for n in each.partitions
        )
        return MemberData(tuple(partitions), found.generation)
    return MemberData()


def _cooperative_memory(subscription: Subscription) -> MemberData:
    generation = subscription.generation
    if generation == NO_GENERATION and subscription.user_data is not None:
        try:
            generation = reader(CooperativeUserData, 0)(subscription.user_data, 0)[0].generation
        except InvalidBytesError:
            generation = NO_GENERATION
    return MemberData(subscription.owned_partitions, generation)
