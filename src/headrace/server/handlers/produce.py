"""Produce (0), v3-v13: append a batch to each of the named partitions.

Checks, in order: topic and partition known? not an internal topic? acks known? part of the transaction that
it says (see `server/txn_produce.py`)? then the partition's own (leader here, enough in sync) and the log's
(batch, records, sequence). Every partition has its own result; one that fails does not stop the others.
acks=0 gets no reply, and a failure closes the connection, which is all such a client can notice. acks=all
answers when every in-sync replica has the records, and a topic with `flush.messages` when the disk has them;
or with REQUEST_TIMED_OUT after the request's time-out. v8: errors by record (KIP-467). v10: a client that
asked the wrong node is told the right one (KIP-951). v12: a transaction's first write adds its partition
(KIP-890). v13: topics by id.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.log.append import Origin
from headrace.records.validate import InvalidRecords
from headrace.replication.partition import ALL_IN_SYNC
from headrace.server.context import NO_REPLY, NoReply, RequestContext
from headrace.server.leader_hints import LEADER_ERRORS, addresses, leader_of
from headrace.server.pending import settle
from headrace.server.produce_waiting import Unsafe, when_safe
from headrace.server.txn_produce import NONE_REFUSED, Refused, UnverifiedError, is_transactional
from headrace.wire.schemas.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from headrace.server.parts import Parts

LEADER_HINTS_SINCE: Final = 10
TOPIC_IDS_SINCE: Final = 13
ACKS: Final = (ALL_IN_SYNC, 1, 0)

# After these a client is not told where the log starts: they are found before, or instead of, the log.
_WITHOUT_LOG_START: Final = LEADER_ERRORS | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


Answer: TypeAlias = ProduceResponse | NoReply
Outcome: TypeAlias = Answer | Future[ProduceResponse]


def handle(context: RequestContext, request: ProduceRequest) -> Outcome | Future[Answer]:
    """Append everything, then answer, or wait for the replicas."""
    if request.transactional_id is None:
        return _produce(context, request, NONE_REFUSED)
    at_once: list[Outcome] = []
    later: list[Future[Answer]] = []

    def append(request: ProduceRequest, refused: Refused) -> None:
        if later:
            _pass_on(later[0], lambda: _produce(context, request, refused))
        else:
            at_once.append(_produce(context, request, refused))

    context.parts.txn_produce.verify(context, request, append)
    if at_once:
        return at_once[0]
    later.append(context.parts.loop.create_future())
    return later[0]


def _pass_on(answer: Future[Answer], produce: Callable[[], Outcome]) -> None:
    """Give a future what an append that came later returns."""
    complete = settle(answer)
    try:
        outcome = produce()
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
        return
    if isinstance(outcome, Future):
        outcome.add_done_callback(lambda done: complete(done.result()))
    else:
        complete(outcome)


def _produce(context: RequestContext, request: ProduceRequest, refused: Refused) -> Outcome:
    unsafe: list[Unsafe] = []
    response = ProduceResponse(
        [_produce_topic(context, request, topic, refused, unsafe) for topic in request.topic_data]
    )
    if request.acks == 0:
        return _close_on_error(context, response)
    if context.api_version >= LEADER_HINTS_SINCE:
        _add_leader_hints(context, response)
    if not unsafe:
        return response
    return when_safe(context.parts, request.timeout_ms, unsafe, response)


def _produce_topic(
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    refused: Refused,
    unsafe: list[Unsafe],
) -> TopicProduceResponse:
    name = topic.name
    if context.api_version >= TOPIC_IDS_SINCE:
        image = context.parts.image.topics_by_id.get(TopicId(topic.topic_id))
        name = image.name if image is not None else ""
    results = []
    for data in topic.partition_data:
        try:
            results.append(_append(context, request, name, data, refused, unsafe))
        except ApiError as error:
            results.append(_failed(context.parts, name, data.index, error))
    return TopicProduceResponse(topic.name, topic.topic_id, results)


def _append(
    context: RequestContext,
    request: ProduceRequest,
    name: str,
    data: PartitionProduceData,
    refused: Refused,
    unsafe: list[Unsafe],
) -> PartitionProduceResponse:
    parts = context.parts
    acks = request.acks
    if not name and context.api_version >= TOPIC_IDS_SINCE:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = parts.replicas.find(name, data.index)
    if name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal: clients cannot write to it")
    if acks not in ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it must be -1, 0 or 1")
    records = b"" if data.records is None else data.records
    if request.transactional_id is None and is_transactional(data):
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch without a transactional id",
        )
    if refused:
        refusal = refused.get(TopicPartition(name, data.index))
        if refusal is not None:
            raise refusal
    now_ms = parts.clock.now_ms()
    result = partition.append(
        records, now_ms=now_ms, origin=Origin.CLIENT, acks=acks, api_version=context.api_version
    )
    answer = PartitionProduceResponse(
        data.index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset
    )
    end_offset = result.last_offset + 1
    replicated_to = end_offset if acks == ALL_IN_SYNC and not partition.replicated_to(end_offset) else 0
    # `flush.messages`: the disk must have it before the client hears of it.
    durable_to = end_offset if partition.must_flush(now_ms) else 0
    if replicated_to or durable_to:
        unsafe.append(Unsafe(partition, answer, replicated_to=replicated_to, durable_to=durable_to))
    return answer


def _failed(parts: Parts, name: str, index: int, error: ApiError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index, error.code, -1, -1, -1)
    answer.error_message = error.message
    if isinstance(error, InvalidRecords):
        answer.record_errors = [BatchIndexAndErrorMessage(at, text) for at, text in error.record_errors]
    if error.code not in _WITHOUT_LOG_START and not isinstance(error, UnverifiedError):
        log = parts.replicas.find(name, index).log
        answer.log_start_offset = -1 if log is None else log.log_start_offset
    return answer


def _close_on_error(context: RequestContext, response: ProduceResponse) -> NoReply:
    if any(result.error_code for topic in response.responses for result in topic.partition_responses):
        context.connection.connection.abort("a Produce with acks=0 failed")
    return NO_REPLY


def _add_leader_hints(context: RequestContext, response: ProduceResponse) -> None:
    image = context.parts.image
    leaders = set()
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code in LEADER_ERRORS:
                leader = leader_of(image, topic.name, topic.topic_id, result.index)
                if leader is not None:
                    result.current_leader = LeaderIdAndEpoch(*leader)
                    leaders.add(leader.id)
    if leaders:
        known = addresses(image, leaders, context.connection.listener)
        response.node_endpoints = [NodeEndpoint(*address) for address in known]
