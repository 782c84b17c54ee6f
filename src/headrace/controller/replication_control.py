"""Topics and their partitions as a controller decides about them (Kafka's ReplicationControlManager):
CreateTopics,
DeleteTopics and CreatePartitions.

Each topic of a request succeeds or fails by itself. A new topic's records go together: the topic, its
settings, its partitions.

`__remote_log_metadata` alone tells what is in the remote store. A tiered partition's records lie in the
partition of it that follows from their number, so that number never changes; and it cannot be deleted while
topics are tiered.

Who asks may have a quota of partitions that it makes and removes (KIP-599): each topic that can be changed is
counted, and THROTTLING_QUOTA_EXCEEDED where it is used up.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId, new_uuid
from headrace.base.internal_topics import METADATA_TOPIC, NEVER_TIERED, REMOTE_LOG_TOPIC
from headrace.controller.cluster_state import ClusterState
from headrace.controller.configuration_control import check_topic_settings
from headrace.controller.controller_result import (
    RECORDS_PER_REQUEST_MAX,
    ControllerResult,
    PartitionChangeQuota,
    check_size,
    no_quota,
)
from headrace.controller.replica_placer import place
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataRecord
from headrace.metadata.topic_names import check_name
from headrace.metadata.topics import PartitionImage, TopicImage, record_of
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.describe import describe_topic
from headrace.wire.schemas.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.schemas.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.wire.schemas.metadata_records import ConfigRecord, RemoveTopicRecord, TopicRecord

_DEFAULT = -1

Described: TypeAlias = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""What the reply tells of topics with equal settings, worked out once: a request may make thousands."""


def create_topics(
    cluster: ClusterState,
    request: CreateTopicsRequest,
    *,
    rng: random.Random,
    quota: PartitionChangeQuota = no_quota,
) -> ControllerResult[CreateTopicsResponse]:
    """Decide about each topic of the request; with validate_only nothing is written."""
    _check_total(cluster, request.topics)
    response = CreateTopicsResponse()
    records: list[MetadataRecord] = []
    names = Counter(topic.name for topic in request.topics)
    described: Described = {}
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if names[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            made, result = _create(cluster, topic, described, rng)
            quota(result.num_partitions)
        except ApiError as error:
            response.topics.append(
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            )
            continue
        records += made
        response.topics.append(result)
    check_size(records)
    return ControllerResult(() if request.validate_only else records, response)


def _check_total(cluster: ClusterState, asked: Sequence[CreatableTopic]) -> None:
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
    cluster: ClusterState, topic: CreatableTopic, described: Described, rng: random.Random
) -> tuple[list[MetadataRecord], CreatableTopicResult]:
    _check_new_name(cluster, topic.name)
    settings = _settings(cluster, topic, described)
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


def _check_new_name(cluster: ClusterState, name: str) -> None:
    check_name(name)
    if name == METADATA_TOPIC:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    if name in cluster.image.topics_by_name:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    alike = cluster.image.topics.collides_with(name)
    if alike is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {alike}"
        )


def _settings(cluster: ClusterState, topic: CreatableTopic, described: Described) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, message)
    settings = {config.name: config.value for config in topic.configs if config.value is not None}
    # Once for all topics of the request that have the same.
    if topic.name in NEVER_TIERED or frozenset(settings.items()) not in described:
        check_topic_settings(cluster.config, topic.name, settings)
    return settings


def _partitions(cluster: ClusterState, topic: CreatableTopic, rng: random.Random) -> list[PartitionImage]:
    if topic.assignments:
        return _assigned_partitions(cluster, topic)
    if topic.replication_factor < _DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < _DEFAULT or topic.num_partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    config = cluster.config
    count = config.int("num.partitions") if topic.num_partitions == _DEFAULT else topic.num_partitions
    factor = topic.replication_factor
    if factor == _DEFAULT:
        factor = config.int("default.replication.factor")
    return placed_partitions(cluster, count=count, replication_factor=factor, rng=rng)


def placed_partitions(
    cluster: ClusterState, *, count: int, replication_factor: int, rng: random.Random
) -> list[PartitionImage]:
    """New partitions, where the controller chooses the brokers."""
    full = {broker_id: fits for broker_id, fits in cluster.room().items() if fits < count}
    usable = [broker for broker in cluster.image.brokers.values() if broker.id not in full]
    try:
        places = place(usable, partitions=count, replication_factor=replication_factor, rng=rng)
    except ApiError as error:
        if full:
            raise _no_room(full) from None
        message = f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        raise ApiError(error.code, message) from None
    return [new_partition(cluster, replicas) for replicas in places]


def _no_room(full: Mapping[int, int]) -> ApiError:
    brokers = " and ".join(f"broker {broker_id} for {fits} more" for broker_id, fits in full.items())
    return ApiError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"there is no room on the disks for these partitions, of {brokers}: make room, or take other brokers",
    )


def _check_room(cluster: ClusterState, asked: Iterable[Sequence[int]]) -> None:
    """KAFKA_STORAGE_ERROR where a broker that was named has no room for its replicas."""
    counts = Counter(replica for replicas in asked for replica in replicas)
    full = {broker_id: fits for broker_id, fits in cluster.room().items() if fits < counts[broker_id]}
    if full:
        raise _no_room(full)


