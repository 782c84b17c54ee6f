"""Topics, as an administrator asks for them: make, list, describe, enlarge, delete.

Requests that change something may go to any broker, which passes them to the controller.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition, uuid_text
from headrace.clients.errors import NoSuchTopicError, RefusedError, raise_for
from headrace.clients.internals.admin.configs import ConfigValue, config_text
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.offset_lookup import by_leader, know_leaders
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.schemas.metadata import MetadataResponseTopic


class TopicListing(NamedTuple):
    """A topic as `list_topics` names it: its id, and how many partitions and replicas it has."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool


class TopicPartitionInfo(NamedTuple):
    """A partition: its leader and replicas, those in sync and those offline."""

    number: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    elr: list[int] | None = None
    """Not in sync, but known to have everything (KIP-966); None where the broker does not tell."""

    @property
    def is_under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than there are."""
        return len(self.isr) < len(self.replicas)


class TopicDescription(NamedTuple):
    """A topic with its partitions."""

    name: str
    topic_id: str
    internal: bool
    partitions: list[TopicPartitionInfo]


async def create_topic(
    client: NetworkClient,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, ConfigValue] | None = None,
    validate_only: bool = False,
) -> TopicListing:
    """Make a topic and wait until it can be used; -1 leaves a number to the cluster."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreatableTopicConfig(name=key, value=config_text(key, value))
            for key, value in (configs or {}).items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=client.timeout_ms, validate_only=validate_only)

    async def ask() -> TopicListing:
        (result,) = (await client.call(request)).topics
        raise_for(result.error_code, f"cannot create topic {name!r}", result.error_message)
        topic_id = uuid_text(result.topic_id)
        return TopicListing(name, topic_id, result.num_partitions, result.replication_factor, internal=False)

    created = await client.patiently(ask)
    if not validate_only:
        await client.topic(name, wait=True)
    return created


async def list_topics(client: NetworkClient) -> list[TopicListing]:
    """All topics, by name."""
    response = await client.patiently(lambda: client.refresh(None))
    return [
        TopicListing(
            name=topic.name or "",
            topic_id=uuid_text(topic.topic_id),
            partitions=len(topic.partitions),
            replication_factor=max((len(each.replica_nodes) for each in topic.partitions), default=0),
            internal=topic.is_internal,
        )
        for topic in sorted(response.topics, key=lambda each: each.name or "")
    ]


async def describe_topics(client: NetworkClient, names: str | Iterable[str]) -> list[TopicDescription]:
    """These topics, partition by partition; NoSuchTopicError for one that is not there."""
    wanted = names_of(names)
    response = await client.patiently(lambda: client.refresh(wanted))
    described = []
    for topic in sorted(response.topics, key=lambda each: each.name or ""):
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopicError(topic.name or "")
        raise_for(topic.error_code, f"cannot describe topic {topic.name!r}")
        described.append(
            TopicDescription(
                topic.name or "", uuid_text(topic.topic_id), topic.is_internal, partitions_of(topic)
            )
        )
    return await _with_eligible_leaders(client, described)


async def _with_eligible_leaders(
    client: NetworkClient, described: list[TopicDescription]
) -> list[TopicDescription]:
    """The same, with what older brokers do not tell."""
    if not described or not (await client.find()).versions.supports(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return described
    eligible: dict[tuple[str, int], list[int]] = {}
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(each.name) for each in described])
    while True:
        response = await client.patiently(lambda: client.call(request))
        for topic in response.topics:
            for each in topic.partitions:
                eligible[topic.name or "", each.partition_index] = each.eligible_leader_replicas or []
        if response.next_cursor is None:
            break
        request.cursor = response.next_cursor
    return [
        topic._replace(
            partitions=[
                each._replace(elr=eligible.get((topic.name, each.number))) for each in topic.partitions
            ]
        )
        for topic in described
    ]


async def delete_topics(client: NetworkClient, names: str | Iterable[str]) -> None:
    """Delete topics; the first that cannot be deleted is named in the error."""
    wanted = names_of(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in wanted],
        topic_names=wanted,
        timeout_ms=client.timeout_ms,
    )

    async def ask() -> None:
        for result in (await client.call(request)).responses:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NoSuchTopicError(result.name or "")
            raise_for(result.error_code, f"cannot delete topic {result.name!r}", result.error_message)

    await client.patiently(ask)


async def delete_records(
    client: NetworkClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Delete what lies before these offsets, -1 for all there is; where the partitions start afterwards."""
    starts: dict[TopicPartition, int] = {}

    async def ask() -> dict[TopicPartition, int]:
        # What was deleted by an attempt that failed elsewhere is not asked for again.
        left = [each for each in offsets if each not in starts]
        await know_leaders(client, left)
        for node, group in by_leader(client, left).items():
            topics: dict[str, DeleteRecordsTopic] = {}
            for each in group:
                topic = topics.setdefault(each.topic, DeleteRecordsTopic(name=each.topic))
                topic.partitions.append(DeleteRecordsPartition(each.partition, offsets[each]))
            request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=client.timeout_ms)
            for found in (await client.call(request, node=node)).topics:
                for result in found.partitions:
                    partition = TopicPartition(found.name, result.partition_index)
                    raise_for(result.error_code, f"cannot delete records of {partition}")
                    starts[partition] = result.low_watermark
        return starts

    async def try_anew() -> dict[TopicPartition, int]:
        try:
            return await ask()
        except RefusedError:
            await client.refresh(sorted({each.topic for each in offsets}))
            raise

    return await client.patiently(try_anew)


async def create_partitions(client: NetworkClient, name: str, count: int) -> None:
    """Give a topic more partitions; `count` is how many it has afterwards."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=client.timeout_ms)

    async def ask() -> None:
        (result,) = (await client.call(request)).results
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopicError(name)
        raise_for(result.error_code, f"cannot give topic {name!r} {count} partitions", result.error_message)

    await client.patiently(ask)


def partitions_of(topic: MetadataResponseTopic) -> list[TopicPartitionInfo]:
    """A topic's partitions as Metadata tells them, by number."""
    return [
        TopicPartitionInfo(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
