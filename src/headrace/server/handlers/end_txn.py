"""EndTxn (26), v0-v5: commit or abort a transaction.

Answered when the decision is in the log of its coordinator; the markers follow. Asked again it is answered
again. v5 (KIP-890): the epoch is bumped, and the reply tells who the producer is from now on; an abort is
taken where nothing was added. Before v2 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

Checks, in order: may write under the id? id not empty? coordinator here? producer id and epoch current? the
state one that can end so?
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.txn.coordinator import Ended
from headrace.coordinators.txn.transaction import EPOCH_BUMP_SINCE, Owner
from headrace.server.authority import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE: Final = 2
BUMPS_SINCE: Final = 5


def handle(context: RequestContext, request: EndTxnRequest) -> Future[EndTxnResponse]:
    if not allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    answer: Future[EndTxnResponse] = context.parts.loop.create_future()
    complete = settle(answer)
    context.parts.transactions.end(
        request.transactional_id,
        Owner(request.producer_id, request.producer_epoch),
        commit=request.committed,
        version=EPOCH_BUMP_SINCE if context.api_version >= BUMPS_SINCE else 0,
        done=lambda ended: complete(_response(context, ended)),
    )
    return answer


def _response(context: RequestContext, ended: Ended) -> EndTxnResponse:
    error = ended.error
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_SINCE:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(
        error_code=error, producer_id=ended.owner.producer_id, producer_epoch=ended.owner.epoch
    )
