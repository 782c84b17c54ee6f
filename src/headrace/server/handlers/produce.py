"""Produce (0), v3-v13: append a batch to each of the named partitions.

Checks, in order: topic and partition known? not an internal topic? acks known? a replica here? part of the
transaction that it says (see `server/txn_produce.py`)? then the partition's own (leader here, enough in sync)
and the log's (batch, records, sequence). Every partition has its own result; one that fails does not stop the
others. acks=0 gets no reply, and a failure closes the connection, which is all such a client can notice.
acks=all answers when every in-sync replica has the records, and a topic with `flush.messages` when the disk
has them; or with REQUEST_TIMED_OUT after the request's time-out. v8: errors by record (KIP-467). v10: a
client that asked the wrong node is told the right one (KIP-951). v12: a transaction's first write adds its
partition (KIP-890). v13: topics by id.

What takes long is done in slices (`_finish`): from the first batch on that is large, or when so much was
appended at once. The connection's other requests wait for it, so everything stays in order.
"""

from __future__ import annotations

from asyncio import Future
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import complete_with, completer, then
from headrace.base.ids import TopicId, TopicPartition
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.base.large_memory import LARGE_BYTES
from headrace.log.append import AppendOrigin
from headrace.log.large_write import LargeWrite, LargeWriteError, LogBusyError
from headrace.records.validate import InvalidRecords, LargeBatchError, ProducedBatch, validate_produced
from headrace.replication.partition import ALL_IN_SYNC
from headrace.server.context import NO_REPLY, NoReply, RequestContext
from headrace.server.delayed_produce import DelayedProduce, complete_or_watch
from headrace.server.error_replies import forget_records
from headrace.server.long_requests import Slices
from headrace.server.metadata_cache import LEADER_ERRORS, addresses, leader_of
from headrace.server.txn_produce import (
    NONE_REFUSED,
    HeldVerification,
    Refused,
    UnverifiedError,
    is_transactional,
)
from headrace.wire.schemas.produce import (
    CURRENT_LEADER_SINCE,
    TOPIC_ID_SINCE,
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
Outcome: TypeAlias = Answer | Future[Answer]


class _Left(NamedTuple):
    """A batch that is not appended at once, and the place of its result."""

    topic: TopicProduceData
    data: PartitionProduceData
    results: list[PartitionProduceResponse]
    at: int
    verification: HeldVerification | None


def handle(context: RequestContext, request: ProduceRequest) -> Outcome | Slices[Outcome]:
    """Append everything, then answer, or wait for the replicas."""
    if request.transactional_id is None:
        return _produce(context, request, NONE_REFUSED)
    at_once: list[Outcome | Slices[Outcome]] = []
    later: Future[Answer] | None = None

    def append(request: ProduceRequest, refused: Refused) -> Future[Any] | None:
        if later is None:
            at_once.append(_produce(context, request, refused))
            return None
        return _produce_later(context, request, refused, later)

    context.parts.txn_produce.verify(context, request, append)
    if at_once:
        return at_once[0]
    later = context.parts.loop.create_future()
    return later


def _produce_later(
    context: RequestContext, request: ProduceRequest, refused: Refused, answer: Future[Answer]
) -> Future[Any] | None:
    """Append what had to wait for its transaction's coordinator; a future where that takes long as well."""
    parts = context.parts
    driven: Future[Any] | None = None

    def outcome() -> Outcome:
        nonlocal driven
        result = _produce(context, request, refused, in_frame=False)
        if isinstance(result, GeneratorType):
            driven = parts.large_batches.drive(result)
            return then(driven, lambda outcome: outcome, loop=parts.loop)
        return result  # type: ignore[return-value]

    complete_with(answer, outcome)
    return driven


def _produce(
    context: RequestContext, request: ProduceRequest, refused: Refused, *, in_frame: bool = True
) -> Outcome | Slices[Outcome]:
    delayed: list[DelayedProduce] = []
    left: list[_Left] = []
    responses = []
    appended_bytes = 0
    for topic in request.topic_data:
        name = _name_of(context, topic)
        results: list[PartitionProduceResponse] = []
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, results))
        for data in topic.partition_data:
            if not left and appended_bytes <= LARGE_BYTES:
                try:
                    results.append(_append(context, request, name, data, refused, delayed))
                    appended_bytes += len(data.records or b"")
                    continue
                except ApiError as error:
                    results.append(_refused(context, name, data.index, error))
                    continue
                except (LargeBatchError, LogBusyError):
                    pass
            held = HeldVerification.of(context.parts, name, data)
            left.append(_Left(topic, data, results, len(results), held))
            results.append(PartitionProduceResponse(data.index))
    response = ProduceResponse(responses)
    if not left:
        return _answer(context, request, delayed, response)
    if in_frame:
        context.peer.connection.keep_frame()
    return _finish(context, request, refused, delayed, left, response)


def _answer(
    context: RequestContext, request: ProduceRequest, delayed: list[DelayedProduce], response: ProduceResponse
) -> Outcome:
    if request.acks == 0:
        return _close_on_error(context, response)
    if context.api_version >= CURRENT_LEADER_SINCE:
        _add_leader_hints(context, response)
    if not delayed:
        return response
    answer: Answer = response
    return complete_or_watch(context.parts, request.timeout_ms, delayed, answer, who=context)


