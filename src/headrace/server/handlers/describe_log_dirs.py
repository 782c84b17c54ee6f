"""DescribeLogDirs (35), v1-v5: what lies in each log directory of this node.

Null asks for all partitions. A replica that is being moved is listed in both directories, in the new one as
a future replica with what it lacks. A directory that is offline is listed with KAFKA_STORAGE_ERROR. v4: size
of the volume and room left (KIP-827). v5: whether the directory takes no new partitions (KIP-1066).
"""

from headrace.base.ids import TopicPartition
from headrace.log.partition_log import PartitionLog
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions
        }
    cordoned = context.parts.config.list("cordoned.log.dirs")
    results = []
    for folder in context.parts.logs.usage():
        logs = [log for log in folder.logs if wanted is None or log.topic_partition in wanted]
        copies = [log for log in folder.future_logs if wanted is None or log.topic_partition in wanted]
        results.append(
            DescribeLogDirsResult(
                error_code=folder.error,
                log_dir=folder.path,
                topics=[] if folder.error else _by_topic(context, logs, copies),
                total_bytes=folder.total_bytes,
                usable_bytes=folder.usable_bytes,
                is_cordoned=folder.path in cordoned or "*" in cordoned,
            )
        )
    return DescribeLogDirsResponse(results=results)


def _by_topic(
    context: RequestContext, logs: list[PartitionLog], copies: list[PartitionLog]
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        name, index = log.topic_partition
        entry = topics.setdefault(name, DescribeLogDirsTopic(name))
        # The lag of a replica that is the current one is what consumers cannot see yet.
        lag = max(0, log.log_end_offset - log.high_watermark)
        entry.partitions.append(DescribeLogDirsPartition(index, log.size_bytes, lag))
    for copy in copies:
        name, index = copy.topic_partition
        entry = topics.setdefault(name, DescribeLogDirsTopic(name))
        # That of a replica that is being moved here is what the copy lacks still.
        original = context.parts.logs.get(copy.topic_partition)
        lag = 0 if original is None else max(0, original.log_end_offset - copy.log_end_offset)
        entry.partitions.append(DescribeLogDirsPartition(index, copy.size_bytes, lag, is_future_key=True))
    return list(topics.values())
