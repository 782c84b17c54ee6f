"""DeleteRecords (21), v0-v2: advance the first readable offset of partitions.

Offset -1 stands for the high watermark. Checks, in order: topic and partition known? may clients delete here
(not from internal topics, and only where `cleanup.policy` has delete)? leader here? offset within the log?
The reply's low watermark is the log start that all replicas have reached; files go when the retention task
next looks.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        results = [_delete(context, topic.name, wish) for wish in topic.partitions]
        topics.append(DeleteRecordsTopicResult(topic.name, results))
    return DeleteRecordsResponse(topics=topics)


def _delete(
    context: RequestContext, topic: str, wish: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        partition = context.parts.replicas.find(topic, wish.partition_index)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if "delete" not in partition.local_log().config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        low_watermark = partition.delete_records(wish.offset)
    except ApiError as error:
        return DeleteRecordsPartitionResult(wish.partition_index, -1, error.code)
    return DeleteRecordsPartitionResult(wish.partition_index, low_watermark)
