"""DeleteRecords (21), v0-v2: advance the first readable offset of partitions.

Offset -1 stands for the high watermark. Checks, in order: topic and partition known? may clients delete here
(not from internal topics, and only where `cleanup.policy` has delete)? leader here? offset within the log?
The reply's low watermark is the log start that all replicas which are up have reached: it is waited for, as
long as the request allows. Files go when the retention task next looks.
"""

from __future__ import annotations

from asyncio import Future
from typing import NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.replication.partition import Partition
from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


class _Pending(NamedTuple):
    """A deletion that followers have not followed yet."""

    partition: Partition
    start_offset: int
    result: DeleteRecordsPartitionResult

    def is_over(self) -> bool:
        """Whether all have deleted, or nobody can tell any more."""
        result = self.result
        try:
            result.low_watermark = self.partition.low_watermark()
            result.error_code = ErrorCode.NONE
        except ApiError as error:
            result.low_watermark, result.error_code = -1, error.code
        return bool(result.error_code) or result.low_watermark >= self.start_offset


def handle(
    context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Future[DeleteRecordsResponse]:
    pending: list[_Pending] = []
    topics = []
    for topic in request.topics:
        results = [_delete(context, topic.name, wish, pending) for wish in topic.partitions]
        topics.append(DeleteRecordsTopicResult(topic.name, results))
    response = DeleteRecordsResponse(topics=topics)

    def attempt(expired: bool) -> DeleteRecordsResponse | None:
        left = [each for each in pending if not each.is_over()]
        if left and not expired:
            return None
        for each in left:
            each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    at_once = attempt(False)
    if at_once is not None:
        return at_once
    keys = [each.partition.topic_partition for each in pending]
    return context.parts.purgatory.watch(keys, attempt, request.timeout_ms)


def _delete(
    context: RequestContext, topic: str, wish: DeleteRecordsPartition, pending: list[_Pending]
) -> DeleteRecordsPartitionResult:
    try:
        partition = context.parts.replica_manager.find(topic, wish.partition_index)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if "delete" not in partition.local_log().config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        start_offset = partition.delete_records(wish.offset)
    except ApiError as error:
        # Also where another node holds it: asking that one would not help.
        is_internal = topic in INTERNAL_TOPICS and error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_internal else error.code
        return DeleteRecordsPartitionResult(wish.partition_index, -1, code)
    result = DeleteRecordsPartitionResult(wish.partition_index, start_offset)
    pending.append(_Pending(partition, start_offset, result))
    return result
