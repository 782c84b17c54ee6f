"""CreateTopics: check names, settings and placement of each topic, and write it down.

Each topic of a request succeeds or fails by itself. A topic's records go together: the topic, its settings,
its partitions.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, new_uuid
from headrace.base.internal_topics import METADATA_TOPIC
from headrace.controller.assignments import check_assignment, new_partition
from headrace.controller.cluster import Cluster
from headrace.controller.config_checks import check_topic_settings
from headrace.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, check_size
from headrace.controller.placement import place
from headrace.controller.topic_settings import created_topic_settings
from headrace.metadata.image import MetadataRecord
from headrace.metadata.resources import ResourceType
from headrace.metadata.topic_names import check_name
from headrace.metadata.topics import PartitionImage, record_of
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.metadata_records import ConfigRecord, TopicRecord

_DEFAULT = -1

Described: TypeAlias = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""What the reply tells of topics with equal settings, worked out once: a request may make thousands."""


def create_topics(
    cluster: Cluster, request: CreateTopicsRequest, *, rng: random.Random
) -> Decision[CreateTopicsResponse]:
    """Decide about each topic of the request; with validate_only nothing is written."""
    _check_total(cluster, request.topics)
    response = CreateTopicsResponse()
    records: list[MetadataRecord] = []
    names = Counter(topic.name for topic in request.topics)
    described: Described = {}
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if names[topic.name] > 1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"topic '{topic.name}' is in the request more than once: list it once",
                )
            made, result = _create(cluster, topic, described, rng)
        except ApiError as error:
            response.topics.append(
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            )
            continue
        records += made
        response.topics.append(result)
    check_size(records)
    return Decision(() if request.validate_only else records, response)


def _check_total(cluster: Cluster, asked: Sequence[CreatableTopic]) -> None:
    """POLICY_VIOLATION for the whole request where it asks for too many partitions."""
    default = cluster.config.int("num.partitions")
    total = 0
    for topic in asked:
        count = default if topic.num_partitions == _DEFAULT else topic.num_partitions
        total += len(topic.assignments) or max(count, 0)
    if total > RECORDS_PER_REQUEST_MAX:
        message = (
            f"{total} partitions in one request, at most {RECORDS_PER_REQUEST_MAX} are made at once: "
            "spread them over several"
        )
        raise ApiError(ErrorCode.POLICY_VIOLATION, message)


def _create(
    cluster: Cluster, topic: CreatableTopic, described: Described, rng: random.Random
) -> tuple[list[MetadataRecord], CreatableTopicResult]:
    _check_new_name(cluster, topic.name)
    settings = _settings(cluster, topic)
    partitions = _partitions(cluster, topic, rng)
    topic_id = TopicId(new_uuid(rng))
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in settings.items()
    ]
    records += [record_of(topic_id, index, partition) for index, partition in enumerate(partitions)]
    same = frozenset(settings.items())
    if same not in described:
        described[same] = created_topic_settings(cluster.config, settings)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=described[same],
    )
    return records, result


def _check_new_name(cluster: Cluster, name: str) -> None:
    check_name(name)
    if name == METADATA_TOPIC:
        message = f"{METADATA_TOPIC} is the quorum's own log and cannot be made as a topic"
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    if name in cluster.image.topics_by_name:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"a topic '{name}' already exists")
    alike = cluster.image.topics.collides_with(name)
    if alike is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"'{name}' and the topic '{alike}' would have the same metrics, which do not tell '.' from '_': "
            "choose another name",
        )


def _settings(cluster: Cluster, topic: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        message = f"no value is given for {', '.join(nulls)}; leave a setting out to have its default"
        raise ApiError(ErrorCode.INVALID_CONFIG, message)
    settings = {config.name: config.value for config in topic.configs if config.value is not None}
    check_topic_settings(cluster.config, topic.name, settings)
    return settings


def _partitions(cluster: Cluster, topic: CreatableTopic, rng: random.Random) -> list[PartitionImage]:
    if topic.assignments:
        return _assigned_partitions(cluster, topic)
    if topic.replication_factor < _DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {topic.replication_factor}: give 1 or more, or -1 for the "
            "broker's default",
        )
    if topic.num_partitions < _DEFAULT or topic.num_partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.num_partitions} partitions: give 1 or more, or -1 for the broker's default",
        )
    config = cluster.config
    count = config.int("num.partitions") if topic.num_partitions == _DEFAULT else topic.num_partitions
    factor = topic.replication_factor
    if factor == _DEFAULT:
        factor = config.int("default.replication.factor")
    return placed_partitions(cluster, count=count, replication_factor=factor, rng=rng)


def placed_partitions(
    cluster: Cluster, *, count: int, replication_factor: int, rng: random.Random
) -> list[PartitionImage]:
    """New partitions, where the controller chooses the brokers."""
    try:
        places = place(
            cluster.image.brokers.values(), partitions=count, replication_factor=replication_factor, rng=rng
        )
    except ApiError as error:
        message = f"no place for {replication_factor} replicas of a partition: {error.message}"
        raise ApiError(error.code, message) from None
    return [new_partition(cluster, replicas) for replicas in places]


def _assigned_partitions(cluster: Cluster, topic: CreatableTopic) -> list[PartitionImage]:
    """New partitions where the client says."""
    for field, value in (
        ("replication factor", topic.replication_factor),
        ("number of partitions", topic.num_partitions),
    ):
        if value != _DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the {field} is {value}, but it follows from the replicas that were named: give -1",
            )
    assigned: dict[int, Sequence[int]] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} is assigned more than once: name its "
                "replicas in one entry",
            )
        check_assignment(cluster, assignment.broker_ids, index=assignment.partition_index, factor=factor)
        factor = len(assignment.broker_ids)
        assigned[assignment.partition_index] = assignment.broker_ids
    if sorted(assigned) != list(range(len(assigned))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions {sorted(assigned)} are assigned: they must count up from 0 without a gap",
        )
    return [new_partition(cluster, assigned[index]) for index in range(len(assigned))]
