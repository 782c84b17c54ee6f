"""ShareGroup: a share group (KIP-932) as its records tell it, changed by replay only.

Like in a consumer group, the group's epoch grows with every change of members, subscriptions or topics, the
assignment's follows when a target was made for it, and a member's when it was told. Nobody has to revoke
anything, since partitions are shared: a member goes to its target in one step.

A partition is given out once the share coordinator keeps state for it. `initializing`, `initialized` and
`deleting` say how far that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from headrace.base.ids import TopicId
from headrace.metadata.image import MetadataImage
from headrace.wire.schemas import share_group_describe as wire

JOIN_GROUP_MEMBER_EPOCH: Final = 0
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
ASSIGNOR: Final = "simple"

PartitionId: TypeAlias = tuple[TopicId, int]
Partitions: TypeAlias = Mapping[TopicId, frozenset[int]]


class ShareGroupState(StrEnum):
    """Kafka's names, as its tools print them."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member, as it described itself and as far as it was told."""

    id: str
    epoch: int = 0
    previous_epoch: int = 0
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    assigned: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicWithState:
    """Partitions of a topic for which there is state, or will be."""

    name: str
    partitions: frozenset[int]


@dataclass(slots=True)
class ShareGroup:
    """Members, targets and partitions with state. The last four fields are not in the log."""

    id: str
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, ShareGroupMember] = field(default_factory=dict)
    target_assignment: dict[str, Partitions] = field(default_factory=dict)
    initializing: dict[TopicId, TopicWithState] = field(default_factory=dict)
    initialized: dict[TopicId, TopicWithState] = field(default_factory=dict)
    deleting: dict[TopicId, str] = field(default_factory=dict)
    assigned_at_ms: int | None = None
    initializing_since_ms: int | None = None
    needs_metadata_refresh: bool = True
    is_deleted: bool = False

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def subscribed_topics(self) -> set[str]:
        return {name for member in self.members.values() for name in member.topics}

    def with_state(self) -> dict[PartitionId, str]:
        """Every partition for which the share coordinator keeps state or may do, and its topic's name."""
        return {
            (topic_id, index): topic.name
            for topics in (self.initializing, self.initialized)
            for topic_id, topic in topics.items()
            for index in topic.partitions
        }


def as_described_group(group: ShareGroup, image: MetadataImage) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_as_described_member(member, image) for member in group.members.values()],
    )


def _as_described_member(member: ShareGroupMember, image: MetadataImage) -> wire.Member:
    return wire.Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=wire.Assignment(
            [
                wire.TopicPartitions(topic_id, image.topics_by_id[topic_id].name, sorted(indexes))
                for topic_id, indexes in sorted(member.assigned.items())
                if topic_id in image.topics_by_id
            ]
        ),
    )
