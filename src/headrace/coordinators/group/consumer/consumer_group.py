"""ConsumerGroup: a group of the consumer protocol (KIP-848), changed by replay only.

Three epochs chase each other. The group's grows with every change of members, subscriptions or topics. The
assignment's follows when a target has been computed for that group epoch. Each member's follows when it has
revoked what its target no longer has. The group's state is read off them:

    Empty        nobody is in it
    Assigning    the group's epoch is ahead of the assignment's
    Reconciling  a member is not yet where its target is
    Stable       all are

`owners` says which member holds a partition now, be it assigned or still to be revoked: nobody else may be
given it before that member has revoked it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicId
from headrace.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    MemberState,
    PartitionId,
    Partitions,
    PartitionsWithEpochs,
)
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from headrace.wire.schemas.offset_commit import MEMBER_EPOCH_SINCE


class ConsumerGroupState(StrEnum):
    """Kafka's names, as its tools print them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """The topics a pattern matched when it was last resolved: at which version of the image, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class HeartbeatState:
    """The heartbeat interval a member was told last, and whether its heartbeats may be held
    (`held_heartbeats`).
    """

    interval_ms: int = 0
    may_be_held: bool = True


@dataclass(slots=True)
class ConsumerGroup:
    """Members and targets. The last three fields are not in the log: they only say when to look again."""

    id: str
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    target_assignment: dict[str, Partitions] = field(default_factory=dict)
    owners: dict[PartitionId, str] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegularExpression] = field(default_factory=dict)
    assigned_at_ms: int | None = None  # monotonic time of the last target made here
    needs_metadata_refresh: bool = True  # topics may have changed since the metadata hash was made
    heartbeat_states: dict[str, HeartbeatState] = field(default_factory=dict, compare=False)

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Topics a member subscribes to, by name and by pattern."""
        return topics_of(member, self.regexes)

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*map(self.topics_of, self.members.values()))

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    # --- offsets ---

    def validate_offset_commit(
        self, *, member_id: str, epoch: int, api_version: int, partitions: Iterable[PartitionId]
    ) -> ErrorCode:
        """May this member commit now? An empty group may be committed to from outside, with epoch -1. A
        commit with an older epoch is taken if every partition in it was the member's already then: it never
        moved, so nobody else can have committed to it since (KIP-1251).
        """
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and api_version < MEMBER_EPOCH_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        is_older = member.classic is None and 0 <= epoch < member.epoch
        if is_older and all(member.owns_since(epoch, each) for each in partitions):
            return ErrorCode.NONE
        return member.validate_epoch(epoch)

    def validate_offset_fetch(self, *, member_id: str | None, epoch: int) -> ErrorCode:
        """Administrators and older clients do not say who they are, and may read."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member.validate_epoch(epoch)

    # --- replay ---

    def put(self, member: ConsumerGroupMember) -> None:
        """Set a member to what its records now say, and with it who owns what."""
        before = self.members.get(member.id)
        if before is not None:
            self._disown(before)
            if before.instance_id is not None and before.instance_id != member.instance_id:
                self._remove_static(before)
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        for partition in owned_partitions(member):
            self.owners[partition] = member.id

    def remove(self, member_id: str) -> None:
        self.heartbeat_states.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._disown(member)
            self._remove_static(member)

    def _disown(self, member: ConsumerGroupMember) -> None:
        for partition in owned_partitions(member):
            if self.owners.get(partition) == member.id:
                del self.owners[partition]

    def _remove_static(self, member: ConsumerGroupMember) -> None:
        """An instance id that another member took meanwhile stays theirs."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.id:
            del self.static_members[member.instance_id]


def topics_of(
    member: ConsumerGroupMember, regexes: Mapping[str, ResolvedRegularExpression]
) -> frozenset[str]:
    """Topics a member subscribes to, where patterns match what `regexes` says."""
    resolved = regexes.get(member.regex) if member.regex else None
    return frozenset(member.topics) if resolved is None else resolved.topics.union(member.topics)


def owned_partitions(member: ConsumerGroupMember) -> Iterator[PartitionId]:
    """Everything a member may be reading from."""
    yield from _partitions(member.assigned)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        yield from _partitions(member.pending_revocation)


def _partitions(owned: PartitionsWithEpochs) -> Iterator[PartitionId]:
    for topic_id, partitions in owned.items():
        for partition in partitions:
            yield topic_id, partition


def preferred_assignor(members: Iterable[ConsumerGroupMember], default: str) -> str:
    """The assignor that most members ask for, or the default."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return min(votes, key=lambda name: (-votes[name], name)) if votes else default


# --- as ConsumerGroupDescribe shows it ---

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def as_described_group(
    group: ConsumerGroup, image: MetadataImage, *, default_assignor: str
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members.values(), default_assignor),
        members=[_described_member(group, member, image) for member in group.members.values()],
    )


def _described_member(group: ConsumerGroup, member: ConsumerGroupMember, image: MetadataImage) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=_assignment(_owned_by_topic(member), image),
        target_assignment=_assignment(group.target_assignment.get(member.id, {}), image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _owned_by_topic(member: ConsumerGroupMember) -> dict[bytes, set[int]]:
    """All that a member may be reading, also what it was told to revoke."""
    owned: dict[bytes, set[int]] = {}
    for topic_id, partition in owned_partitions(member):
        owned.setdefault(topic_id, set()).add(partition)
    return owned


def _assignment(partitions: Mapping[bytes, Iterable[int]], image: MetadataImage) -> Assignment:
    """Topics that are gone have no name any more and are left out."""
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, sorted(partitions[topic_id]))
            for topic_id in sorted(partitions)
            if (topic := image.topics_by_id.get(TopicId(topic_id))) is not None
        ]
    )
