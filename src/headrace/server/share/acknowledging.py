"""What ShareFetch and ShareAcknowledge have in common: who may ask, and the acknowledgements of a request.

They are taken partition by partition, and answered when all of them are written.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicId
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey
from headrace.server.authority import WORDS
from headrace.server.authorizer import Operation, Resource, allows, is_configured, tell_denied
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, awaited
from headrace.server.request_pieces import split
from headrace.server.share.delayed_share_fetch import find_partition
from headrace.server.share.share_partition import Acknowledgement, type_of
from headrace.server.share.share_partition_manager import SharePartitionManager
from headrace.server.share.share_sessions import PartitionId
from headrace.telemetry.metrics.broker_topic_stats import BrokerTopicMetrics
from headrace.wire.schemas.share_fetch import AcknowledgeType

_NOT_HOSTED: Final = "This server does not host this topic-partition."
"""Kafka's words for a topic or a partition that is not there."""


class AcknowledgeOutcome(NamedTuple):
    """What became of the acknowledgements for one partition."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


Answers = dict[PartitionId, list[Acknowledgement]]
Outcomes = dict[PartitionId, AcknowledgeOutcome]


def enabled_manager(context: RequestContext) -> SharePartitionManager:
    """What leads share partitions here; ApiError where there are no share groups."""
    if not context.parts.groups.share_groups_enabled:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "there are no share groups here: share.version is 0")
    return context.parts.share_groups.manager


def readable_topics(context: RequestContext) -> Callable[[bytes], bool]:
    """Which topics a member may read, by id; one that is unknown is told so."""
    if not is_configured(context.parts.authorizer):
        return lambda topic_id: True

    def may_read(topic_id: bytes) -> bool:
        topic = context.parts.image.topics_by_id.get(TopicId(topic_id))
        if topic is None or allows(context, Operation.READ, Resource.TOPIC, topic.name):
            return True
        tell_denied(context, Operation.READ, Resource.TOPIC, topic.name)
        return False

    return may_read


def why_not_readable(context: RequestContext, topic: str) -> ErrorCode:
    """NONE for a topic that there is, and that the client may read."""
    if not allows(context, Operation.READ, Resource.TOPIC, topic):
        tell_denied(context, Operation.READ, Resource.TOPIC, topic)
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_there = topic in context.parts.image.topics_by_name
    return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check_group_id(group_id: str) -> None:
    """ApiError for no id at all, whoever coordinates it."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


def words_about_offsets(error: ErrorCode) -> str:
    """What administrators are told of a topic or partition."""
    return _NOT_HOSTED if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else WORDS.get(error, error.name)


def answers_of(topics: Iterable[Any]) -> Answers:
    """The acknowledgements in a request, by partition."""
    return {
        (topic.topic_id, partition.partition_index): [
            Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
            for each in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def answers_in_slices(request: Any) -> Slices[Answers]:
    """The same of a request that names many partitions."""
    answers: Answers = {}
    for piece, _ in split(request, ("topics", "partitions"), SLICE_ITEMS):
        answers.update(answers_of(piece.topics))
        yield
    return answers


def check_answers(answers: Iterable[Acknowledgement], *, may_renew: bool) -> None:
    """ApiError where ranges are no ranges, overlap, have another number of types than of offsets, or renew
    locks without the request saying so."""
    expected = -1
    for answer in answers:
        count = answer.last_offset - answer.first_offset + 1
        if count <= 0 or answer.first_offset <= expected or answer.first_offset < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Acknowledgement batches must be in order of offset.")
        if len(answer.types) not in (1, count):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "A batch has one acknowledge type, or one for each offset."
            )
        for number in answer.types:
            if type_of(number) is AcknowledgeType.RENEW and not may_renew:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Locks are renewed, but isRenewAck is not set.")
        expected = answer.last_offset


def acknowledge_all(
    context: RequestContext,
    manager: SharePartitionManager,
    group_id: str,
    member_id: str,
    answers: Answers,
    may_renew: bool,
    may_read: Callable[[bytes], bool],
    done: Callable[[Outcomes], None],
) -> None:
    """Take them all; `done` may be called at once. `may_renew` where the request says that it renews."""
    outcomes: Outcomes = {}
    by_partition: dict[PartitionId, BrokerTopicMetrics] = {}

    def note(partition_id: PartitionId, error: ErrorCode, message: str | None) -> None:
        outcomes[partition_id] = AcknowledgeOutcome(error, message)
        if error is not ErrorCode.NONE and partition_id in by_partition:
            by_partition[partition_id].failed_share_acknowledgement_requests += 1
        if len(outcomes) == len(answers):
            done(outcomes)

    if not answers:
        done(outcomes)
    for partition_id, batches in answers.items():
        try:
            if not may_read(partition_id[0]):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            check_answers(batches, may_renew=may_renew)
            partition = find_partition(context, partition_id)
            metrics = by_partition[partition_id] = partition.metrics
            metrics.total_share_acknowledgement_requests += 1
            led = manager.find_loaded(SharePartitionKey(group_id, *partition_id), partition)
        except ApiError as error:
            note(partition_id, error.code, error.message)
        else:
            manager.acknowledge(led, member_id, batches, lambda *told, at=partition_id: note(at, *told))


def acknowledge_in_slices(
    context: RequestContext,
    manager: SharePartitionManager,
    group_id: str,
    member_id: str,
    answers: Answers,
    may_renew: bool,
    may_read: Callable[[bytes], bool],
) -> Slices[Outcomes]:
    """The same of many partitions."""
    under_way: list[Future[Outcomes]] = []
    left = iter(answers.items())
    while some := dict(islice(left, SLICE_ITEMS)):
        outcomes: Future[Outcomes] = context.parts.loop.create_future()
        acknowledge_all(context, manager, group_id, member_id, some, may_renew, may_read, completer(outcomes))
        under_way.append(outcomes)
        yield
    told: Outcomes = {}
    for outcomes in under_way:
        told.update((yield from awaited(outcomes)))
    return told
