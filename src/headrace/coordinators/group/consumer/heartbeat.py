"""What a heartbeat changes, as records: decided here, true once they are replayed.

    who is it? ─► what does it subscribe to? ─► new group epoch? ─► new target? ─► the member's next step

Each part reads the group and what the parts before it decided (the draft), and adds records. Nothing here
changes a group.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from headrace.coordinators.group.consumer.assignors import ASSIGNORS
from headrace.coordinators.group.consumer.assignors.question import Question, Subscriber
from headrace.coordinators.group.consumer.consumer_group import (
    ConsumerGroup,
    ResolvedRegex,
    Slot,
    preferred_assignor,
    topics_of,
)
from headrace.coordinators.group.consumer.member import JOINING, ConsumerMember, MemberState, Partitions
from headrace.coordinators.group.consumer.patterns import matching
from headrace.coordinators.group.consumer.reconciliation import next_step
from headrace.coordinators.group.consumer.records import (
    Records,
    group_record,
    member_record,
    member_tombstones,
    progress_record,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from headrace.coordinators.group.consumer.topics_view import Racks, metadata_hash, racks_of
from headrace.metadata.image import ClusterImage


@dataclass(slots=True)
class Draft:
    """A group as the records so far will make it. `member` is the one whose request this is."""

    group: ConsumerGroup
    records: Records
    members: dict[str, ConsumerMember]
    targets: dict[str, Partitions]
    regexes: dict[str, ResolvedRegex]
    epoch: int
    metadata_hash: int
    assignment_epoch: int
    replaced_id: str | None = None
    has_new_member: bool = False
    has_new_subscription: bool = False

    @classmethod
    def of(cls, group: ConsumerGroup) -> "Draft":
        return cls(
            group,
            [],
            dict(group.members),
            dict(group.targets),
            dict(group.regexes),
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
        )

    def subscribed_topics(self) -> frozenset[str]:
        every = (topics_of(member, self.regexes) for member in self.members.values())
        return frozenset[str]().union(*every)


def seat(draft: Draft, before: ConsumerMember | None, member: ConsumerMember) -> None:
    """Put the member in as it now describes itself; `before` is how it was known."""
    group_id = draft.group.id
    if before is None:
        draft.has_new_member = True
        draft.has_new_subscription = bool(member.topics)  # a pattern counts by the topics it matches
    elif before.id != member.id:
        _replace_static(draft, before, member)
    if before is None or before.id != member.id or not before.described_as(member):
        draft.records.append(member_record(group_id, member))
    if before is not None and before.id != member.id:
        draft.records.append(target_record(group_id, member.id, draft.targets.get(member.id, {})))
        draft.records.append(progress_record(group_id, member))
    if before is not None and not before.subscribes_like(member):
        draft.has_new_subscription = True
    draft.members[member.id] = member


def _replace_static(draft: Draft, before: ConsumerMember, member: ConsumerMember) -> None:
    """A static member's seat goes to its new id, with all that was meant for the old one."""
    draft.records += member_tombstones(draft.group.id, before.id)
    del draft.members[before.id]
    draft.targets[member.id] = draft.targets.pop(before.id, {})
    draft.replaced_id = before.id


def refresh(draft: Draft, image: ClusterImage, *, wall_ms: int) -> None:
    """Look at patterns and topics again where they may have changed, and begin a new epoch if they did."""
    group = draft.group
    if not draft.has_new_subscription and not draft.has_new_member and not group.is_stale:
        return
    _resolve_regexes(draft, image, wall_ms)
    seen = metadata_hash(image, draft.subscribed_topics())
    if draft.has_new_subscription or seen != draft.metadata_hash:
        draft.epoch += 1
        draft.metadata_hash = seen
    elif group.assignment_epoch:
        return
    # Also a group of members that want nothing begins with this record.
    draft.records.append(group_record(group.id, epoch=draft.epoch, metadata_hash=seen))


def _resolve_regexes(draft: Draft, image: ClusterImage, wall_ms: int) -> None:
    group = draft.group
    wanted = {member.regex for member in draft.members.values() if member.regex}
    for regex in sorted(draft.regexes.keys() - wanted):
        del draft.regexes[regex]
        draft.records.append(regex_tombstone(group.id, regex))
    for regex in sorted(wanted):
        known = draft.regexes.get(regex)
        if known is not None and not group.is_stale:
            continue
        topics = matching(regex, image.topics_by_name)
        if known is None or known.topics != topics:
            draft.regexes[regex] = ResolvedRegex(topics, image.offset, wall_ms)
            draft.records.append(regex_record(group.id, regex, draft.regexes[regex]))


def aim(draft: Draft, image: ClusterImage, *, default_assignor: str, wall_ms: int) -> None:
    """Compute the target of the group's epoch, and write what is different in it."""
    group_id = draft.group.id
    name = preferred_assignor(draft.members.values(), default_assignor)
    targets = ASSIGNORS[name](_question(draft, image))
    for member_id, target in targets.items():
        if draft.targets.get(member_id) != target:
            draft.records.append(target_record(group_id, member_id, target))
    draft.targets = dict(targets)
    draft.assignment_epoch = draft.epoch
    draft.records.append(target_epoch_record(group_id, epoch=draft.epoch, timestamp_ms=wall_ms))


def _question(draft: Draft, image: ClusterImage) -> Question:
    ids = {
        name: topic.id
        for name in draft.subscribed_topics()
        if (topic := image.topics_by_name.get(name)) is not None
    }
    members = {
        member.id: Subscriber(
            frozenset(ids[name] for name in topics_of(member, draft.regexes) if name in ids),
            member.instance_id,
            member.rack_id,
            draft.targets.get(member.id, {}),
        )
        for member in draft.members.values()
    }
    topics: dict[bytes, Racks] = {ids[name]: racks_of(image, image.topics_by_name[name]) for name in ids}
    return Question(members, topics)


def step(draft: Draft, member_id: str, held: Collection[Slot] | None) -> ConsumerMember:
    """Take the member one step towards its target."""
    group = draft.group
    own = (member_id, draft.replaced_id, None)
    member = draft.members[member_id]
    after = next_step(
        member,
        target_epoch=draft.assignment_epoch,
        target=draft.targets.get(member_id, {}),
        is_free=lambda slot: group.owners.get(slot) in own,
        held=held,
    )
    if not after.is_as_far_as(member):
        draft.records.append(progress_record(group.id, after))
        draft.members[member_id] = after
    return after


def take_out(
    group: ConsumerGroup, member_ids: Iterable[str], image: ClusterImage, *, wall_ms: int
) -> Records:
    """Members that left, fell silent or did not let go: the others are given what they had."""
    draft = Draft.of(group)
    for member_id in member_ids:
        draft.records += member_tombstones(group.id, member_id)
        del draft.members[member_id]
    draft.has_new_subscription = True
    refresh(draft, image, wall_ms=wall_ms)
    return draft.records


def seated_anew(before: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member under its new id: it has what it had, and joins."""
    return replace(
        before,
        id=member_id,
        epoch=JOINING,
        previous_epoch=JOINING,
        state=MemberState.STABLE,
        revoking={},
    )
