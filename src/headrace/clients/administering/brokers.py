"""The cluster itself, as an administrator sees it: its brokers and their folders."""

from typing import Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.clients.cluster_client import ClusterClient
from headrace.clients.errors import error_code, raise_for
from headrace.wire.schemas.describe_cluster import DescribeClusterRequest
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest

DESCRIBE_CLUSTER: Final = 60


class BrokerDescription(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: list[BrokerDescription]


class LogDirDescription(NamedTuple):
    node_id: int
    path: str
    error: str
    partitions: dict[TopicPartition, int]
    total_bytes: int
    usable_bytes: int


async def describe_cluster(cluster: ClusterClient) -> ClusterDescription:
    """The brokers, fenced ones too where the broker that is asked can tell."""
    if not (await cluster.find()).versions.supports(DESCRIBE_CLUSTER):
        return await _cluster_from_metadata(cluster)
    version = (await cluster.find()).versions.choose(DESCRIBE_CLUSTER)
    request = DescribeClusterRequest(include_fenced_brokers=version >= 2)

    async def ask() -> ClusterDescription:
        response = await cluster.call(request)
        raise_for(response.error_code, "cannot describe the cluster", response.error_message)
        brokers = [
            BrokerDescription(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in response.brokers
        ]
        return ClusterDescription(response.cluster_id, response.controller_id, sorted(brokers))

    return await cluster.patiently(ask)


async def _cluster_from_metadata(cluster: ClusterClient) -> ClusterDescription:
    response = await cluster.patiently(lambda: cluster.refresh(()))
    brokers = [
        BrokerDescription(each.node_id, each.host, each.port, each.rack, fenced=False)
        for each in response.brokers
    ]
    return ClusterDescription(response.cluster_id or "", response.controller_id, sorted(brokers))


async def describe_log_dirs(cluster: ClusterClient, node_id: int) -> list[LogDirDescription]:
    """The folders of a broker, and what each of its partitions takes there."""
    await cluster.require_broker(node_id)

    async def ask() -> list[LogDirDescription]:
        response = await cluster.call(DescribeLogDirsRequest(topics=None), node=node_id)
        raise_for(response.error_code, f"cannot describe the folders of broker {node_id}")
        return [
            LogDirDescription(
                node_id=node_id,
                path=folder.log_dir,
                error="" if not folder.error_code else error_code(folder.error_code).name,
                partitions={
                    TopicPartition(topic.name, each.partition_index): each.partition_size
                    for topic in folder.topics
                    for each in topic.partitions
                },
                total_bytes=folder.total_bytes,
                usable_bytes=folder.usable_bytes,
            )
            for folder in response.results
        ]

    return await cluster.patiently(ask)
