"""InitProducerId (22), v0-v6: an id for an idempotent producer, or a new user of a transactional id (KIP-98).

Without a transactional id, ids come from the block that the controller gave this broker (KIP-730); the epoch
of a new id is 0, and a producer that has an id and lost its way (v3, KIP-360) gets a new one.

With one, its coordinator fences who used it before and aborts what that one left open, with
CONCURRENT_TRANSACTIONS until that is done. v6: two-phase commit (KIP-939), where the cluster allows it: the
producer's transactions have no time-out, and `keep_prepared_txn` leaves an open transaction as it is, to be
ended by the new user. Before v4 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

Checks, in order: may write under the id? id not empty? producer id and epoch given together? two-phase commit
allowed? time-out within `transaction.max.timeout.ms`? then the coordinator's own.
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.txn.beginning import InitWish
from headrace.coordinators.txn.coordinator import Begun
from headrace.coordinators.txn.transaction import NEVER_MS, Owner
from headrace.server.authority import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE: Final = 4

Answer = InitProducerIdResponse | Future[InitProducerIdResponse]


def handle(context: RequestContext, request: InitProducerIdRequest) -> Answer:
    if request.transactional_id is not None:
        return _begin_use(context, request, request.transactional_id)
    _check_pair(request)
    taken = context.parts.producer_ids.take()
    if isinstance(taken, int):
        return InitProducerIdResponse(producer_id=taken)
    answer: Future[InitProducerIdResponse] = context.parts.loop.create_future()
    complete = settle(answer)

    def when_taken(done: Future[int]) -> None:
        if done.exception() is not None:
            # As Kafka has it: the producer asks again soon.
            complete(
                InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1)
            )
        else:
            complete(InitProducerIdResponse(producer_id=done.result()))

    taken.add_done_callback(when_taken)
    return answer


def _check_pair(request: InitProducerIdRequest) -> None:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch go together")


def _begin_use(context: RequestContext, request: InitProducerIdRequest, transactional_id: str) -> Answer:
    parts = context.parts
    if not allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    _check_pair(request)
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    if request.enable_2pc:
        _check_two_phase_commit(context, transactional_id)
    elif not 0 < request.transaction_timeout_ms <= parts.config.int("transaction.max.timeout.ms"):
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    wish = InitWish(
        transactional_id=transactional_id,
        timeout_ms=NEVER_MS if request.enable_2pc else request.transaction_timeout_ms,
        expected=None if request.producer_id < 0 else Owner(request.producer_id, request.producer_epoch),
        keep_prepared=request.keep_prepared_txn,
    )
    answer: Future[InitProducerIdResponse] = parts.loop.create_future()
    complete = settle(answer)
    parts.transactions.begin_use(wish, lambda begun: complete(_response(context, begun)))
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


def _response(context: RequestContext, begun: Begun) -> InitProducerIdResponse:
    error = begun.error
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_SINCE:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(
        error_code=error,
        producer_id=begun.owner.producer_id,
        producer_epoch=begun.owner.epoch,
        ongoing_txn_producer_id=begun.ongoing.producer_id,
        ongoing_txn_producer_epoch=begun.ongoing.epoch,
    )
