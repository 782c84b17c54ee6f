"""A group of the consumer protocol, and the table of them: changed by replay only.

Three epochs chase each other. The group's grows with every change of members, subscriptions or topics. The
assignment's follows when a target has been computed for that group epoch. Each member's follows when it has
let go of what its target no longer has. The group's state is read off them:

    Empty        nobody is in it
    Assigning    the group's epoch is ahead of the assignment's
    Reconciling  a member is not yet where its target is
    Stable       all are

`owners` says which member holds a partition now, be it assigned or still to be revoked: nobody else may be
given it before that member has let go.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.coordinators.group.consumer.member import ConsumerMember, MemberState, Owned, Partitions

Slot = tuple[bytes, int]
"""A partition: its topic's id and its number."""


class ConsumerGroupState(StrEnum):
    """Kafka's names, as its tools print them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics a pattern matched when it was last looked at: at which version of the image, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class Pace:
    """When a member comes back, as it was told last, and whether it may be kept waiting until then."""

    told_ms: int = 0
    is_patient: bool = True


@dataclass(slots=True)
class ConsumerGroup:
    """Members and targets. The last three fields are not in the log: they only say when to look again."""

    id: str
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    owners: dict[Slot, str] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    assigned_at_ms: int | None = None  # monotonic time of the last target made here
    is_stale: bool = True  # topics changed since the metadata hash was made
    paces: dict[str, Pace] = field(default_factory=dict, compare=False)

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_settled_at(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Topics a member subscribes to, by name and by pattern."""
        return topics_of(member, self.regexes)

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*map(self.topics_of, self.members.values()))

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    # --- replay ---

    def put(self, member: ConsumerMember) -> None:
        """Set a member to what its records now say, and with it who owns what."""
        before = self.members.get(member.id)
        if before is not None:
            self._disown(before)
            if before.instance_id is not None and before.instance_id != member.instance_id:
                self._leave_seat(before)
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        for slot in slots(member):
            self.owners[slot] = member.id

    def remove(self, member_id: str) -> None:
        self.paces.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._disown(member)
            self._leave_seat(member)

    def _disown(self, member: ConsumerMember) -> None:
        for slot in slots(member):
            if self.owners.get(slot) == member.id:
                del self.owners[slot]

    def _leave_seat(self, member: ConsumerMember) -> None:
        """A seat that somebody else took meanwhile stays theirs."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.id:
            del self.static_members[member.instance_id]


def topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Topics a member subscribes to, where patterns match what `regexes` says."""
    resolved = regexes.get(member.regex) if member.regex else None
    return frozenset(member.topics) if resolved is None else resolved.topics.union(member.topics)


def slots(member: ConsumerMember) -> Iterator[Slot]:
    """Everything a member may be reading from."""
    yield from _slots(member.assigned)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        yield from _slots(member.revoking)


def _slots(owned: Owned) -> Iterator[Slot]:
    for topic_id, partitions in owned.items():
        for partition in partitions:
            yield topic_id, partition


def preferred_assignor(members: Iterable[ConsumerMember], default: str) -> str:
    """The assignor with the most votes; who asks for none takes what comes."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return min(votes, key=lambda name: (-votes[name], name)) if votes else default
