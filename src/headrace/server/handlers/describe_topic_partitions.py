"""DescribeTopicPartitions (75), v0: topics page by page, with their eligible leaders (KIP-966).

Topics come in the order of their names, at most `response_partition_limit` partitions in all (and never more
than max.request.partition.size.limit); `next_cursor` says where the next page begins. An empty list asks for
all topics that may be described. A cursor must name one of the topics asked for: INVALID_REQUEST otherwise.
"""

from itertools import islice

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.metadata.topic_names import name_fault
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.server.authorizer import Operation, Resource, allows, authorized_operations
from headrace.server.context import RequestContext
from headrace.server.long_requests import SHORT_ITEMS, Slices, in_slices, unless_short
from headrace.server.metadata_cache import offline_replicas, partition_error
from headrace.wire.schemas.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Slices[DescribeTopicPartitionsResponse]:
    topics = context.parts.image.topics_by_name
    items = sum(len(topic.partitions) for topic in islice(topics.values(), SHORT_ITEMS)) + len(topics)
    return unless_short(items + len(request.topics), _describe(context, request))


def _describe(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Slices[DescribeTopicPartitionsResponse]:
    image = context.parts.image
    names = sorted({topic.name for topic in request.topics} or image.topics_by_name)
    first = _first_index(request)
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if request.topics and names[:1] != [request.cursor.topic_name]:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the cursor stands at topic '{request.cursor.topic_name}', which is not among those "
                "asked for",
            )
        if names[:1] != [request.cursor.topic_name]:
            first = 0
    refused = {name for name in names if not allows(context, Operation.DESCRIBE, Resource.TOPIC, name)}
    names = [name for name in names if name not in refused]
    limit = context.parts.config.int("max.request.partition.size.limit")
    left = max(1, min(request.response_partition_limit, limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topics_by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(context, name))
            yield
            continue
        if not left:
            response.next_cursor = Cursor(name, 0)
            break
        indexes = [index for index in sorted(topic.partitions) if index >= first]
        first = 0
        response.topics.append((yield from _topic(context, topic, indexes[:left])))
        yield
        if len(indexes) > left:
            response.next_cursor = Cursor(name, indexes[left])
            break
        left -= len(indexes)
    if request.topics:
        response.topics += [_refused(name) for name in sorted(refused)]
    return response


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Nothing is said of it, not even whether it exists."""
    return DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)


def _first_index(request: DescribeTopicPartitionsRequest) -> int:
    if request.cursor is None:
        return 0
    if request.cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"the cursor stands at partition {request.cursor.partition_index}; partitions begin at 0",
        )
    return request.cursor.partition_index


def _unknown(context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    invalid = name_fault(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations(context, Resource.TOPIC, name),
    )


def _topic(
    context: RequestContext, topic: TopicImage, indexes: list[int]
) -> Slices[DescribeTopicPartitionsResponseTopic]:
    known = topic.partitions
    partitions = yield from in_slices(
        [(index, known[index]) for index in indexes], lambda each: _partition(context, *each)
    )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=authorized_operations(context, Resource.TOPIC, topic.name),
    )


def _partition(
    context: RequestContext, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    image, listener = context.parts.image, context.peer.listener
    code = partition_error(image, partition, listener)
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=-1 if code else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition, listener),
    )
