"""What the core says, as requests of the wire, and the answers to them made into words of the core again.

Vote (52), BeginQuorumEpoch (53) and EndQuorumEpoch (54) all speak of one partition, `__cluster_metadata-0`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_LEADER
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.raft.messages import (
    NO_DIRECTORY,
    EpochBegan,
    EpochEnded,
    LogEnd,
    Message,
    VoteReply,
    VoteRequest,
)
from headrace.wire.schemas import begin_quorum_epoch, end_quorum_epoch, vote

Endpoints = Mapping[str, tuple[str, int]]


def request_of(
    message: Message, *, cluster_id: str, directories: Mapping[int, bytes], endpoints: Endpoints
) -> Any:
    """The request that carries a message; `endpoints` are the sender's own."""
    if isinstance(message, VoteRequest):
        asked = vote.RequestPartitionData(
            replica_epoch=message.epoch,
            replica_id=message.candidate_id,
            replica_directory_id=message.candidate_directory_id,
            voter_directory_id=directories.get(message.to, NO_DIRECTORY),
            last_offset_epoch=message.log_end.epoch,
            last_offset=message.log_end.offset,
            pre_vote=message.pre_vote,
        )
        return vote.VoteRequest(cluster_id, message.to, [vote.RequestTopicData(METADATA_TOPIC, [asked])])
    if isinstance(message, EpochBegan):
        began = begin_quorum_epoch.RequestPartitionData(
            voter_directory_id=directories.get(message.to, NO_DIRECTORY),
            leader_id=message.leader_id,
            leader_epoch=message.epoch,
        )
        return begin_quorum_epoch.BeginQuorumEpochRequest(
            cluster_id,
            message.to,
            [begin_quorum_epoch.RequestTopicData(METADATA_TOPIC, [began])],
            [begin_quorum_epoch.LeaderEndpoint(name, *where) for name, where in endpoints.items()],
        )
    assert isinstance(message, EpochEnded), message
    ended = end_quorum_epoch.RequestPartitionData(
        leader_id=message.leader_id,
        leader_epoch=message.epoch,
        preferred_successors=list(message.successors),
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(each, directories.get(each, NO_DIRECTORY))
            for each in message.successors
        ],
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id,
        [end_quorum_epoch.RequestTopicData(METADATA_TOPIC, [ended])],
        [end_quorum_epoch.LeaderEndpoint(name, *where) for name, where in endpoints.items()],
    )


def only_partition(topics: Iterable[Any]) -> Any:
    """What a request or response says of the metadata log; INVALID_REQUEST where it speaks of others."""
    found = [(topic.topic_name, part) for topic in topics for part in topic.partitions]
    if len(found) != 1 or found[0][0] != METADATA_TOPIC or found[0][1].partition_index != 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the quorum has one log, {METADATA_TOPIC}-0")
    return found[0][1]


def vote_asked(node_id: int, asked: vote.RequestPartitionData) -> VoteRequest:
    return VoteRequest(
        node_id,
        asked.replica_epoch,
        asked.replica_id,
        asked.replica_directory_id,
        LogEnd(asked.last_offset_epoch, asked.last_offset),
        asked.pre_vote,
    )


def vote_given(request: VoteRequest, answered: vote.ResponsePartitionData) -> VoteReply:
    return VoteReply(
        request.candidate_id,
        request.to,
        answered.leader_epoch,
        answered.vote_granted and not answered.error_code,
        answered.leader_id if answered.leader_id >= 0 else NO_LEADER,
        request.pre_vote,
    )


def epoch_ended(node_id: int, asked: end_quorum_epoch.RequestPartitionData) -> EpochEnded:
    successors = [each.candidate_id for each in asked.preferred_candidates] or asked.preferred_successors
    return EpochEnded(node_id, asked.leader_epoch, asked.leader_id, tuple(successors))
