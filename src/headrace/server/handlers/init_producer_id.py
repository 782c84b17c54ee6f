"""InitProducerId (22), v0-v6: an id for an idempotent producer, or a new user of a transactional id (KIP-98).

Without a transactional id, ids come from the block that the controller gave this broker (KIP-730); the epoch
of a new id is 0, and a producer that has an id and lost its way (v3, KIP-360) gets a new one.

With one, its coordinator fences who used it before and aborts what that one left open, with
CONCURRENT_TRANSACTIONS until that is done. v6: two-phase commit (KIP-939), where the cluster allows it: the
producer's transactions have no time-out, and `keep_prepared_txn` leaves an open transaction as it is, to be
ended by the new user. Before v4 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

Checks, in order: id not empty? producer id and epoch given together? two-phase commit
allowed? time-out within `transaction.max.timeout.ms`? then the coordinator's own.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer, then
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.drivers.transaction_coordinator import InitProducerIdResult
from headrace.coordinators.txn.transaction_metadata import NEVER_MS
from headrace.coordinators.txn.transitions import InitProducerIdParams
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.wire.schemas.init_producer_id import (
    PRODUCER_FENCED_SINCE,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

Answer = InitProducerIdResponse | Future[InitProducerIdResponse]


def handle(context: RequestContext, request: InitProducerIdRequest) -> Answer:
    if request.transactional_id is not None:
        return _begin_use(context, request, request.transactional_id)
    _check_pair(request)
    taken = context.parts.producer_ids.take()
    if isinstance(taken, int):
        return InitProducerIdResponse(producer_id=taken)
    # Where there are none, as Kafka has it: the producer asks again soon.
    return then(
        taken,
        lambda producer_id: InitProducerIdResponse(producer_id=producer_id),
        on_error=lambda _: InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1
        ),
        loop=context.parts.loop,
    )


def _check_pair(request: InitProducerIdRequest) -> None:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch go together")


def _begin_use(context: RequestContext, request: InitProducerIdRequest, transactional_id: str) -> Answer:
    parts = context.parts
    _check_pair(request)
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    if request.enable_2pc:
        _check_two_phase_commit(context, transactional_id)
    elif not 0 < request.transaction_timeout_ms <= parts.config.int("transaction.max.timeout.ms"):
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    params = InitProducerIdParams(
        transactional_id=transactional_id,
        timeout_ms=NEVER_MS if request.enable_2pc else request.transaction_timeout_ms,
        expected=None
        if request.producer_id < 0
        else ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        keep_prepared=request.keep_prepared_txn,
    )
    answer: Future[InitProducerIdResponse] = parts.loop.create_future()
    complete = completer(answer)
    parts.transactions.init_producer_id(params, lambda result: complete(_response(context, result)))
    return answer


def _check_two_phase_commit(context: RequestContext, transactional_id: str) -> None:
    """Transactions without a time-out can hold up readers for ever: the cluster must allow them, and the
    user must be trusted."""
    allowed = context.parts.config.bool("transaction.two.phase.commit.enable") and allows(
        context, Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, transactional_id
    )
    if not allowed:
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "two-phase commit is not allowed: see transaction.two.phase.commit.enable",
        )


def _response(context: RequestContext, result: InitProducerIdResult) -> InitProducerIdResponse:
    error = result.error
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(
        error_code=error,
        producer_id=result.owner.producer_id,
        producer_epoch=result.owner.epoch,
        ongoing_txn_producer_id=result.ongoing.producer_id,
        ongoing_txn_producer_epoch=result.ongoing.epoch,
    )
