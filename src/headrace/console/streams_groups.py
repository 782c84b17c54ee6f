"""Streams groups (KIP-1071), as the console shows them: members, and the partitions that active tasks read.

A task is a part of the topology and a number: it reads the partition of this number of all topics that are
the part's sources. Offsets are committed as consumers' are.
"""

from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, GroupDescription, GroupListing, MemberDescription
from headrace.clients.internals.coordinator_client import CoordinatorClient, CoordinatorKind
from headrace.wire.schemas.streams_group_describe import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
)

STREAMS: Final = "streams"


def is_streams(listing: GroupListing) -> bool:
    return listing.type.lower() == STREAMS


async def describe_streams_group(admin: AsyncAdmin, listing: GroupListing) -> GroupDescription:
    """The group and its members, in the words for groups of all kinds."""
    coordinator = CoordinatorClient(admin.client, listing.group_id, CoordinatorKind.GROUP)

    async def ask() -> DescribedGroup:
        group: DescribedGroup
        [group] = (await coordinator.ask(StreamsGroupDescribeRequest([listing.group_id]))).groups
        coordinator.check(
            group.error_code, f"cannot describe group {listing.group_id!r}", group.error_message
        )
        return group

    group = await coordinator.patiently(ask)
    parts = () if group.topology is None else group.topology.subtopologies or ()
    sources = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in parts
    }
    return GroupDescription(
        group_id=group.group_id,
        type=STREAMS,
        state=group.group_state,
        protocol_type=STREAMS,
        protocol="",
        coordinator=listing.coordinator,
        epoch=group.group_epoch,
        members=[
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.member_epoch,
                _read_by(each, sources),
            )
            for each in group.members
        ],
    )


def _read_by(member: Member, sources: dict[str, list[str]]) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic, number)
        for task in member.assignment.active_tasks
        for topic in sources.get(task.subtopology_id, ())
        for number in task.partitions
    )
