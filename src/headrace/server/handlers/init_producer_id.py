"""InitProducerId (22), v0-v5: an id for an idempotent producer (KIP-98).

Ids come from the block that the controller gave this broker (KIP-730); the epoch of a new id is 0. A
producer that has an id and lost its way (v3, KIP-360) gets a new one. Transactions have no coordinator
here: a transactional id is refused with UNSUPPORTED_VERSION, which producers take as final, where a
retriable error would have them wait for nothing.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Future[InitProducerIdResponse]:
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "this node has no coordinator for transactions")
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch go together")
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