def _name_of(context: RequestContext, topic: TopicProduceData) -> str:
    if context.api_version < TOPIC_ID_SINCE:
        return topic.name
    image = context.parts.image.topics_by_id.get(TopicId(topic.topic_id))
    return image.name if image is not None else ""


# -- what takes long -----------------------------------------------------------------------------------------


def _finish(
    context: RequestContext,
    request: ProduceRequest,
    refused: Refused,
    delayed: list[DelayedProduce],
    left: list[_Left],
    response: ProduceResponse,
) -> Slices[Outcome]:
    """Append the rest, batch after batch."""
    memory = [each.data.records or b"" for each in left]
    try:
        for each in left:
            each.results[each.at] = yield from _append_slowly(context, request, each, refused, delayed)
            yield
    finally:
        left.clear()
        forget_records(request)
        context.parts.large_batches.let_go(memory)
    return _answer(context, request, delayed, response)


def _append_slowly(
    context: RequestContext,
    request: ProduceRequest,
    left: _Left,
    refused: Refused,
    delayed: list[DelayedProduce],
) -> Slices[PartitionProduceResponse]:
    """Append one batch, after whatever must be done before: a thread checks it, another one is written, it is
    written itself. Everything else is asked anew each time, since the world goes on meanwhile.
    """
    parts, data = context.parts, left.data
    produced: ProducedBatch | None = None
    write: LargeWrite | None = None
    try:
        while True:
            name = _name_of(context, left.topic)
            try:
                if left.verification is not None:
                    left.verification.check(parts, name)
                return _append(context, request, name, data, refused, delayed, produced)
            except ApiError as error:
                return _refused(context, name, data.index, error)
            except LargeBatchError as error:
                check = partial(
                    validate_produced,
                    data.records or b"",
                    rules=error.rules,
                    now_ms=parts.clock.now_ms(),
                    api_version=context.api_version,
                    at_once=False,
                )
                step: Slices[Any] = parts.large_batches.check(check)
            except LargeWriteError as error:
                write = error.write
                step = write.slices()
            except LogBusyError as error:
                step = _over(parts, error.write)
            try:
                produced = (yield from step) or produced
            except ApiError as error:
                return _refused(context, name, data.index, error)
    finally:
        if write is not None:
            write.abandon()
        if left.verification is not None:
            left.verification.end()


def _over(parts: Parts, write: LargeWrite) -> Slices[None]:
    """Wait until the log takes batches again."""
    over: Future[None] = parts.loop.create_future()
    write.on_over(partial(completer(over), None))
    yield over


# -- one batch -----------------------------------------------------------------------------------------------


def _append(
    context: RequestContext,
    request: ProduceRequest,
    name: str,
    data: PartitionProduceData,
    refused: Refused,
    delayed: list[DelayedProduce],
    produced: ProducedBatch | None = None,
) -> PartitionProduceResponse:
    parts = context.parts
    acks = request.acks
    if not name and context.api_version >= TOPIC_ID_SINCE:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    try:
        partition = parts.replica_manager.find(name, data.index)
    except ApiError as error:
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and (name in INTERNAL_TOPICS or acks not in ACKS):
            raise _wrong_anywhere(name, acks) from None
        raise
    if name in INTERNAL_TOPICS or acks not in ACKS:
        raise _wrong_anywhere(name, acks)
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
        records,
        now_ms=now_ms,
        origin=AppendOrigin.CLIENT,
        acks=acks,
        api_version=context.api_version,
        produced=produced,
    )
    answer = PartitionProduceResponse(
        data.index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset
    )
    end_offset = result.last_offset + 1
    replicated_to = end_offset if acks == ALL_IN_SYNC and not partition.replicated_to(end_offset) else 0
    # `flush.messages`: the disk must have it before the client hears of it.
    durable_to = end_offset if partition.must_flush(now_ms) else 0
    if replicated_to or durable_to:
        delayed.append(DelayedProduce(partition, answer, replicated_to=replicated_to, durable_to=durable_to))
    return answer


def _wrong_anywhere(name: str, acks: int) -> ApiError:
    """Why no node would take it, wherever the partition is: its topic, or else its acks."""
    if name in INTERNAL_TOPICS:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal: clients cannot write to it")
    return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it must be -1, 0 or 1")


def _refused(context: RequestContext, name: str, index: int, error: ApiError) -> PartitionProduceResponse:
    context.parts.request_log.refuse(context.api_key, error.code, error.message, context)
    partition = context.parts.replica_manager.get(TopicPartition(name, index))
    if partition is not None:
        partition.metrics.total_produce_requests += 1
        partition.metrics.failed_produce_requests += 1
    return _failed(context.parts, name, index, error)


def _failed(parts: Parts, name: str, index: int, error: ApiError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index, error.code, -1, -1, -1)
    answer.error_message = error.message
    if isinstance(error, InvalidRecords):
        answer.record_errors = [BatchIndexAndErrorMessage(at, text) for at, text in error.record_errors]
    if error.code not in _WITHOUT_LOG_START and not isinstance(error, UnverifiedError):
        log = parts.replica_manager.find(name, index).log
        answer.log_start_offset = -1 if log is None else log.log_start_offset
    return answer


def _close_on_error(context: RequestContext, response: ProduceResponse) -> NoReply:
    if any(result.error_code for topic in response.responses for result in topic.partition_responses):
        context.peer.connection.abort("a Produce with acks=0 failed")
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
        known = addresses(image, leaders, context.peer.listener)
        response.node_endpoints = [NodeEndpoint(*address) for address in known]
