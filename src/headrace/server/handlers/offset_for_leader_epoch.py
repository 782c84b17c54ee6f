"""OffsetForLeaderEpoch (23), v2-v4: where a leader epoch ends in the leader's log.

A follower that comes back, and a consumer that checks its position (KIP-320), truncate or reset to the
answer. It is the largest epoch not above the asked one, with its end (KIP-279); -1 where that cannot be told.
Checks, in order: partition known? epochs agree on who leads? leader here?
"""

from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_end_of(context, topic.topic, wish) for wish in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end_of(context: RequestContext, topic: str, wish: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = context.parts.replica_manager.find(topic, wish.partition).leading_log(wish.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(error.code, wish.partition)
    epoch, end_offset = log.leader_epoch_cache.end_offset_for(wish.leader_epoch, log.log_end_offset)
    return EpochEndOffset(0, wish.partition, epoch, end_offset)
