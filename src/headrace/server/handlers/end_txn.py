"""EndTxn (26), v0-v5: commit or abort a transaction.

Answered when the decision is in the log of its coordinator; the markers follow. Asked again it is answered
again. v5 (KIP-890): the epoch is bumped, and the reply tells who the producer is from now on; an abort is
taken where nothing was added. Before v2 PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH.

Checks, in order: id not empty? coordinator here? producer id and epoch current? the
state one that can end so?
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.drivers.transaction_coordinator import EndTxnResult
from headrace.coordinators.txn.transaction_metadata import EPOCH_BUMP_SINCE
from headrace.server.context import RequestContext
from headrace.wire.schemas.end_txn import (
    PRODUCER_FENCED_SINCE,
    TRANSACTION_V2_SINCE,
    EndTxnRequest,
    EndTxnResponse,
)


def handle(context: RequestContext, request: EndTxnRequest) -> Future[EndTxnResponse]:
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    answer: Future[EndTxnResponse] = context.parts.loop.create_future()
    complete = completer(answer)
    context.parts.transactions.end_transaction(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        version=EPOCH_BUMP_SINCE if context.api_version >= TRANSACTION_V2_SINCE else 0,
        done=lambda result: complete(_response(context, result)),
    )
    return answer


def _response(context: RequestContext, result: EndTxnResult) -> EndTxnResponse:
    error = result.error
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(
        error_code=error, producer_id=result.owner.producer_id, producer_epoch=result.owner.epoch
    )
