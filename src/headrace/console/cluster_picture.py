"""A cluster at a moment: brokers, topics, offsets, sizes, groups and their lag, in as few requests as can be.

Every broker is asked once for its folders, its groups, the offsets of partitions that it leads and what its
groups have committed, many to a request. What cannot be told (no right, a broker that is down) is missing
from the picture, and `gaps` says so: a part that fails takes nothing else with it.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition, uuid_text
from headrace.clients import (
    AsyncAdmin,
    ClusterDescription,
    GroupListing,
    LogDirDescription,
    OffsetSpec,
    PartitionReassignment,
    QuorumInfo,
    TopicPartitionInfo,
)
from headrace.clients.errors import (
    ClientError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UnsupportedError,
    raise_for,
)
from headrace.clients.internals.admin.groups import CLASSIC
from headrace.clients.internals.admin.topics import partitions_of
from headrace.console.share_groups import is_share, share_places
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.schemas.offset_fetch import (
    GROUPS_SINCE,
    TOPIC_ID_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

PARTITIONS_AT_ONCE: Final = 2_000
GROUPS_AT_ONCE: Final = 200
POOR_MAX: Final = 50
"""Topics that lack replicas whose min.insync.replicas is asked for."""

T = TypeVar("T")


class TopicPicture(NamedTuple):
    """A topic with its partitions."""

    name: str
    topic_id: str
    internal: bool
    partitions: list[TopicPartitionInfo]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)


@dataclass(slots=True)
class GroupPicture:
    """A group, what it has committed, and how far that is behind. `lag` is None where nothing is known.

    Of a share group `committed` is where its windows start, and `told_lags` what its coordinator says.
    """

    listing: GroupListing
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    told_lags: dict[TopicPartition, int] = field(default_factory=dict)
    lag: int | None = None
    topic_lags: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterPicture:
    """What was known of a cluster at `taken_ms`."""

    taken_ms: int
    cluster: ClusterDescription
    topics: dict[str, TopicPicture] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    folders: list[LogDirDescription] = field(default_factory=list)
    unreachable: dict[int, str] = field(default_factory=dict)
    quorum: QuorumInfo | None = None
    groups: dict[str, GroupPicture] = field(default_factory=dict)
    reassignments: dict[TopicPartition, PartitionReassignment] = field(default_factory=dict)
    min_in_sync: dict[str, int] = field(default_factory=dict)
    """min.insync.replicas of topics that lack replicas."""
    gaps: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of a topic's replicas, all together."""
    topic_groups: dict[str, dict[str, int]] = field(default_factory=dict)
    """The lag of each group in each topic."""

    def records(self, topic: str) -> int | None:
        """How many offsets a topic holds; None where no leader could be asked. Compaction leaves holes."""
        total, known = 0, False
        for each in self.topics[topic].partitions:
            place = TopicPartition(topic, each.number)
            if place in self.ends and place in self.starts:
                total += self.ends[place] - self.starts[place]
                known = True
        return total if known else None


async def take_picture(admin: AsyncAdmin) -> ClusterPicture:
    """Look at everything once. ClientError where nobody answers."""
    cluster = await admin.describe_cluster()
    picture = ClusterPicture(int(time.time() * 1000), cluster)
    await asyncio.gather(_topics_and_groups(admin, picture), _quorum(admin, picture))
    for folder in picture.folders:
        for place, size in folder.partitions.items():
            picture.sizes[place.topic] = picture.sizes.get(place.topic, 0) + max(0, size)
    return picture


async def topics_of(admin: AsyncAdmin) -> dict[str, TopicPicture]:
    """All topics that can be seen, partition by partition, in one request."""
    response = await admin.client.patiently(lambda: admin.client.refresh(None))
    found = {}
    for topic in sorted(response.topics, key=lambda each: each.name or ""):
        name = topic.name or ""
        found[name] = TopicPicture(name, uuid_text(topic.topic_id), topic.is_internal, partitions_of(topic))
    return found


