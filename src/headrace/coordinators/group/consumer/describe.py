"""A consumer group as ConsumerGroupDescribe shows it."""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.base.ids import TopicId
from headrace.coordinators.group.consumer.consumer_group import ConsumerGroup, preferred_assignor, slots
from headrace.coordinators.group.consumer.member import ConsumerMember
from headrace.metadata.image import ClusterImage
from headrace.wire.schemas.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(group: ConsumerGroup, image: ClusterImage, *, default_assignor: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members.values(), default_assignor),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=_assignment(_held(member), image),
        target_assignment=_assignment(group.targets.get(member.id, {}), image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _held(member: ConsumerMember) -> dict[bytes, set[int]]:
    """All that a member may be reading, also what it was asked to let go of."""
    held: dict[bytes, set[int]] = {}
    for topic_id, partition in slots(member):
        held.setdefault(topic_id, set()).add(partition)
    return held


def _assignment(partitions: Mapping[bytes, Iterable[int]], image: ClusterImage) -> Assignment:
    """Topics that are gone have no name any more and are left out."""
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, sorted(partitions[topic_id]))
            for topic_id in sorted(partitions)
            if (topic := image.topics_by_id.get(TopicId(topic_id))) is not None
        ]
    )
