"""The cluster itself: its brokers and their log directories, and the metadata quorum.

Of the quorum: who votes, how far each has read, and voters that come and go (KIP-853).
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.base.ids import TopicPartition, uuid_bytes, uuid_text
from headrace.clients.errors import error_code, raise_for
from headrace.clients.internals.network_client import NetworkClient
from headrace.wire.apis import ApiKey
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.schemas.api_versions import ApiVersionsRequest
from headrace.wire.schemas.describe_cluster import FENCED_BROKERS_SINCE, DescribeClusterRequest
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest


class BrokerDescription(NamedTuple):
    """A broker: where clients reach it, its rack, and whether it is fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class ClusterDescription(NamedTuple):
    """A cluster: its id, the node that answers for the controller, and its brokers."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerDescription]


class LogDirDescription(NamedTuple):
    """A log directory of a broker, with the bytes that each partition takes there.

    `error` is empty where it is well; total and usable bytes are -1 where the broker does not tell.
    """

    node_id: int
    path: str
    error: str
    partitions: dict[TopicPartition, int]
    total_bytes: int
    usable_bytes: int


async def describe_cluster(client: NetworkClient) -> ClusterDescription:
    """The brokers, fenced ones too where the broker that is asked can tell."""
    if not (await client.find()).versions.supports(ApiKey.DESCRIBE_CLUSTER):
        return await _cluster_from_metadata(client)
    version = (await client.find()).versions.choose(ApiKey.DESCRIBE_CLUSTER)
    request = DescribeClusterRequest(include_fenced_brokers=version >= FENCED_BROKERS_SINCE)

    async def ask() -> ClusterDescription:
        response = await client.call(request)
        raise_for(response.error_code, "cannot describe the cluster", response.error_message)
        brokers = [
            BrokerDescription(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in response.brokers
        ]
        return ClusterDescription(response.cluster_id, response.controller_id, sorted(brokers))

    return await client.patiently(ask)


async def _cluster_from_metadata(client: NetworkClient) -> ClusterDescription:
    response = await client.patiently(lambda: client.refresh(()))
    brokers = [
        BrokerDescription(each.node_id, each.host, each.port, each.rack, fenced=False)
        for each in response.brokers
    ]
    return ClusterDescription(response.cluster_id or "", response.controller_id, sorted(brokers))


async def describe_log_dirs(client: NetworkClient, node_id: int) -> list[LogDirDescription]:
    """The folders of a broker, and what each of its partitions takes there."""
    await client.require_broker(node_id)

    async def ask() -> list[LogDirDescription]:
        response = await client.call(DescribeLogDirsRequest(topics=None), node=node_id)
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

    return await client.patiently(ask)


class QuorumMember(NamedTuple):
    """One node that reads the metadata log. `endpoints` are NAME://HOST:PORT, known of voters only."""

    node_id: int
    log_end_offset: int
    is_voter: bool
    directory_id: str = ""
    endpoints: tuple[str, ...] = ()
    last_caught_up_ms: int = -1
    """When it had read everything, by the leader's clock; of the leader itself that is now. -1: not known."""


class QuorumInfo(NamedTuple):
    """The metadata quorum: its leader, and voters and observers with how far each has read."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    members: list[QuorumMember]


class RaftVoterEndpoint(NamedTuple):
    """Where a voter listens for the others."""

    listener: str
    host: str
    port: int


async def describe_quorum(client: NetworkClient) -> QuorumInfo:
    """Who decides about the cluster's metadata, and how far each has read it."""
    topic = RequestTopicData(
        topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
    )

    async def ask() -> QuorumInfo:
        response = await client.call(DescribeQuorumRequest(topics=[topic]))
        raise_for(response.error_code, "cannot describe the quorum", response.error_message)
        partition = response.topics[0].partitions[0]
        raise_for(partition.error_code, "cannot describe the quorum", partition.error_message)
        where = {
            node.node_id: tuple(f"{each.name}://{each.host}:{each.port}" for each in node.listeners)
            for node in response.nodes
        }
        members = [
            QuorumMember(
                each.replica_id,
                each.log_end_offset,
                is_voter,
                uuid_text(each.replica_directory_id),
                where.get(each.replica_id, ()) if is_voter else (),
                each.last_caught_up_timestamp,
            )
            for is_voter, listed in ((True, partition.current_voters), (False, partition.observers))
            for each in listed
        ]
        return QuorumInfo(partition.leader_id, partition.leader_epoch, partition.high_watermark, members)

    return await client.patiently(ask)


async def add_voter(
    client: NetworkClient, node_id: int, directory_id: str, endpoints: list[RaftVoterEndpoint]
) -> None:
    """Let a controller that follows the metadata log vote."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=client.timeout_ms,
        voter_id=node_id,
        voter_directory_id=uuid_bytes(directory_id),
        listeners=[Listener(*each) for each in endpoints],
    )
    response = await client.call(request)
    raise_for(response.error_code, f"cannot add voter {node_id}", response.error_message)


async def remove_voter(client: NetworkClient, node_id: int, directory_id: str) -> None:
    """Let a voter only follow from now on."""
    request = RemoveRaftVoterRequest(None, node_id, uuid_bytes(directory_id))
    response = await client.call(request)
    raise_for(response.error_code, f"cannot remove voter {node_id}", response.error_message)


UPGRADE, SAFE_DOWNGRADE = 1, 2


class FeatureLevels(NamedTuple):
    """A feature of the cluster: the level in force, and those that the broker that was asked can run."""

    level: int
    least: int
    most: int


async def describe_features(client: NetworkClient) -> dict[str, FeatureLevels]:
    """All features, by name."""
    response = await client.call(ApiVersionsRequest("headrace", "1"))
    raise_for(response.error_code, "cannot describe features")
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return {
        each.name: FeatureLevels(levels.get(each.name, 0), each.min_version, each.max_version)
        for each in sorted(response.supported_features, key=lambda each: each.name)
    }


async def update_features(client: NetworkClient, levels: Mapping[str, int], *, downgrade: bool) -> None:
    """Set levels, all or none; a downgrade only where nothing can be lost by it."""
    kind = SAFE_DOWNGRADE if downgrade else UPGRADE
    updates = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level in levels.items()]
    response = await client.call(UpdateFeaturesRequest(client.timeout_ms, updates))
    raise_for(response.error_code, "cannot update features", response.error_message)
