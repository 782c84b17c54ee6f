"""DescribeQuorum: who votes, who leads, how far each member has got (KIP-595, KIP-853)."""

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.raft.drivers.raft_client import KafkaRaftClient
from headrace.raft.messages import NO_DIRECTORY
from headrace.wire.schemas.describe_quorum import (
    DIRECTORY_SINCE,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)


def handle_describe_quorum(
    raft: KafkaRaftClient, request: DescribeQuorumRequest, *, api_version: int, clock: Clock
) -> DescribeQuorumResponse:
    """The one partition of the metadata log; any other is unknown here."""
    asked = [(topic.topic_name, p.partition_index) for topic in request.topics for p in topic.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
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
    assert raft.core.leader_state is not None
    leader_state = raft.core.leader_state
    replaced = [
        voter for voter, disk in raft.core.voters.items() if leader_state.has_another_disk(voter, disk)
    ]
    for voter in sorted(raft.core.voters):
        known = None if voters is None or api_version < DIRECTORY_SINCE else voters.by_id.get(voter)
        away = voter in replaced
        state = ReplicaState(replica_id=voter, log_end_offset=-1) if away else _state(raft, voter, clock)
        state.replica_directory_id = NO_DIRECTORY if known is None else known.directory_id
        data.current_voters.append(state)
        if known is not None:
            listeners = [
                Listener(name=name, host=host, port=port) for name, (host, port) in known.endpoints.items()
            ]
            response.nodes.append(Node(node_id=voter, listeners=listeners))
    observers = leader_state.observers(raft.core.voters, raft.now_ms())
    for node_id in sorted([*observers, *replaced]):
        state = _state(raft, node_id, clock)
        if api_version < DIRECTORY_SINCE:
            state.replica_directory_id = NO_DIRECTORY
        data.observers.append(state)
    return response


def _state(raft: KafkaRaftClient, node_id: int, clock: Clock) -> ReplicaState:
    """One member; the leader's times are now. Times are of the wall, told from how long ago they were."""
    assert raft.core.leader_state is not None
    replica = raft.core.leader_state.of(node_id)
    leads = node_id == raft.core.leader_id

    def at(time_ms: int) -> int:
        return -1 if time_ms < 0 else clock.now_ms() - (clock.monotonic_ms() - time_ms)

    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=raft.next_offset if leads else replica.end_offset,
        last_fetch_timestamp=clock.now_ms() if leads else at(replica.fetched_ms),
        last_caught_up_timestamp=clock.now_ms() if leads else at(replica.caught_up_ms),
    )


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
                        error_message="This server does not host this topic-partition.",
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
