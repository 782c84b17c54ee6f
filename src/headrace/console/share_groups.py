"""Share groups (KIP-932), as the console shows them: members, and where the group stands in each partition.

What a share group has done lies behind its start offset; records beyond it are handed out, acknowledged or
waiting. Its lag is told by brokers that know it (KIP-1226).
"""

from typing import NamedTuple

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, GroupDescription, GroupListing, MemberDescription
from headrace.clients.errors import raise_for
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.schemas.share_group_describe import ShareGroupDescribeRequest

SHARE = "share"


class SharePlace(NamedTuple):
    """Where a share group stands in a partition; the lag is None where the broker does not tell it."""

    start_offset: int
    lag: int | None


async def describe_share_group(admin: AsyncAdmin, listing: GroupListing) -> GroupDescription:
    """The group's members, by its coordinator."""
    request = ShareGroupDescribeRequest(group_ids=[listing.group_id])
    [group] = (await admin.client.call(request, node=listing.coordinator)).groups
    raise_for(group.error_code, f"cannot describe share group {listing.group_id!r}", group.error_message)
    members = [
        MemberDescription(
            each.member_id,
            None,
            each.client_id,
            each.client_host.removeprefix("/"),
            each.member_epoch,
            sorted(
                TopicPartition(topic.topic_name, number)
                for topic in each.assignment.topic_partitions
                for number in topic.partitions
            ),
        )
        for each in group.members
    ]
    return GroupDescription(
        group_id=listing.group_id,
        type=SHARE,
        state=group.group_state,
        protocol_type=SHARE,
        protocol=group.assignor_name,
        coordinator=listing.coordinator,
        epoch=group.group_epoch,
        members=sorted(members),
    )


async def share_group_places(admin: AsyncAdmin, listing: GroupListing) -> dict[TopicPartition, SharePlace]:
    """All partitions that the group has begun to read; none where the broker cannot tell."""
    if not (await admin.client.find(listing.coordinator)).versions.supports(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    ):
        return {}
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=listing.group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    [group] = (await admin.client.call(request, node=listing.coordinator)).groups
    raise_for(group.error_code, f"cannot read the offsets of {listing.group_id!r}", group.error_message)
    return {
        TopicPartition(topic.topic_name, each.partition_index): SharePlace(
            each.start_offset, each.lag if each.lag >= 0 else None
        )
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.start_offset >= 0
    }