async def offsets_at(
    admin: AsyncAdmin, partitions: Iterable[TopicPartition], time_ms: int, *, committed: bool = False
) -> dict[TopicPartition, int]:
    """Where a time or an `OffsetSpec` is in each partition; what has no leader, or refuses, is left out.

    With `committed` a partition ends where readers of committed records wait.
    """
    led: dict[int, list[TopicPartition]] = {}
    for each in partitions:
        node = admin.client.metadata.leader(each).node
        if node != NO_LEADER:
            led.setdefault(node, []).append(each)
    found: dict[TopicPartition, int] = {}

    async def ask(node: int, asked: list[TopicPartition]) -> None:
        for some in _in_parts(asked, PARTITIONS_AT_ONCE):
            try:
                response = await admin.client.call(_list_offsets(some, time_ms, committed), node=node)
            except ClientError:
                return
            for topic in response.topics:
                for each in topic.partitions:
                    if not each.error_code:
                        found[TopicPartition(topic.name, each.partition_index)] = each.offset

    await asyncio.gather(*(ask(node, asked) for node, asked in led.items()))
    return found


def _list_offsets(partitions: list[TopicPartition], time_ms: int, committed: bool) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for each in partitions:
        topic = topics.setdefault(each.topic, ListOffsetsTopic(name=each.topic))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=each.partition, current_leader_epoch=-1, timestamp=int(time_ms)
            )
        )
    return ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=list(topics.values()))


async def _topics_and_groups(admin: AsyncAdmin, picture: ClusterPicture) -> None:
    picture.topics = await topics_of(admin)
    places = [
        TopicPartition(topic.name, each.number)
        for topic in picture.topics.values()
        for each in topic.partitions
    ]
    picture.ends, picture.starts, _, moving = await asyncio.gather(
        offsets_at(admin, places, OffsetSpec.LATEST),
        offsets_at(admin, places, OffsetSpec.EARLIEST),
        _brokers(admin, picture),
        _or_gap(admin.list_reassignments(), picture, "reassignments"),
    )
    picture.reassignments = moving or {}
    await asyncio.gather(*(_min_in_sync(admin, picture, name) for name in _poor(picture)))
    for group in picture.groups.values():
        _measure(group, picture)


def _measure(group: GroupPicture, picture: ClusterPicture) -> None:
    for place, offset in group.committed.items():
        end = picture.ends.get(place)
        behind = group.told_lags.get(place, None if end is None else max(0, end - offset))
        if behind is not None:
            group.lag = (group.lag or 0) + behind
            group.topic_lags[place.topic] = group.topic_lags.get(place.topic, 0) + behind
    for topic, lag in group.topic_lags.items():
        picture.topic_groups.setdefault(topic, {})[group.listing.group_id] = lag


def _poor(picture: ClusterPicture) -> list[str]:
    """Topics that lack replicas: some of them, where they are many."""
    found = (
        name
        for name, topic in picture.topics.items()
        if any(each.leader >= 0 and each.is_under_replicated for each in topic.partitions)
    )
    return list(islice(found, POOR_MAX))


async def _min_in_sync(admin: AsyncAdmin, picture: ClusterPicture, topic: str) -> None:
    try:
        settings = await admin.describe_configs("topic", topic)
    except ClientError:
        return  # whoever could tell is what is missing, or it may not be read
    found = {each.name: each.value for each in settings}
    picture.min_in_sync[topic] = int(found.get("min.insync.replicas") or 1)


async def _brokers(admin: AsyncAdmin, picture: ClusterPicture) -> None:
    """What each has: its groups, and its folders. Of one that does not answer nothing more is asked."""
    live = [each.node_id for each in picture.cluster.brokers if not each.fenced]
    listed = await asyncio.gather(*(_listed(admin, picture, node) for node in live))
    picture.groups = {each.group_id: GroupPicture(each) for found in listed for each in sorted(found)}
    reached = [node for node in live if node not in picture.unreachable]
    await asyncio.gather(_groups(admin, picture), *(_folders(admin, picture, node) for node in reached))


