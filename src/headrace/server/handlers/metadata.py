"""Metadata (3), v0-v13: the brokers, and topics with their partitions and leaders.

Which topics: in v0 an empty list means all; from v1 on null means all and an empty list none. v10 answers
with topic ids, v12 is asked by them (KIP-516). An unknown name is made a topic where client (v4) and
auto.create.topics.enable allow it, and the reply waits until it is there, where Apache Kafka has the client
ask again. v5 tells offline replicas, v7 leader epochs (KIP-320), v8 what the client may do (KIP-430; the
cluster's bits only up to v10).

The controller that is named is the asked node: whichever broker gets a request for the controller passes it
on. Where all topics are asked for, those that may not be described are left out. Errors of a topic:
TOPIC_AUTHORIZATION_FAILED (whether it exists or not), UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
INVALID_TOPIC_EXCEPTION; of a partition: LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND (from v6 on).

An answer that would name a leader whose process may just have ended waits for the next one
(`server/suspected_brokers.py`).

A reply about many partitions is made in slices, from what was written for others who asked the same
(`server/metadata_replies.py`).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import then
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.metadata.topic_names import name_fault
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.server.authorizer import (
    CLUSTER_NAME,
    NOT_ASKED_FOR,
    Operation,
    Resource,
    allows,
    authorized_cluster_operations,
    authorized_operations,
    is_configured,
    tell_denied,
)
from headrace.server.automatic_topics import automatic_topic
from headrace.server.context import PreparedReply, RequestContext
from headrace.server.long_requests import SHORT_ITEMS, SLICE_ITEMS, Slices
from headrace.server.metadata_cache import addresses, offline_replicas, partition_error
from headrace.server.metadata_replies import MetadataForm, Telling
from headrace.wire.schemas.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.schemas.metadata import (
    FETCH_BY_TOPIC_ID_SINCE,
    LISTENER_NOT_FOUND_SINCE,
    NULL_IS_ALL_TOPICS_SINCE,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Answer = MetadataResponse | PreparedReply
Outcome = Answer | Future[Any]


def handle(context: RequestContext, request: MetadataRequest) -> Outcome | Slices[Outcome]:
    context.peer.release_long_polls()
    wanted = request.topics
    if wanted is None or (not wanted and context.api_version < NULL_IS_ALL_TOPICS_SINCE):
        return _all_topics(context, request)
    if _are_many(context, wanted):
        return _answer_many(context, request, wanted)
    _check_request(context, wanted)
    missing = _to_make(context, request, wanted)
    if not missing:
        return context.parts.suspected_brokers.settled(
            lambda: _answer_wanted(context, request, wanted, {}), _leaders
        )
    return _make_then_answer(context, request, wanted, missing)


def _leaders(response: Answer) -> Iterable[int]:
    if isinstance(response, PreparedReply):
        return response.leaders
    return (each.leader_id for topic in response.topics for each in topic.partitions)


# Many topics or partitions


def _are_long(topics: Iterable[TopicImage]) -> bool:
    left = SHORT_ITEMS
    for topic in topics:
        left -= 1 + len(topic.partitions)
        if left < 0:
            return True
    return False


def _are_many(context: RequestContext, wanted: Sequence[MetadataRequestTopic]) -> bool:
    """Whether the reply is long, by the request or by what is there."""
    if len(wanted) > SHORT_ITEMS:
        return True
    image = context.parts.image
    found = (
        image.topics_by_name.get(topic.name or "") or image.topics_by_id.get(TopicId(topic.topic_id))
        for topic in wanted
    )
    return _are_long(topic for topic in found if topic is not None)


def _all_topics(context: RequestContext, request: MetadataRequest) -> Outcome | Slices[Outcome]:
    image, suspected = context.parts.image, context.parts.suspected_brokers
    if not _are_long(image.topics_by_name.values()):
        return suspected.settled(lambda: _answer(context, request, _visible(context), []), _leaders)
    if is_configured(context.parts.authorizer):
        visible = _visible(context)
        if len(visible) < len(image.topics_by_name):
            return _answer_found(context, request, visible, [])
    if request.include_topic_authorized_operations or request.include_cluster_authorized_operations:
        return _answer_slowly(context, request, list(image.topics_by_name.values()), [])
    form, telling = _form(context), _telling(context, request)

    def without_topics() -> MetadataResponse:
        return _without_topics(context, request)

    def now() -> PreparedReply:
        return _form(context).now(image, without_topics, telling)

    def prepare() -> Slices[Outcome]:
        yield from form.prepare(context.parts.loop, image, without_topics, telling)
        return suspected.settled(now, _leaders)

    return prepare() if form.whole(image) is None else suspected.settled(now, _leaders)


def _visible(context: RequestContext) -> list[TopicImage]:
    """All topics that the client may look at: of the others it hears nothing."""
    topics = context.parts.image.topics_by_name.values()
    if not is_configured(context.parts.authorizer):
        return list(topics)
    return [topic for topic in topics if _may_describe(context, topic.name)]


def _may_describe(context: RequestContext, name: str) -> bool:
    return allows(context, Operation.DESCRIBE, Resource.TOPIC, name)


def _may_create(context: RequestContext, name: str) -> bool:
    return allows(context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME) or allows(
        context, Operation.CREATE, Resource.TOPIC, name
    )


def _form(context: RequestContext) -> MetadataForm:
    parts = context.parts
    return parts.metadata_replies.form(parts.image, context.api_version, context.peer.listener)


def _answer_many(
    context: RequestContext, request: MetadataRequest, wanted: Sequence[MetadataRequestTopic]
) -> Slices[Outcome]:
    """The same as for few, in slices."""
    for first in range(0, len(wanted), SLICE_ITEMS):
        _check_request(context, wanted[first : first + SLICE_ITEMS])
        yield
    once = yield from _each_once(wanted)
    missing = []
    for first in range(0, len(once), SLICE_ITEMS):
        missing += _to_make(context, request, once[first : first + SLICE_ITEMS])
        yield
    if missing:
        return _make_then_answer(context, request, once, missing)
    found: list[TopicImage] = []
    failed: list[MetadataResponseTopic] = []
    for first in range(0, len(once), SLICE_ITEMS):
        _look_up(context, once[first : first + SLICE_ITEMS], {}, found, failed)
        yield
    return (yield from _answer_found(context, request, found, failed))


def _answer_found(
    context: RequestContext,
    request: MetadataRequest,
    found: list[TopicImage],
    failed: list[MetadataResponseTopic],
) -> Slices[Outcome]:
    if failed or request.include_topic_authorized_operations or request.include_cluster_authorized_operations:
        return (yield from _answer_slowly(context, request, found, failed))
    reply = yield from _form(context).reply(
        _without_topics(context, request), found, _telling(context, request)
    )
    return context.parts.suspected_brokers.settled(lambda: reply, _leaders)


def _each_once(wanted: Sequence[MetadataRequestTopic]) -> Slices[list[MetadataRequestTopic]]:
    seen: set[str | bytes | None] = set()
    once = []
    for number, topic in enumerate(wanted, 1):
        if not number % SLICE_ITEMS:
            yield
        key = topic.name if topic.topic_id == NO_TOPIC_ID else topic.topic_id
        if key not in seen:
            seen.add(key)
            once.append(topic)
    return once


def _answer_slowly(
    context: RequestContext,
    request: MetadataRequest,
    found: Sequence[TopicImage],
    failed: list[MetadataResponseTopic],
) -> Slices[Outcome]:
    telling = _telling(context, request)
    topics = []
    for topic in found:
        topics.append((yield from telling(topic)))
        yield
    if request.include_topic_authorized_operations:
        for first in range(0, len(failed), SLICE_ITEMS):
            _add_operations(context, failed[first : first + SLICE_ITEMS])
            yield
    response = _without_topics(context, request)
    response.topics = [*topics, *failed]
    return context.parts.suspected_brokers.settled(lambda: response, _leaders)


def _telling(context: RequestContext, request: MetadataRequest) -> Telling:
    def tell(topic: TopicImage) -> Slices[MetadataResponseTopic]:
        partitions = dict(topic.partitions)
        told = _topic(context, request, TopicImage(topic.name, topic.id, {}))
        rest = iter(partitions.items())
        while some := list(islice(rest, SLICE_ITEMS)):
            told.partitions += [_partition(context, index, partition) for index, partition in some]
            if len(some) == SLICE_ITEMS:
                yield
        return told

    return tell


def _check_request(context: RequestContext, wanted: Sequence[MetadataRequestTopic]) -> None:
    if context.api_version >= FETCH_BY_TOPIC_ID_SINCE:
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
    """The names that are to become topics now, if the client may make them."""
    parts = context.parts
    if not request.allow_auto_topic_creation or not parts.config.bool("auto.create.topics.enable"):
        return []
    known = parts.image.topics_by_name
    names = dict.fromkeys(topic.name for topic in wanted if topic.topic_id == NO_TOPIC_ID)
    missing = [name for name in names if name is not None and name not in known]
    return [name for name in missing if name_fault(name) is None and _may_describe(context, name)]


def _make_then_answer(
    context: RequestContext,
    request: MetadataRequest,
    wanted: Sequence[MetadataRequestTopic],
    missing: list[str],
) -> Future[MetadataResponse]:
    parts = context.parts
    barred = {
        name: int(ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in missing if not _may_create(context, name)
    }
    if len(barred) == len(missing):
        answer: Future[MetadataResponse] = parts.loop.create_future()
        answer.set_result(_answer_wanted(context, request, wanted, barred))
        return answer

    def when_made(made: CreateTopicsResponse) -> MetadataResponse:
        faults = {result.name: _fault(result.error_code) for result in made.topics if result.error_code}
        return _answer_wanted(context, request, wanted, faults | barred)

    def when_refused(error: BaseException) -> MetadataResponse:
        if not isinstance(error, ApiError):
            raise error
        return _answer_wanted(context, request, wanted, dict.fromkeys(missing, int(error.code)) | barred)

    creation = CreateTopicsRequest(
        topics=[automatic_topic(parts.config, name) for name in missing if name not in barred]
    )
    return then(context.controller.ask(creation), when_made, on_error=when_refused, loop=parts.loop)


def _fault(code: int) -> int:
    """Why a topic that could not be made is not told of. Another node has it already where this one has not
    heard of it yet: a client that asks again will hear of it."""
    return ErrorCode.LEADER_NOT_AVAILABLE if code == ErrorCode.TOPIC_ALREADY_EXISTS else code


def _answer_wanted(
    context: RequestContext,
    request: MetadataRequest,
    wanted: Sequence[MetadataRequestTopic],
    faults: dict[str, int],
) -> MetadataResponse:
    """Reply with each topic that was asked for, once; `faults` tells why a topic could not be made."""
    found: list[TopicImage] = []
    failed: list[MetadataResponseTopic] = []
    _look_up(context, wanted, faults, found, failed)
    return _answer(context, request, found, failed)


def _look_up(
    context: RequestContext,
    wanted: Sequence[MetadataRequestTopic],
    faults: dict[str, int],
    found: list[TopicImage],
    failed: list[MetadataResponseTopic],
) -> None:
    image = context.parts.image
    for name, topic_id in dict.fromkeys((topic.name, topic.topic_id) for topic in wanted):
        if topic_id != NO_TOPIC_ID:
            topic = image.topics_by_id.get(TopicId(topic_id))
            if topic is None:
                unknown = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
                failed.append(unknown)
            elif _may_describe(context, topic.name):
                found.append(topic)
            else:
                failed.append(_refused(context, topic.name, name=None, topic_id=topic_id))
        elif name is not None:
            if not _may_describe(context, name):
                failed.append(_refused(context, name, name=name))
                continue
            topic = image.topics_by_name.get(name)
            if topic is None:
                failed.append(_unknown(name, faults.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
                continue
            found.append(topic)


def _refused(
    context: RequestContext, topic: str, *, name: str | None, topic_id: bytes = NO_TOPIC_ID
) -> MetadataResponseTopic:
    """Says nothing of a topic, not even whether it exists, but what the client knows already."""
    tell_denied(context, Operation.DESCRIBE, Resource.TOPIC, topic)
    return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id)


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
    response = _without_topics(context, request)
    if request.include_topic_authorized_operations:
        _add_operations(context, failed)
    response.topics = [*(_topic(context, request, topic) for topic in found), *failed]
    return response


def _add_operations(context: RequestContext, failed: Sequence[MetadataResponseTopic]) -> None:
    for topic in failed:
        if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topic.topic_authorized_operations = authorized_operations(context, Resource.TOPIC, topic.name)


def _without_topics(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    parts = context.parts
    live = {broker.id for broker in parts.image.brokers.values() if not broker.fenced}
    if request.topics:
        live |= parts.suspected_brokers.lingering()
    operations = NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = authorized_cluster_operations(context)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id, host, port, rack)
            for node_id, host, port, rack in addresses(parts.image, live, context.peer.listener)
        ],
        cluster_id=parts.cluster_id,
        controller_id=parts.node_id,
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
    image, listener = context.parts.image, context.peer.listener
    code = partition_error(image, partition, listener)
    if code is ErrorCode.LISTENER_NOT_FOUND and context.api_version < LISTENER_NOT_FOUND_SINCE:
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
