"""Groups, as an administrator sees them: who is in them, how far they have read, and moving that by hand.

A list is gathered from all brokers, since each knows the groups that it coordinates; everything else is
asked of the group's coordinator. Groups with offsets are described in one form, of whichever kind they are: a
consumer group (KIP-848) is asked for first, then a streams group (KIP-1071), and a classic one where there is
none of that name. Offsets of a group without members may
be written by anyone, which is how they are reset; a group with members refuses, because these would overwrite
them with their own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients.errors import (
    CommitFailedError,
    GroupBusyError,
    NoPartitionError,
    NoSuchGroupError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    raise_for,
)
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.consumer.group_coordinator_client import GroupCoordinatorClient, Membership
from headrace.clients.internals.network_client import NetworkClient, Use
from headrace.clients.internals.offset_lookup import OffsetSpec, find_offsets
from headrace.clients.offsets import OffsetAndMetadata
from headrace.wire.apis import ApiKey
from headrace.wire.schemas import offset_fetch
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.wire.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.wire.schemas.streams_group_describe import StreamsGroupDescribeRequest

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"

# From the next version on topics are named by ids; all that a group has committed is asked for, and the name
# of a topic that was deleted meanwhile could not be told.
_FETCH_LAST_WITH_NAMES: Final = offset_fetch.TOPIC_ID_SINCE - 1
# A broker without a kind's protocol, or with it turned off, has no groups of it.
_NO_SUCH_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
_DEAD: Final = "Dead"


class GroupListing(NamedTuple):
    """A group as `list_groups` names it, with the broker that coordinates it."""

    group_id: str
    type: str  # classic, consumer, share, streams, or one of a newer Kafka's
    state: str
    protocol_type: str
    coordinator: int


class MemberDescription(NamedTuple):
    """A member of a group, and the partitions it reads: of a streams group those of its active tasks."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None  # of consumer and streams groups
    assignment: list[TopicPartition]


class GroupDescription(NamedTuple):
    """A group with its members."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    protocol: str  # how partitions are assigned
    coordinator: int
    epoch: int | None  # of consumer and streams groups
    members: list[MemberDescription]


class GroupHome(GroupCoordinatorClient):
    """A group's coordinator, as someone outside of the group asks it."""

    async def ask_for_names(self, request: OffsetFetchRequest) -> Any:
        """The answer in a version that names topics."""
        node = await self._find()
        version = min(await self.version_of(ApiKey.OFFSET_FETCH), _FETCH_LAST_WITH_NAMES)
        try:
            return await self._client.call(request, node=node, use=Use.COORDINATOR, at_most=version)
        except (UnreachableError, TimedOutError):
            self.forget()
            raise


async def list_groups(
    client: NetworkClient, *, states: str | Iterable[str] = (), types: str | Iterable[str] = ()
) -> list[GroupListing]:
    """All groups of these states and types, by name; the cases of letters do not matter."""
    # Chosen here and not by the brokers, of which older ones do not know the filters.
    wanted_states = {each.lower() for each in names_of(states)}
    wanted_types = {each.lower() for each in names_of(types)}

    async def ask() -> list[GroupListing]:
        found = []
        for node in await client.brokers():
            response = await client.call(ListGroupsRequest(), node=node)
            raise_for(response.error_code, f"cannot list the groups of broker {node}")
            found += [
                # Before KIP-848 all groups were classic, and nobody said so.
                GroupListing(
                    each.group_id, each.group_type or CLASSIC, each.group_state, each.protocol_type, node
                )
                for each in response.groups
            ]
        return sorted(found)

    return [
        each
        for each in await client.patiently(ask)
        if (not wanted_states or each.state.lower() in wanted_states)
        and (not wanted_types or each.type.lower() in wanted_types)
    ]


async def describe_group(
    client: NetworkClient, group_id: str, *, group_type: str | None = None
) -> GroupDescription:
    """A classic, consumer or streams group and its members; NoSuchGroupError where there is none."""
    home = GroupHome(client, group_id)
    kinds = (
        (CONSUMER, ApiKey.CONSUMER_GROUP_DESCRIBE, _describe_consumer),
        (STREAMS, ApiKey.STREAMS_GROUP_DESCRIBE, _describe_streams),
    )

    async def ask() -> GroupDescription:
        for kind, key, describe in kinds:
            if group_type in (None, kind) and await home.supports(key):
                described = await describe(home)
                if described is not None:
                    return described
        return await _describe_classic(home)

    return await home.patiently(ask)


async def _describe_consumer(home: GroupHome) -> GroupDescription | None:
    (group,) = (await home.ask(ConsumerGroupDescribeRequest(group_ids=[home.group_id]))).groups
    if group.error_code in _NO_SUCH_KIND:
        return None
    home.check(group.error_code, f"cannot describe group {home.group_id!r}", group.error_message)
    members = [
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            host_of(each.client_host),
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
        group_id=home.group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER,
        protocol=group.assignor_name,
        coordinator=await home.node(),
        epoch=group.group_epoch,
        members=sorted(members),
    )


