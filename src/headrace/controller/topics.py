"""DeleteTopics and CreatePartitions: what becomes of topics that exist.

`__remote_log_metadata` alone tells what is in the remote store. A tiered partition's records lie in the
partition of it that follows from their number, so that number never changes; and it cannot be deleted while
topics are tiered.
"""

import random
from collections import Counter

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId, uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.controller.assignments import check_assignment, new_partition
from headrace.controller.cluster import Cluster
from headrace.controller.decision import Decision, check_size
from headrace.controller.new_topics import placed_partitions
from headrace.metadata.image import MetadataRecord
from headrace.metadata.topics import TopicImage, record_of
from headrace.wire.schemas.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headrace.wire.schemas.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.wire.schemas.metadata_records import RemoveTopicRecord


def delete_topics(cluster: Cluster, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    """Remove topics by name or id. A topic that is given twice is not removed at all."""
    if not cluster.config.bool("delete.topic.enable"):
        raise ApiError(
            ErrorCode.TOPIC_DELETION_DISABLED, "this cluster deletes no topics: delete.topic.enable is false"
        )
    asked = [DeleteTopicState(name=name) for name in request.topic_names] + list(request.topics)
    times = Counter((state.name, state.topic_id) for state in asked)
    found: dict[TopicId, list[DeletableTopicResult]] = {}
    response = DeleteTopicsResponse()
    for state in {(state.name, state.topic_id): state for state in asked}.values():
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        response.responses.append(result)
        try:
            if times[state.name, state.topic_id] > 1:
                what = "id" if state.name is None else "name"
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"the request has this {what} more than once, so the topic is kept: list it once",
                )
            topic = _find(cluster, state)
            if topic.name == REMOTE_LOG_TOPIC:
                _check_nothing_is_tiered(cluster)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        result.name, result.topic_id = topic.name, topic.id
        found.setdefault(topic.id, []).append(result)
    records: list[MetadataRecord] = []
    for topic_id, results in found.items():
        if len(results) == 1:
            records.append(RemoveTopicRecord(topic_id=topic_id))
            continue
        first, *others = results
        first.error_code = ErrorCode.INVALID_REQUEST
        first.error_message = (
            "the request has this topic by its name and by its id, so it is kept: list it once"
        )
        for result in others:
            response.responses.remove(result)
    check_size(records)
    return Decision(records, response)


def _find(cluster: Cluster, state: DeleteTopicState) -> TopicImage:
    topic_id = TopicId(state.topic_id)
    if state.name is None:
        if topic_id == NO_TOPIC_ID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a topic needs a name or an id")
        by_id = cluster.image.topics_by_id.get(topic_id)
        if by_id is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {uuid_text(topic_id)}")
        return by_id
    if topic_id != NO_TOPIC_ID:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"topic '{state.name}' is given with an id too: give one of the two"
        )
    return _named(cluster, state.name)


def _check_nothing_is_tiered(cluster: Cluster) -> None:
    tiered = sorted(name for name in cluster.image.topics_by_name if cluster.topic_config(name).is_tiered)
    if tiered:
        raise ApiError(
            ErrorCode.TOPIC_DELETION_DISABLED,
            f"{REMOTE_LOG_TOPIC} tells what lies in the remote store of {len(tiered)} topics "
            f"({', '.join(tiered[:5])}{', …' if len(tiered) > 5 else ''}), of which nothing could be read "
            "without it: delete these, or their tiering (remote.storage.enable=false and "
            "remote.log.delete.on.disable=true), before",
        )


def _named(cluster: Cluster, name: str) -> TopicImage:
    topic = cluster.image.topics_by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
    return topic


def create_partitions(
    cluster: Cluster, request: CreatePartitionsRequest, *, rng: random.Random
) -> Decision[CreatePartitionsResponse]:
    """Give topics more partitions. Each topic succeeds or fails by itself."""
    response = CreatePartitionsResponse()
    records: list[MetadataRecord] = []
    names = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        response.results.append(result)
        try:
            if names[topic.name] > 1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"topic '{topic.name}' is in the request more than once: list it once",
                )
            made = _more_partitions(cluster, topic, rng)
            check_size([*records, *made])
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        records += made
    return Decision(() if request.validate_only else records, response)


def _more_partitions(
    cluster: Cluster, topic: CreatePartitionsTopic, rng: random.Random
) -> list[MetadataRecord]:
    existing = _named(cluster, topic.name)
    present = len(existing.partitions)
    if topic.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"topic '{topic.name}' has {present} partitions already")
    if topic.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic '{topic.name}' has {present} partitions and cannot go down to {topic.count}: "
            "partitions are never taken away",
        )
    if topic.name == REMOTE_LOG_TOPIC:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"{REMOTE_LOG_TOPIC} keeps its {present} partitions: their number says where a topic's records "
            "are, so with another one what lies in the remote store would not be found any more",
        )
    additional = topic.count - present
    check_size(range(additional))
    factor = len(existing.partitions[0].replicas)
    if topic.assignments is None:
        partitions = placed_partitions(cluster, count=additional, replication_factor=factor, rng=rng)
    else:
        if len(topic.assignments) != additional:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partitions are added to the {present} of topic '{topic.name}', but the "
                f"replicas of {len(topic.assignments)} are named",
            )
        for index, assignment in enumerate(topic.assignments, present):
            check_assignment(cluster, assignment.broker_ids, index=index, factor=factor)
        partitions = [new_partition(cluster, assignment.broker_ids) for assignment in topic.assignments]
    return [record_of(existing.id, index, part) for index, part in enumerate(partitions, present)]