async def _listed(admin: AsyncAdmin, picture: ClusterPicture, node: int) -> list[GroupListing]:
    """The groups of a broker, asked without patience: who looks wants to know who is gone now."""
    for is_last in (False, True):
        try:
            response = await admin.client.call(ListGroupsRequest(), node=node)
            raise_for(response.error_code, f"cannot list the groups of broker {node}")
        except UnreachableError as error:
            # A connection that was idle for long may have been closed.
            if is_last:
                picture.unreachable[node] = str(error)
        except TimedOutError as error:
            picture.unreachable[node] = str(error)
            break
        except ClientError as error:
            _note(picture, "groups", error)
            break
        else:
            return [
                # Before KIP-848 all groups were classic, and nobody said so.
                GroupListing(
                    each.group_id, each.group_type or CLASSIC, each.group_state, each.protocol_type, node
                )
                for each in response.groups
            ]
    return []


async def _groups(admin: AsyncAdmin, picture: ClusterPicture) -> None:
    """What they have committed."""
    homes: dict[int, list[str]] = {}
    shares: dict[int, list[str]] = {}
    for each in picture.groups.values():
        chosen = shares if is_share(each.listing) else homes
        chosen.setdefault(each.listing.coordinator, []).append(each.listing.group_id)
    asked = (_committed(admin, node, names) for node, names in homes.items())
    for found in await asyncio.gather(*(_or_gap(each, picture, "committed offsets") for each in asked)):
        for group_id, committed in (found or {}).items():
            picture.groups[group_id].committed = committed
    wishes = [(node, some) for node, names in shares.items() for some in _in_parts(names, GROUPS_AT_ONCE)]
    told = (share_places(admin, node, names) for node, names in wishes)
    for places in await asyncio.gather(*(_or_gap(each, picture, "share groups") for each in told)):
        for group_id, stands in (places or {}).items():
            group = picture.groups[group_id]
            group.committed = {place: each.start_offset for place, each in stands.items()}
            group.told_lags = {place: each.lag for place, each in stands.items() if each.lag is not None}


async def _committed(admin: AsyncAdmin, node: int, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    """What the groups of a coordinator have committed."""
    version = (await admin.client.find(node)).versions.choose(ApiKey.OFFSET_FETCH)
    found: dict[str, dict[TopicPartition, int]] = {}
    if version < GROUPS_SINCE:
        for name in groups:
            offsets = await admin.group_offsets(name)
            found[name] = {place: each.offset for place, each in offsets.items()}
        return found
    # Later versions name topics by ids, and a deleted topic's name could not be told.
    at_most = min(version, TOPIC_ID_SINCE - 1)
    for some in _in_parts(groups, GROUPS_AT_ONCE):
        asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in some]
        response = await admin.client.call(OffsetFetchRequest(groups=asked), node=node, at_most=at_most)
        for group in response.groups:
            found[group.group_id] = {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in group.topics
                for each in topic.partitions
                if not each.error_code and each.committed_offset >= 0
            }
    return found


async def _folders(admin: AsyncAdmin, picture: ClusterPicture, node_id: int) -> None:
    try:
        picture.folders += await admin.describe_log_dirs(node_id)
    except RefusedError as error:
        _note(picture, "log folders", error)
    except ClientError as error:
        picture.unreachable[node_id] = str(error)


async def _quorum(admin: AsyncAdmin, picture: ClusterPicture) -> None:
    picture.quorum = await _or_gap(admin.describe_quorum(), picture, "quorum")


async def _or_gap(asked: Awaitable[T], picture: ClusterPicture, what: str) -> T | None:
    try:
        return await asked
    except UnsupportedError:
        return None
    except ClientError as error:
        _note(picture, what, error)
        return None


def _note(picture: ClusterPicture, what: str, error: ClientError) -> None:
    refused = isinstance(error, RefusedError) and error.code in (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    line = f"{what}: you have no right to see them" if refused else f"{what}: {error}"
    if line not in picture.gaps:
        picture.gaps.append(line)


def _in_parts(items: list[T], size: int) -> Iterator[list[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
