"""TargetAssignmentBuilder: what a change of members makes of a consumer group, as records.

Each step reads the group and what the steps before it decided, and adds records. Nothing here changes a
group: that is for replay.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from headrace.coordinators.group.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec
from headrace.coordinators.group.consumer.consumer_group import (
    ConsumerGroup,
    ResolvedRegularExpression,
    preferred_assignor,
    topics_of,
)
from headrace.coordinators.group.consumer.current_assignment import reconcile
from headrace.coordinators.group.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    ConsumerGroupMember,
    MemberState,
    PartitionId,
    Partitions,
)
from headrace.coordinators.group.consumer.records import (
    Records,
    current_assignment_record,
    group_epoch_record,
    member_record,
    member_tombstones,
    regular_expression_record,
    regular_expression_tombstone,
    target_assignment_epoch_record,
    target_assignment_record,
)
from headrace.coordinators.group.consumer.subscription import (
    MayDescribe,
    Racks,
    matching_topics,
    metadata_hash,
    partition_racks,
)
from headrace.metadata.image import MetadataImage


@dataclass(slots=True)
class TargetAssignmentBuilder:
    """A group as the records so far will make it."""

    group: ConsumerGroup
    records: Records
    members: dict[str, ConsumerGroupMember]
    target_assignment: dict[str, Partitions]
    regexes: dict[str, ResolvedRegularExpression]
    epoch: int
    metadata_hash: int
    assignment_epoch: int
    replaced_id: str | None = None
    has_new_member: bool = False
    has_new_subscription: bool = False

    @classmethod
    def of(cls, group: ConsumerGroup) -> "TargetAssignmentBuilder":
        return cls(
            group,
            [],
            dict(group.members),
            dict(group.target_assignment),
            dict(group.regexes),
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
        )

    def add_or_update_member(self, before: ConsumerGroupMember | None, member: ConsumerGroupMember) -> None:
        """Put the member in as it now describes itself; `before` is how it was known."""
        group_id = self.group.id
        if before is None:
            self.has_new_member = True
            # A pattern that is new to the group counts by the topics that it is found to match.
            self.has_new_subscription = bool(member.topics) or member.regex in self.regexes
        elif before.id != member.id:
            self._replace_static_member(before, member)
        if before is None or before.id != member.id or not before.has_same_metadata(member):
            self.records.append(member_record(group_id, member))
        if before is not None and before.id != member.id:
            target = self.target_assignment.get(member.id, {})
            self.records.append(target_assignment_record(group_id, member.id, target))
            self.records.append(current_assignment_record(group_id, member))
        if before is not None and not before.has_same_subscription(member):
            self.has_new_subscription = True
        self.members[member.id] = member

    def _replace_static_member(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> None:
        """The new id of a static member gets all that was meant for the old one."""
        self.records += member_tombstones(self.group.id, before.id)
        del self.members[before.id]
        self.target_assignment[member.id] = self.target_assignment.pop(before.id, {})
        self.replaced_id = before.id

    def remove_member(self, member_id: str) -> None:
        self.records += member_tombstones(self.group.id, member_id)
        del self.members[member_id]
        self.has_new_subscription = True

    def maybe_bump_group_epoch(
        self, image: MetadataImage, *, wall_ms: int, may_describe: MayDescribe | None
    ) -> None:
        """Look at patterns and topics again where they may have changed, and bump the epoch if they did.
        `may_describe` is whose rights patterns are looked at with; None where nobody asks.
        """
        group = self.group
        if not self.has_new_subscription and not self.has_new_member and not group.needs_metadata_refresh:
            return
        self._resolve_regular_expressions(image, wall_ms, may_describe)
        seen = metadata_hash(image, self.subscribed_topics())
        if self.has_new_subscription or seen != self.metadata_hash:
            self.epoch += 1
            self.metadata_hash = seen
        elif group.assignment_epoch:
            return
        # Also a group of members that want nothing begins with this record.
        self.records.append(group_epoch_record(group.id, epoch=self.epoch, metadata_hash=seen))

    def _resolve_regular_expressions(
        self, image: MetadataImage, wall_ms: int, may_describe: MayDescribe | None
    ) -> None:
        """Find the topics of the patterns in use. Other topics are a new subscription, also where other
        members subscribe to them already: the metadata hash would not tell.
        """
        group = self.group
        wanted = {member.regex for member in self.members.values() if member.regex}
        for regex in sorted(self.regexes.keys() - wanted):
            del self.regexes[regex]
            self.records.append(regular_expression_tombstone(group.id, regex))
        if may_describe is None:
            return
        for regex in sorted(wanted):
            known = self.regexes.get(regex)
            if known is not None and not group.needs_metadata_refresh:
                continue
            topics = frozenset(filter(may_describe, matching_topics(regex, image.topics_by_name)))
            if known is None or known.topics != topics:
                resolved = ResolvedRegularExpression(topics, image.offset, wall_ms)
                self.has_new_subscription |= topics != (known.topics if known is not None else frozenset())
                self.regexes[regex] = resolved
                self.records.append(regular_expression_record(group.id, regex, resolved))

    def subscribed_topics(self) -> frozenset[str]:
        every = (topics_of(member, self.regexes) for member in self.members.values())
        return frozenset[str]().union(*every)

    def build(self, image: MetadataImage, *, default_assignor: str, wall_ms: int) -> None:
        """Compute the target assignment of the group's epoch, and write what is different in it."""
        group_id = self.group.id
        name = preferred_assignor(self.members.values(), default_assignor)
        assignment = ASSIGNORS[name](self._group_spec(image))
        for member_id, target in assignment.items():
            if self.target_assignment.get(member_id) != target:
                self.records.append(target_assignment_record(group_id, member_id, target))
        self.target_assignment = dict(assignment)
        self.assignment_epoch = self.epoch
        self.records.append(target_assignment_epoch_record(group_id, epoch=self.epoch, timestamp_ms=wall_ms))

    def _group_spec(self, image: MetadataImage) -> GroupSpec:
        ids = {
            name: topic.id
            for name in self.subscribed_topics()
            if (topic := image.topics_by_name.get(name)) is not None
        }
        members = {
            member.id: MemberSpec(
                frozenset(ids[name] for name in topics_of(member, self.regexes) if name in ids),
                member.instance_id,
                member.rack_id,
                self.target_assignment.get(member.id, {}),
            )
            for member in self.members.values()
        }
        topics: dict[bytes, Racks] = {
            ids[name]: partition_racks(image, image.topics_by_name[name]) for name in ids
        }
        return GroupSpec(members, topics)

    def reconcile_member(self, member_id: str, owned: Collection[PartitionId] | None) -> ConsumerGroupMember:
        """Take the member one step towards its target. `owned` is what its client says it reads."""
        group = self.group
        own = (member_id, self.replaced_id, None)
        member = self.members[member_id]
        after = reconcile(
            member,
            target_epoch=self.assignment_epoch,
            target=self.target_assignment.get(member_id, {}),
            is_free=lambda partition: group.owners.get(partition) in own,
            owned=owned,
        )
        if not after.has_same_assignment(member):
            self.records.append(current_assignment_record(group.id, after))
            self.members[member_id] = after
        return after


def removal_records(
    group: ConsumerGroup, member_ids: Iterable[str], image: MetadataImage, *, wall_ms: int
) -> Records:
    """Remove members that left or missed a timeout: the others are given what they had."""
    builder = TargetAssignmentBuilder.of(group)
    for member_id in member_ids:
        builder.remove_member(member_id)
    builder.maybe_bump_group_epoch(image, wall_ms=wall_ms, may_describe=None)
    return builder.records


def replaced_static_member(before: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
    """A static member under its new id: it has what it had, and joins."""
    return replace(
        before,
        id=member_id,
        epoch=JOIN_GROUP_MEMBER_EPOCH,
        previous_epoch=JOIN_GROUP_MEMBER_EPOCH,
        state=MemberState.STABLE,
        pending_revocation={},
    )
