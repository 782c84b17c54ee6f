"""Topics, as an administrator asks for them: make, list, describe, enlarge, delete.

Requests that change something may go to any broker, which passes them to the controller.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import uuid_text
from headrace.clients.cluster_client import ClusterClient
from headrace.clients.errors import NoSuchTopicError, raise_for
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest

DESCRIBE_TOPIC_PARTITIONS: Final = 75


class TopicSummary(NamedTuple):
    name: str
    topic_id: str
    partitions: int
    replication: int
    internal: bool


class PartitionDescription(NamedTuple):
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
        return len(self.isr) < len(self.replicas)


class TopicDescription(NamedTuple):
    name: str
    topic_id: str
    internal: bool
    partitions: list[PartitionDescription]


async def create_topic(
    cluster: ClusterClient,
    name: str,
    *,
    partitions: int = -1,
    replication: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> TopicSummary:
    """Make a topic and wait until it can be used; -1 leaves a number to the cluster."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=cluster.timeout_ms, validate_only=validate_only)

    async def ask() -> TopicSummary:
        (result,) = (await cluster.call(request)).topics
        raise_for(result.error_code, f"cannot create topic {name!r}", result.error_message)
        topic_id = uuid_text(result.topic_id)
        return TopicSummary(name, topic_id, result.num_partitions, result.replication_factor, internal=False)

    created = await cluster.patiently(ask)
    if not validate_only:
        await cluster.topic(name, wait=True)
    return created


async def list_topics(cluster: ClusterClient) -> list[TopicSummary]:
    """All topics, by name."""
    response = await cluster.patiently(lambda: cluster.refresh(None))
    return [
        TopicSummary(
            name=topic.name or "",
            topic_id=uuid_text(topic.topic_id),
            partitions=len(topic.partitions),
            replication=max((len(each.replica_nodes) for each in topic.partitions), default=0),
            internal=topic.is_internal,
        )
        for topic in sorted(response.topics, key=lambda each: each.name or "")
    ]


async def describe_topics(cluster: ClusterClient, names: Sequence[str]) -> list[TopicDescription]:
    """These topics, partition by partition; NoSuchTopicError for one that is not there."""
    response = await cluster.patiently(lambda: cluster.refresh(names))
    described = []
    for topic in sorted(response.topics, key=lambda each: each.name or ""):
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopicError(topic.name or "")
        raise_for(topic.error_code, f"cannot describe topic {topic.name!r}")
        partitions = [
            PartitionDescription(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                each.replica_nodes,
                each.isr_nodes,
                each.offline_replicas,
            )
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ]
        described.append(
            TopicDescription(topic.name or "", uuid_text(topic.topic_id), topic.is_internal, partitions)
        )
    return await _with_eligible_leaders(cluster, described)


async def _with_eligible_leaders(
    cluster: ClusterClient, described: list[TopicDescription]
) -> list[TopicDescription]:
    """The same, with what older brokers do not tell."""
    if not described or not (await cluster.find()).versions.supports(DESCRIBE_TOPIC_PARTITIONS):
        return described
    eligible: dict[tuple[str, int], list[int]] = {}
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(each.name) for each in described])
    while True:
        response = await cluster.patiently(lambda: cluster.call(request))
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


async def delete_topics(cluster: ClusterClient, names: Iterable[str]) -> None:
    """Delete topics; the first that cannot be deleted is named in the error."""
    wanted = list(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in wanted],
        topic_names=wanted,
        timeout_ms=cluster.timeout_ms,
    )

    async def ask() -> None:
        for result in (await cluster.call(request)).responses:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NoSuchTopicError(result.name or "")
            raise_for(result.error_code, f"cannot delete topic {result.name!r}", result.error_message)

    await cluster.patiently(ask)


async def create_partitions(cluster: ClusterClient, name: str, count: int) -> None:
    """Give a topic more partitions; `count` is how many it has afterwards."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=cluster.timeout_ms)

    async def ask() -> None:
        (result,) = (await cluster.call(request)).results
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NoSuchTopicError(name)
        raise_for(result.error_code, f"cannot give topic {name!r} {count} partitions", result.error_message)

    await cluster.patiently(ask)
