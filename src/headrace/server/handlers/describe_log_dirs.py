"""DescribeLogDirs (35), v1-v5: what lies in each log directory of this node.

Null asks for all partitions. A replica that is being moved is listed in both directories, in the new one as
a future replica with what it lacks. A directory that is offline is listed with KAFKA_STORAGE_ERROR. v4: size
of the volume and room left (KIP-827). v5: whether the directory takes no new partitions (KIP-1066).
"""

from headrace.base.ids import TopicPartition
from headrace.log.log_directory import LogDirUsage
from headrace.log.unified_log import UnifiedLog
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, in_slices, unless_short
from headrace.wire.schemas.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Slices[DescribeLogDirsResponse]:
    folders = context.parts.log_manager.usage()
    items = sum(len(folder.logs) + len(folder.future_logs) for folder in folders)
    asked = sum(1 + len(topic.partitions) for topic in request.topics or ())
    return unless_short(max(items, asked), _describe(context, request, folders))


def _describe(
    context: RequestContext, request: DescribeLogDirsRequest, folders: list[LogDirUsage]
) -> Slices[DescribeLogDirsResponse]:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        asked = (TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions)
        wanted = set((yield from in_slices(asked, lambda each: each)))
    cordoned = context.parts.config.list("cordoned.log.dirs")
    results = []
    for folder in folders:
        topics = [] if folder.error else (yield from _by_topic(context, folder, wanted))
        results.append(
            DescribeLogDirsResult(
                error_code=folder.error,
                log_dir=folder.path,
                topics=topics,
                total_bytes=folder.total_bytes,
                usable_bytes=folder.usable_bytes,
                is_cordoned=folder.path in cordoned or "*" in cordoned,
            )
        )
    return DescribeLogDirsResponse(results=results)


def _by_topic(
    context: RequestContext, folder: LogDirUsage, wanted: set[TopicPartition] | None
) -> Slices[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    replicas = [(log, False) for log in folder.logs] + [(log, True) for log in folder.future_logs]
    for number, (log, is_future) in enumerate(replicas, 1):
        if not number % SLICE_ITEMS:
            yield
        if wanted is None or log.topic_partition in wanted:
            name, index = log.topic_partition
            entry = topics.setdefault(name, DescribeLogDirsTopic(name))
            lag = _lag(context, log, is_future)
            entry.partitions.append(DescribeLogDirsPartition(index, log.size_bytes, lag, is_future))
    return list(topics.values())


def _lag(context: RequestContext, log: UnifiedLog, is_future: bool) -> int:
    """Of a replica that is the current one, what consumers cannot see yet; of one that is being moved here,
    what the copy lacks still.
    """
    if not is_future:
        return max(0, log.log_end_offset - log.high_watermark)
    original = context.parts.log_manager.get(log.topic_partition)
    return 0 if original is None else max(0, original.log_end_offset - log.log_end_offset)
