"""DescribeQuorum: who votes, who leads, how far each member has got (KIP-595, KIP-853)."""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.raft.driver import RaftDriver
from headrace.wire.schemas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

WHERE_SINCE: Final = 2
"""From this version on the directories and listeners of voters are told."""


def describe_quorum(
    raft: RaftDriver, request: DescribeQuorumRequest, *, api_version: int, now_ms: int
) -> DescribeQuorumResponse:
    """The one partition of the metadata log; any other is unknown here."""
    asked = {(topic.topic_name, p.partition_index) for topic in request.topics for p in topic.partitions}
    if asked != {(METADATA_TOPIC, 0)}:
        return _unknown(request)
    data = ResponsePartitionData(partition_index=0)
    response = DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[data])]
    )
    if not raft.is_leader:
        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return response
    data.leader_id = raft.core.leader_id
    data.leader_epoch = raft.core.epoch
    data.high_watermark = raft.high_watermark
    voters = raft.log.voters
    for voter, end_offset in raft.core.voter_ends().items():
        known = None if voters is None or api_version < WHERE_SINCE else voters.by_id.get(voter)
        leads = voter == raft.core.leader_id
        data.current_voters.append(
            ReplicaState(
                replica_id=voter,
                replica_directory_id=bytes(16) if known is None else known.directory_id,
                log_end_offset=raft.next_offset if leads else end_offset,
                last_fetch_timestamp=now_ms if leads else -1,
                last_caught_up_timestamp=now_ms if leads else -1,
            )
        )
        if known is not None:
            listeners = [
                Listener(name=name, host=host, port=port) for name, (host, port) in known.endpoints.items()
            ]
            response.nodes.append(Node(node_id=voter, listeners=listeners))
    return response


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(
                        partition_index=p.partition_index,
                        error_code=code,
                        error_message=f"the quorum has one log, {METADATA_TOPIC}-0",
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
