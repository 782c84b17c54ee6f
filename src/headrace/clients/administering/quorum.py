"""The quorum of the metadata: who votes, how far each has read, and voters that come and go (KIP-853)."""

from typing import NamedTuple

from headrace.base.ids import uuid_bytes, uuid_text
from headrace.clients.cluster_client import ClusterClient
from headrace.clients.errors import raise_for
from headrace.wire.schemas.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.schemas.remove_raft_voter import RemoveRaftVoterRequest


class QuorumMember(NamedTuple):
    """One node that reads the metadata log. `endpoints` are NAME://HOST:PORT, known of voters only."""

    node_id: int
    log_end_offset: int
    is_voter: bool
    directory_id: str = ""
    endpoints: tuple[str, ...] = ()


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    members: list[QuorumMember]


class VoterEndpoint(NamedTuple):
    """Where a voter listens for the others."""

    listener: str
    host: str
    port: int


async def describe_quorum(cluster: ClusterClient) -> QuorumDescription:
    """Who decides about the cluster's metadata, and how far each has read it."""
    topic = RequestTopicData(
        topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
    )

    async def ask() -> QuorumDescription:
        response = await cluster.call(DescribeQuorumRequest(topics=[topic]))
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
            )
            for is_voter, listed in ((True, partition.current_voters), (False, partition.observers))
            for each in listed
        ]
        return QuorumDescription(
            partition.leader_id, partition.leader_epoch, partition.high_watermark, members
        )

    return await cluster.patiently(ask)


async def add_voter(
    cluster: ClusterClient, node_id: int, directory_id: str, endpoints: list[VoterEndpoint]
) -> None:
    """Let a controller that follows the metadata log vote."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=cluster.timeout_ms,
        voter_id=node_id,
        voter_directory_id=uuid_bytes(directory_id),
        listeners=[Listener(*each) for each in endpoints],
    )
    response = await cluster.call(request)
    raise_for(response.error_code, f"cannot add voter {node_id}", response.error_message)


async def remove_voter(cluster: ClusterClient, node_id: int, directory_id: str) -> None:
    """Let a voter only follow from now on."""
    request = RemoveRaftVoterRequest(None, node_id, uuid_bytes(directory_id))
    response = await cluster.call(request)
    raise_for(response.error_code, f"cannot remove voter {node_id}", response.error_message)
