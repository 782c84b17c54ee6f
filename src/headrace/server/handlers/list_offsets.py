"""ListOffsets (2), v1-v11: find an offset by time, or by a named place in the log.

Places are negative timestamps: -1 latest (the high watermark, or the last stable offset for read_committed),
-2 earliest, -3 the record with the largest timestamp (v7), -4 earliest local (v8), -5 last tiered (v9), -6
earliest not yet tiered (v11). Without a remote tier the local log is all there is: -4 is the earliest, -5 and
-6 are none. A time later than every record finds nothing: offset -1. A record found beyond what the reader
may see counts as none. v4: leader epochs.

A leader that has just been elected may not know yet how far its predecessor's high watermark was. Until its
own has reached the start of its epoch, a consumer gets OFFSET_NOT_AVAILABLE (before v5 LEADER_NOT_AVAILABLE)
where the answer depends on it: else the end of the log would go back (KIP-207).

Checks, in order: isolation level known? partition named once? place known to this version? partition known?
leader epoch ours? leader here (a debugging client, -2, may ask any replica)?
"""

from collections import Counter
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.partition_log import PartitionLog
from headrace.replication.partition import READ_COMMITTED
from headrace.server.context import RequestContext
from headrace.wire.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The first version of the request that knows the place.
_SINCE: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

EPOCH_SINCE: Final = 4
NOT_FOUND: Final = (-1, -1)
CONSUMER: Final = -1
DEBUGGING: Final = -2
OFFSET_NOT_AVAILABLE_SINCE: Final = 5


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    named = Counter(
        (topic.name, wish.partition_index) for topic in request.topics for wish in topic.partitions
    )
    topics = []
    for topic in request.topics:
        # A partition that is named twice is answered once: which of its wishes would the answer be to?
        wishes = {wish.partition_index: wish for wish in topic.partitions}.values()
        results = []
        for wish in wishes:
            try:
                if named[topic.name, wish.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                results.append(_find(context, request, topic.name, wish))
            except ApiError as error:
                results.append(ListOffsetsPartitionResponse(wish.partition_index, error.code))
        topics.append(ListOffsetsTopicResponse(topic.name, results))
    return ListOffsetsResponse(topics=topics)


def _find(
    context: RequestContext, request: ListOffsetsRequest, topic: str, wish: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if request.isolation_level not in (0, READ_COMMITTED):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if wish.timestamp < 0 and context.api_version < _SINCE.get(wish.timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if wish.timestamp < EARLIEST_PENDING_UPLOAD:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{wish.timestamp} names no place in a log")
    partition = context.parts.replicas.find(topic, wish.partition_index)
    if request.replica_id == DEBUGGING:
        log = partition.following_log(wish.current_leader_epoch)
    else:
        log = partition.leading_log(wish.current_leader_epoch)
    end = log.log_end_offset
    if request.replica_id == CONSUMER:
        end = partition.end_for_consumer(request.isolation_level)
    timestamp, offset = _place(log, wish.timestamp, end)
    if (
        request.replica_id == CONSUMER
        and partition.is_catching_up
        and _depends_on_end(wish.timestamp, offset)
    ):
        is_known = context.api_version >= OFFSET_NOT_AVAILABLE_SINCE
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)
    epoch = -1
    if context.api_version >= EPOCH_SINCE and offset >= 0:
        epoch = log.epochs.latest if offset >= end else log.epochs.epoch_at(offset)
    return ListOffsetsPartitionResponse(wish.partition_index, 0, timestamp, offset, epoch)


def _depends_on_end(timestamp: int, offset: int) -> bool:
    """Whether the answer would be another one if consumers saw more of the log."""
    return timestamp == LATEST or (offset < 0 and (timestamp >= 0 or timestamp == MAX_TIMESTAMP))


def _place(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int]:
    """(timestamp, offset) of what was asked for; a place has no timestamp of its own."""
    if timestamp == LATEST:
        return -1, end
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    found = (
        log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    )
    if found is None or found.offset >= end:
        return NOT_FOUND
    return found.timestamp, found.offset