def _assigned_partitions(cluster: ClusterState, topic: CreatableTopic) -> list[PartitionImage]:
    """New partitions where the client says."""
    for field, value in (
        ("replication factor", topic.replication_factor),
        ("numPartitions", topic.num_partitions),
    ):
        if value != _DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {field} was not set to -1.",
            )
    assigned: dict[int, Sequence[int]] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        check_assignment(cluster, assignment.broker_ids, index=assignment.partition_index, factor=factor)
        factor = len(assignment.broker_ids)
        assigned[assignment.partition_index] = assignment.broker_ids
    if sorted(assigned) != list(range(len(assigned))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    _check_room(cluster, assigned.values())
    return [new_partition(cluster, assigned[index]) for index in range(len(assigned))]


def created_topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """Every setting of a new topic with its value and where it comes from, by name (KIP-525)."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in sorted(describe_topic(config, overrides))
    ]


def delete_topics(
    cluster: ClusterState, request: DeleteTopicsRequest, *, quota: PartitionChangeQuota = no_quota
) -> ControllerResult[DeleteTopicsResponse]:
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
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            topic = _find(cluster, state)
            if topic.name == REMOTE_LOG_TOPIC:
                _check_nothing_is_tiered(cluster)
            quota(len(topic.partitions))
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
        first.error_message = "The provided topic name maps to an ID that was already supplied."
        for result in others:
            response.responses.remove(result)
    check_size(records)
    return ControllerResult(records, response)


def _find(cluster: ClusterState, state: DeleteTopicState) -> TopicImage:
    topic_id = TopicId(state.topic_id)
    if state.name is None:
        if topic_id == NO_TOPIC_ID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        by_id = cluster.image.topics_by_id.get(topic_id)
        if by_id is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return by_id
    if topic_id != NO_TOPIC_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    return _named(cluster, state.name)


def _check_nothing_is_tiered(cluster: ClusterState) -> None:
    tiered = sorted(name for name in cluster.image.topics_by_name if cluster.topic_config(name).is_tiered)
    if tiered:
        raise ApiError(
            ErrorCode.TOPIC_DELETION_DISABLED,
            f"{REMOTE_LOG_TOPIC} tells what lies in the remote store of {len(tiered)} topics "
            f"({', '.join(tiered[:5])}{', …' if len(tiered) > 5 else ''}), of which nothing could be read "
            "without it: delete these, or their tiering (remote.storage.enable=false and "
            "remote.log.delete.on.disable=true), before",
        )


def _named(cluster: ClusterState, name: str) -> TopicImage:
    topic = cluster.image.topics_by_name.get(name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return topic


def create_partitions(
    cluster: ClusterState,
    request: CreatePartitionsRequest,
    *,
    rng: random.Random,
    quota: PartitionChangeQuota = no_quota,
) -> ControllerResult[CreatePartitionsResponse]:
    """Give topics more partitions. Each topic succeeds or fails by itself."""
    response = CreatePartitionsResponse()
    records: list[MetadataRecord] = []
    names = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        response.results.append(result)
        try:
            if names[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            made = _more_partitions(cluster, topic, rng)
            check_size(range(len(records) + len(made)))
            quota(len(made))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        records += made
    return ControllerResult(() if request.validate_only else records, response)


def _more_partitions(
    cluster: ClusterState, topic: CreatePartitionsTopic, rng: random.Random
) -> list[MetadataRecord]:
    existing = _named(cluster, topic.name)
    present = len(existing.partitions)
    if topic.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an "
            "increase.",
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
                f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)} "
                "assignment(s) were specified.",
            )
        for index, assignment in enumerate(topic.assignments, present):
            check_assignment(cluster, assignment.broker_ids, index=index, factor=factor)
        _check_room(cluster, [assignment.broker_ids for assignment in topic.assignments])
        partitions = [new_partition(cluster, assignment.broker_ids) for assignment in topic.assignments]
    return [record_of(existing.id, index, part) for index, part in enumerate(partitions, present)]


def check_replicas(cluster: ClusterState, replicas: Sequence[int], *, factor: int | None = None) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless these are different, registered brokers, `factor` of them."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in cluster.image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is "
                "registered."
            )
        if broker_id == before:
            raise _invalid(f"The manual partition assignment includes the broker {before} more than once.")
        before = broker_id
    if factor is not None and len(replicas) != factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {factor} replica(s)."
        )


def check_assignment(
    cluster: ClusterState, replicas: Sequence[int], *, index: int, factor: int | None
) -> None:
    """The same for a new partition, which also needs a broker to lead it."""
    check_replicas(cluster, replicas, factor=factor)
    if not any(map(cluster.is_active, replicas)):
        raise _invalid(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or "
            "in controlled shutdown."
        )


def new_partition(cluster: ClusterState, replicas: Sequence[int]) -> PartitionImage:
    """A partition on these brokers; those that are there are in sync, for there is nothing to have yet."""
    in_sync = tuple(filter(cluster.is_active, replicas))
    if not in_sync:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replicas {list(replicas)}: none of these brokers is up to lead the partition",
        )
    return PartitionImage(
        replicas=tuple(replicas),
        isr=in_sync,
        leader=in_sync[0],
        directories=tuple(map(cluster.default_directory, replicas)),
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