async def _describe_streams(home: GroupHome) -> GroupDescription | None:
    (group,) = (await home.ask(StreamsGroupDescribeRequest(group_ids=[home.group_id]))).groups
    if group.error_code in _NO_SUCH_KIND:
        return None
    home.check(group.error_code, f"cannot describe group {home.group_id!r}", group.error_message)
    parts = () if group.topology is None else group.topology.subtopologies or ()
    sources = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in parts
    }
    members = [
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            host_of(each.client_host),
            each.member_epoch,
            sorted(
                TopicPartition(topic, number)
                for task in each.assignment.active_tasks
                for topic in sources.get(task.subtopology_id, ())
                for number in task.partitions
            ),
        )
        for each in group.members
    ]
    return GroupDescription(
        group_id=home.group_id,
        type=STREAMS,
        state=group.group_state,
        protocol_type=STREAMS,
        protocol="",
        coordinator=await home.node(),
        epoch=group.group_epoch,
        members=sorted(members),
    )


async def _describe_classic(home: GroupHome) -> GroupDescription:
    (group,) = (await home.ask(DescribeGroupsRequest(groups=[home.group_id]))).groups
    # Brokers before KIP-1043 call a group dead that they do not know.
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (
        not group.error_code and group.group_state == _DEAD
    ):
        raise NoSuchGroupError(home.group_id)
    home.check(group.error_code, f"cannot describe group {home.group_id!r}", group.error_message)
    members = [
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            host_of(each.client_host),
            None,
            _assignment(group.protocol_type, each.member_assignment),
        )
        for each in group.members
    ]
    return GroupDescription(
        group_id=home.group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        coordinator=await home.node(),
        epoch=None,
        members=sorted(members),
    )


def _assignment(protocol_type: str, raw: bytes) -> list[TopicPartition]:
    """What a member has; only consumers write it in a form that others can read."""
    if protocol_type != CONSUMER:
        return []
    # Here and not above: every administrator would load all assignors with it.
    from headrace.clients.assignors.consumer_partition_assignor import decode_assignment

    try:
        return sorted(decode_assignment(raw))
    except InvalidBytesError:
        return []


def host_of(address: str) -> str:
    """Java prints an address behind the name that it was reached by, and a slash where there is none."""
    return address.removeprefix("/")


async def group_offsets(client: NetworkClient, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """All that a group has committed; nothing for a group that is not there."""
    home = GroupHome(client, group_id)

    async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
        if await home.version_of(ApiKey.OFFSET_FETCH) >= offset_fetch.GROUPS_SINCE:
            asked = OffsetFetchRequestGroup(group_id=group_id, topics=None)
            response = await home.ask_for_names(OffsetFetchRequest(groups=[asked]))
        else:
            response = await home.ask_for_names(OffsetFetchRequest(group_id=group_id, topics=None))
        group = response.groups[0] if response.groups else response
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        home.check(group.error_code, f"cannot read the offsets of group {group_id!r}")
        found = {}
        for topic in group.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                home.check(each.error_code, f"cannot read the committed offset of {partition}")
                if each.committed_offset >= 0:
                    found[partition] = OffsetAndMetadata(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
        return found

    return await home.patiently(ask)


async def end_offsets(
    client: NetworkClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where these partitions end; those that are gone or have no leader now are left out."""
    wanted = sorted(set(partitions))
    if not wanted:
        return {}
    await client.patiently(lambda: client.refresh(sorted({each.topic for each in wanted})))
    led = [each for each in wanted if client.metadata.leader(each).node != NO_LEADER]
    found = await find_offsets(client, dict.fromkeys(led, OffsetSpec.LATEST)) if led else {}
    return {each: place.offset for each, place in found.items()}


async def alter_offsets(
    client: NetworkClient, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Commit from outside of the group, which must have no members; a group that is not there is made."""
    home = GroupHome(client, group_id)
    try:
        await home.commit(offsets, Membership)
    except CommitFailedError as error:
        raise GroupBusyError(group_id, "write offsets of") from error


async def delete_group(client: NetworkClient, group_id: str) -> None:
    """Delete a group without members, and its offsets."""
    home = GroupHome(client, group_id)

    async def ask() -> None:
        (result,) = (await home.ask(DeleteGroupsRequest(groups_names=[group_id]))).results
        _check(home, result.error_code, "delete")

    await home.patiently(ask)


async def delete_offsets(client: NetworkClient, group_id: str, partitions: Iterable[TopicPartition]) -> None:
    """Forget what a group has committed of partitions that none of its members reads now."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for each in sorted(set(partitions)):
        topic = topics.setdefault(each.topic, OffsetDeleteRequestTopic(name=each.topic))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=each.partition))
    home = GroupHome(client, group_id)

    async def ask() -> None:
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))
        response = await home.ask(request)
        _check(home, response.error_code, "delete offsets of")
        for topic in response.topics:
            for result in topic.partitions:
                _check_deleted(home, result.error_code, TopicPartition(topic.name, result.partition_index))

    await home.patiently(ask)


def _check(home: GroupHome, code: int, what: str) -> None:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise NoSuchGroupError(home.group_id)
    if code == ErrorCode.NON_EMPTY_GROUP:
        raise GroupBusyError(home.group_id, what)
    home.check(code, f"cannot {what} group {home.group_id!r}")


def _check_deleted(home: GroupHome, code: int, partition: TopicPartition) -> None:
    what = f"cannot delete the offset of {partition} in group {home.group_id!r}"
    if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        reason = f"members of the group read topic {partition.topic} now; stop them first"
        raise RefusedError(code, what, reason)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NoPartitionError(code, what, "there is no such partition")
    home.check(code, what)
