"""Share groups (KIP-932), as an administrator sees them: who is in them, where they stand, and moving that.

A share group has no committed offsets. What its coordinator tells of a partition is where its window starts:
all before that is done, and behind it some records may be done already. Setting that start and forgetting it
are for groups that nobody is in. All of it is asked of the group's coordinator, one group at a time.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.errors import GroupBusyError, NoPartitionError, NoSuchGroupError
from headrace.clients.internals.admin.groups import GroupHome, delete_group, host_of
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.network_client import NetworkClient
from headrace.wire.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.wire.schemas.share_group_describe import ShareGroupDescribeRequest


class ShareMemberDescription(NamedTuple):
    """A member of a share group, and the partitions that it takes records of; others may take of the same."""

    member_id: str
    client_id: str
    host: str
    rack_id: str | None
    epoch: int
    subscription: list[str]
    assignment: list[TopicPartition]


class ShareGroupDescription(NamedTuple):
    """A share group with its members."""

    group_id: str
    state: str
    assignor: str
    coordinator: int
    epoch: int
    assignment_epoch: int
    members: list[ShareMemberDescription]


class SharePartitionOffsetInfo(NamedTuple):
    """Where a share group stands in a partition. The lag is what is neither done nor given up; None where
    the broker cannot tell."""

    start_offset: int
    leader_epoch: int
    lag: int | None


async def describe_share_groups(
    client: NetworkClient, group_ids: str | Iterable[str]
) -> list[ShareGroupDescription]:
    """Share groups and their members; NoSuchGroupError for one that is not there, or is no share group."""
    return [await _describe(client, each) for each in names_of(group_ids)]


async def _describe(client: NetworkClient, group_id: str) -> ShareGroupDescription:
    home = GroupHome(client, group_id)

    async def ask() -> ShareGroupDescription:
        (group,) = (await home.ask(ShareGroupDescribeRequest([group_id]))).groups
        _check(home, group.error_code, "describe", group.error_message)
        return ShareGroupDescription(
            group_id=group_id,
            state=group.group_state,
            assignor=group.assignor_name,
            coordinator=await home.node(),
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            members=sorted(map(_member, group.members)),
        )

    return await home.patiently(ask)


def _member(told: Any) -> ShareMemberDescription:
    return ShareMemberDescription(
        member_id=told.member_id,
        client_id=told.client_id,
        host=host_of(told.client_host),
        rack_id=told.rack_id,
        epoch=told.member_epoch,
        subscription=sorted(told.subscribed_topic_names),
        assignment=sorted(
            TopicPartition(topic.topic_name, number)
            for topic in told.assignment.topic_partitions
            for number in topic.partitions
        ),
    )


async def list_share_group_offsets(
    client: NetworkClient, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, SharePartitionOffsetInfo]:
    """Where a share group stands, in these partitions or in all; those that it has not read are left out."""
    wanted = None if partitions is None else _by_topic(partitions)
    home = GroupHome(client, group_id)

    async def ask() -> dict[TopicPartition, SharePartitionOffsetInfo]:
        topics = None
        if wanted is not None:
            topics = [DescribeShareGroupOffsetsRequestTopic(*each) for each in wanted.items()]
        asked = DescribeShareGroupOffsetsRequestGroup(group_id, topics)
        (group,) = (await home.ask(DescribeShareGroupOffsetsRequest([asked]))).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        _check(home, group.error_code, "read the offsets of", group.error_message)
        found = {}
        for topic in group.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.topic_name, told.partition_index)
                what = f"cannot tell where share group {group_id!r} stands in {partition}"
                home.check(told.error_code, what, told.error_message)
                if told.start_offset >= 0:
                    lag = told.lag if told.lag >= 0 else None
                    found[partition] = SharePartitionOffsetInfo(told.start_offset, told.leader_epoch, lag)
        return found

    return await home.patiently(ask) if wanted != {} else {}


async def alter_share_group_offsets(
    client: NetworkClient, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Have a share group without members go on at these offsets; a group that is not there is made."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic,
            [
                AlterShareGroupOffsetsRequestPartition(each, offsets[TopicPartition(topic, each)])
                for each in numbers
            ],
        )
        for topic, numbers in _by_topic(offsets).items()
    ]
    home = GroupHome(client, group_id)

    async def ask() -> None:
        response = await home.ask(AlterShareGroupOffsetsRequest(group_id, topics))
        _check(home, response.error_code, "set offsets of", response.error_message)
        for topic in response.responses:
            for told in topic.partitions:
                partition = TopicPartition(topic.topic_name, told.partition_index)
                what = f"cannot set where share group {group_id!r} stands in {partition}"
                if told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise NoPartitionError(told.error_code, what, "there is no such partition")
                home.check(told.error_code, what, told.error_message)

    await home.patiently(ask)


async def delete_share_group_offsets(
    client: NetworkClient, group_id: str, topics: str | Iterable[str]
) -> None:
    """Forget where a share group without members stands in these topics: a member that comes begins anew."""
    doomed = [DeleteShareGroupOffsetsRequestTopic(each) for each in sorted(set(names_of(topics)))]
    home = GroupHome(client, group_id)

    async def ask() -> None:
        response = await home.ask(DeleteShareGroupOffsetsRequest(group_id, doomed))
        _check(home, response.error_code, "delete offsets of", response.error_message)
        for told in response.responses:
            what = f"cannot delete the offsets of topic {told.topic_name!r} in share group {group_id!r}"
            if told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # or one that the group has not read
                raise NoPartitionError(told.error_code, what, told.error_message)
            home.check(told.error_code, what, told.error_message)

    await home.patiently(ask)


async def delete_share_groups(client: NetworkClient, group_ids: str | Iterable[str]) -> None:
    """Delete share groups without members, and where they stand; a group of another kind is left."""
    for described in await describe_share_groups(client, group_ids):
        if described.members:
            raise _busy(described.group_id, "delete")
        await delete_group(client, described.group_id)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(set(partitions)):
        topics.setdefault(topic, []).append(number)
    return topics


def _check(home: GroupHome, code: int, what: str, detail: str | None) -> None:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise NoSuchGroupError(home.group_id, is_share=True)
    if code == ErrorCode.NON_EMPTY_GROUP:
        raise _busy(home.group_id, what)
    home.check(code, f"cannot {what} share group {home.group_id!r}", detail)


def _busy(group_id: str, what: str) -> GroupBusyError:
    return GroupBusyError(group_id, what, is_share=True)
