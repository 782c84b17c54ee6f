"""Share groups (KIP-932), as the console shows them: members, and where the group stands in each partition.

What a share group has done lies behind its start offset; records beyond it are handed out, acknowledged or
waiting. Its lag is told by brokers that know it (KIP-1226). A picture asks for many groups at once; what is
about one group goes by the admin's own calls.
"""

from typing import NamedTuple

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin, GroupDescription, GroupListing, MemberDescription
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)

SHARE = "share"


class SharePlace(NamedTuple):
    """Where a share group stands in a partition; the lag is None where the broker does not tell it."""

    start_offset: int
    lag: int | None


def is_share(listing: GroupListing) -> bool:
    return listing.type.lower() == SHARE


async def describe_share_group(admin: AsyncAdmin, name: str) -> GroupDescription:
    """The group and its members, in the words for groups of all kinds."""
    [group] = await admin.describe_share_groups(name)
    return GroupDescription(
        group_id=group.group_id,
        type=SHARE,
        state=group.state,
        protocol_type=SHARE,
        protocol=group.assignor,
        coordinator=group.coordinator,
        epoch=group.epoch,
        members=[
            MemberDescription(each.member_id, None, each.client_id, each.host, each.epoch, each.assignment)
            for each in group.members
        ],
    )


async def share_places(
    admin: AsyncAdmin, node: int, groups: list[str]
) -> dict[str, dict[TopicPartition, SharePlace]]:
    """Where the share groups of a coordinator stand, as far as it can tell and one may see them."""
    if not (await admin.client.find(node)).versions.supports(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
        return {}
    asked = [DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in groups]
    response = await admin.client.call(DescribeShareGroupOffsetsRequest(groups=asked), node=node)
    return {
        group.group_id: {
            TopicPartition(topic.topic_name, each.partition_index): SharePlace(
                each.start_offset, each.lag if each.lag >= 0 else None
            )
            for topic in group.topics
            for each in topic.partitions
            if not each.error_code and each.start_offset >= 0
        }
        for group in response.groups
        if not group.error_code
    }
