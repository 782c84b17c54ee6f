"""Metadata (3), v0-v13: the brokers, and topics with their partitions and leaders.

Which topics: in v0 an empty list means all; from v1 on null means all and an empty list none. v10 answers
with topic ids, v12 is asked by them (KIP-516). An unknown name is made a topic where client (v4) and
auto.create.topics.enable allow it, and the reply waits until it is there, where Apache Kafka has the client
ask again. v5 tells offline replicas, v7 leader epochs (KIP-320), v8 what the client may do (KIP-430; the
cluster's bits only up to v10).

The controller that is named is the asked node: whichever broker gets a request for the controller passes it
on. Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION; of a
partition: LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND (from v6 on).

An answer that would name a leader whose process may just have ended waits for the next one (`doubts.py`).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterator, Sequence
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.metadata.topic_names import name_fault
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.server.authority import CLUSTER_NAME, NOT_ASKED_FOR, Resource, authorized_operations
from headrace.server.automatic_topics import automatic_topic
from headrace.server.context import RequestContext
from headrace.server.leader_hints import addresses
from headrace.server.partition_health import offline_replicas, partition_error
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NULL_MEANS_ALL_SINCE: Final = 1
LISTENER_ERRORS_SINCE: Final = 6
IDS_ASKED_SINCE: Final = 12


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Future[MetadataResponse]:
    context.connection.hurry()
    wanted = request.topics
    if wanted is None or (not wanted and context.api_version < NULL_MEANS_ALL_SINCE):
        return context.parts.doubts.settled(
            lambda: _answer(context, request, list(context.parts.image.topics_by_name.values()), []), _leaders
        )
    _check_request(context, wanted)
    missing = _to_make(context, request, wanted)
    if not missing:
        return context.parts.doubts.settled(lambda: _answer_wanted(context, request, wanted, {}), _leaders)
    return _make_then_answer(context, request, wanted, missing)


def _leaders(response: MetadataResponse) -> Iterator[int]:
    return (each.leader_id for topic in response.topics for each in topic.partitions)


def _check_request(context: RequestContext, wanted: Sequence[MetadataRequestTopic]) -> None:
    if context.api_version >= IDS_ASKED_SINCE:
        if any(topic.name is None and topic.topic_id == NO_TOPIC_ID for topic in wanted):
            raise ApiError(ErrorCode.INVALID_REQUEST, "a topic needs a name or an id")
        return
    if any(topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in wanted):
        for topic in wanted:
            # The refusal repeats the names, and these versions cannot repeat a null.
            topic.name = topic.name or ""
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"version {context.api_version} asks for topics by their names"
        )


def _to_make(
    context: RequestContext, request: MetadataRequest, wanted: Sequence[MetadataRequestTopic]
) -> list[str]:
    """The names that are to become topics now."""
    parts = context.parts
    if not request.allow_auto_topic_creation or not parts.config.bool("auto.create.topics.enable"):
        return []
    known = parts.image.topics_by_name
    names = dict.fromkeys(topic.name for topic in wanted if topic.topic_id == NO_TOPIC_ID)
    return [name for name in names if name is not None and name not in known and name_fault(name) is None]


def _make_then_answer(
    context: RequestContext,
    request: MetadataRequest,
    wanted: Sequence[MetadataRequestTopic],
    missing: list[str],
) -> Future[MetadataResponse]:
    parts = context.parts
    answer: Future[MetadataResponse] = parts.loop.create_future()

    def when_made(made: Future[CreateTopicsResponse]) -> None:
        if answer.done():
            return
        if made.cancelled():
            answer.cancel()
            return
        try:
            results = made.result().topics
        except ApiError as error:
            faults = dict.fromkeys(missing, int(error.code))
        else:
            faults = {result.name: _fault(result.error_code) for result in results if result.error_code}
        answer.set_result(_answer_wanted(context, request, wanted, faults))

    creation = CreateTopicsRequest(topics=[automatic_topic(parts.config, name) for name in missing])
    context.controller.create_topics(creation).add_done_callback(when_made)
    return answer


def _fault(code: int) -> int:
    """Why a topic that could not be made is not told of. Another node has it already where this one has not
    heard of it yet: who asks again will hear of it."""
    return ErrorCode.LEADER_NOT_AVAILABLE if code == ErrorCode.TOPIC_ALREADY_EXISTS else code


def _answer_wanted(
    context: RequestContext,
    request: MetadataRequest,
    wanted: Sequence[MetadataRequestTopic],
    faults: dict[str, int],
) -> MetadataResponse:
    """Reply with each topic that was asked for, once; `faults` tells why a topic could not be made."""
    image = context.parts.image
    found: list[TopicImage] = []
    failed: list[MetadataResponseTopic] = []
    for name, topic_id in dict.fromkeys((topic.name, topic.topic_id) for topic in wanted):
        if topic_id != NO_TOPIC_ID:
            topic = image.topics_by_id.get(TopicId(topic_id))
            if topic is None:
                unknown = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
                failed.append(unknown)
                continue
            found.append(topic)
        elif name is not None:
            topic = image.topics_by_name.get(name)
            if topic is None:
                failed.append(_unknown(name, faults.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
                continue
            found.append(topic)
    return _answer(context, request, found, failed)


def _unknown(name: str, code: int) -> MetadataResponseTopic:
    if name_fault(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(code, name=name, is_internal=name in INTERNAL_TOPICS)


def _answer(
    context: RequestContext,
    request: MetadataRequest,
    found: Sequence[TopicImage],
    failed: list[MetadataResponseTopic],
) -> MetadataResponse:
    parts = context.parts
    live = {broker.id for broker in parts.image.brokers.values() if not broker.fenced}
    if request.topics:
        live |= parts.doubts.lingering()
    if request.include_topic_authorized_operations:
        for topic in failed:
            if topic.name is not None:
                topic.topic_authorized_operations = authorized_operations(context, Resource.TOPIC, topic.name)
    operations = NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = authorized_operations(context, Resource.CLUSTER, CLUSTER_NAME)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id, host, port, rack)
            for node_id, host, port, rack in addresses(parts.image, live, context.connection.listener)
        ],
        cluster_id=parts.cluster_id,
        controller_id=parts.node_id,
        topics=[*(_topic(context, request, topic) for topic in found), *failed],
        cluster_authorized_operations=operations,
    )


def _topic(context: RequestContext, request: MetadataRequest, topic: TopicImage) -> MetadataResponseTopic:
    operations = NOT_ASKED_FOR
    if request.include_topic_authorized_operations:
        operations = authorized_operations(context, Resource.TOPIC, topic.name)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(context, index, partition) for index, partition in topic.partitions.items()],
        topic_authorized_operations=operations,
    )


def _partition(context: RequestContext, index: int, partition: PartitionImage) -> MetadataResponsePartition:
    image, listener = context.parts.image, context.connection.listener
    code = partition_error(image, partition, listener)
    if code is ErrorCode.LISTENER_NOT_FOUND and context.api_version < LISTENER_ERRORS_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=-1 if code else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(image, partition, listener),
    )
