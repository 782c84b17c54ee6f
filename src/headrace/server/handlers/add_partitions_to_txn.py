"""AddPartitionsToTxn (24), v0-v5: partitions join a transaction.

Until v3 clients ask, for one transaction, and all of its partitions are added or none: where one of them is
refused, the others were not attempted. From v4 on brokers ask, for several transactions, before they take the
first records of one (KIP-890): to add a partition, or only to verify that the client has. Before v2
PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

Checks, in order: topics and partitions known, not
internal, and may be written to? then the coordinator's own: id known, producer id and epoch current,
transaction not about to end?
"""

from asyncio import Future
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from headrace.base.error_codes import ErrorCode
from headrace.base.futures import completer
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import INTERNAL_TOPICS
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.txn.transaction_metadata import EPOCH_BUMP_SINCE
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, awaited
from headrace.server.request_pieces import answered_in_pieces, join, split
from headrace.server.txn_partitions import verified
from headrace.wire.schemas.add_partitions_to_txn import (
    BROKER_SINCE,
    PRODUCER_FENCED_SINCE,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

Errors = Mapping[TopicPartition, ErrorCode]
Answer = AddPartitionsToTxnResponse | Future[AddPartitionsToTxnResponse]
Done = Callable[[Errors], None]


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> Answer:
    if context.api_version < BROKER_SINCE:
        return _add_for_client(context, request)
    return _serve_broker(context, request)


def handle_in_slices(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Slices[AddPartitionsToTxnResponse]:
    """The same of many partitions, which are still added together, or of many transactions."""
    if context.api_version < BROKER_SINCE:
        return _add_for_client_in_slices(context, request)
    return _serve_broker_in_slices(context, request)


# --- clients ------------------------------------------------------------------------------------------------


def _add_for_client(context: RequestContext, request: AddPartitionsToTxnRequest) -> Answer:
    topics = request.v3_and_below_topics
    wanted = _partitions_of(topics)
    refused = {each: error for each in wanted if (error := _check(context, each))}
    if refused:
        return _to_client(topics, dict.fromkeys(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused)
    if not request.v3_and_below_transactional_id:
        return _to_client(topics, dict.fromkeys(wanted, ErrorCode.INVALID_REQUEST))
    answer: Future[AddPartitionsToTxnResponse] = context.parts.loop.create_future()
    complete = completer(answer)
    _add(context, request, wanted, lambda error: complete(_to_client(topics, dict.fromkeys(wanted, error))))
    return answer


def _add_for_client_in_slices(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Slices[AddPartitionsToTxnResponse]:
    wanted: dict[TopicPartition, ErrorCode] = {}
    is_refused = False
    for piece, _ in split(request, ("v3_and_below_topics", "partitions"), SLICE_ITEMS):
        for each in _partitions_of(piece.v3_and_below_topics):
            error = _check(context, each)
            is_refused = is_refused or error is not ErrorCode.NONE
            wanted[each] = error or ErrorCode.OPERATION_NOT_ATTEMPTED
        yield
    if not is_refused and request.v3_and_below_transactional_id:
        answer: Future[ErrorCode] = context.parts.loop.create_future()
        _add(context, request, wanted, completer(answer))
        wanted = dict.fromkeys(wanted, (yield from awaited(answer)))
    elif not is_refused:
        wanted = dict.fromkeys(wanted, ErrorCode.INVALID_REQUEST)
    return (
        yield from answered_in_pieces(
            request,
            "v3_and_below_topics.partitions",
            lambda piece: _to_client(piece.v3_and_below_topics, wanted),
        )
    )


def _add(
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
    wanted: Collection[TopicPartition],
    done: Callable[[ErrorCode], None],
) -> None:
    def told(error: ErrorCode) -> None:
        is_old = error is ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE
        done(ErrorCode.INVALID_PRODUCER_EPOCH if is_old else error)

    context.parts.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        wanted,
        version=0,
        done=told,
    )


def _check(context: RequestContext, wanted: TopicPartition) -> ErrorCode:
    topic, index = wanted
    if topic in INTERNAL_TOPICS or not allows(context, Operation.WRITE, Resource.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.parts.image.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _to_client(topics: Iterable[AddPartitionsToTxnTopic], errors: Errors) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(topics, errors))


# --- brokers ------------------------------------------------------------------------------------------------


def _serve_broker(context: RequestContext, request: AddPartitionsToTxnRequest) -> Answer:
    answer: Future[AddPartitionsToTxnResponse] = context.parts.loop.create_future()
    complete = completer(answer)
    response = AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(asked.transactional_id) for asked in request.transactions
        ]
    )
    left = len(request.transactions)
    if not left:
        return response

    def note(at: int, errors: Errors) -> None:
        nonlocal left
        left -= 1
        results = _topic_results(request.transactions[at].topics, errors)
        response.results_by_transaction[at].topic_results = results
        if not left:
            complete(response)

    for at, asked in enumerate(request.transactions):
        _serve_one(context, asked, partial(note, at))
    return answer


def _serve_broker_in_slices(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> Slices[AddPartitionsToTxnResponse]:
    under_way = []
    for piece, _ in split(request, ("transactions",), SLICE_ITEMS):
        under_way.append(_serve_broker(context, piece))
        yield
    response = AddPartitionsToTxnResponse()
    for answer in under_way:
        join(response, (yield from awaited(answer)), 0)
    return response


def _serve_one(context: RequestContext, asked: AddPartitionsToTxnTransaction, done: Done) -> None:
    wanted = _partitions_of(asked.topics)
    owner = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    transactions = context.parts.transactions
    if not asked.transactional_id:
        done(dict.fromkeys(wanted, ErrorCode.INVALID_REQUEST))
    elif asked.verify_only:
        transactions.verify_partitions(
            asked.transactional_id, owner, lambda error, found: done(verified(wanted, error, found))
        )
    else:
        transactions.add_partitions(
            asked.transactional_id,
            owner,
            wanted,
            version=EPOCH_BUMP_SINCE,
            done=lambda error: done(dict.fromkeys(wanted, error)),
        )


def _partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _topic_results(
    topics: Iterable[AddPartitionsToTxnTopic], errors: Errors
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, errors[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
