"""AddOffsetsToTxn (25), v0-v4: a group's committed offsets join a transaction.

That is the partition of `__consumer_offsets` where the group lives. Before v2 PRODUCER_FENCED is told as
INVALID_PRODUCER_EPOCH. Checks, in order: ids not empty? `__consumer_offsets` there? then the coordinator's
own.
"""

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.futures import completer
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.server.context import RequestContext
from headrace.wire.schemas.add_offsets_to_txn import (
    PRODUCER_FENCED_SINCE,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Future[AddOffsetsToTxnResponse]:
    parts = context.parts
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    home = TopicPartition(OFFSETS_TOPIC, parts.groups.partition_of(request.group_id))
    answer: Future[AddOffsetsToTxnResponse] = parts.loop.create_future()
    complete = completer(answer)

    def done(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        complete(AddOffsetsToTxnResponse(error_code=error))

    owner = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    parts.transactions.add_partitions(request.transactional_id, owner, [home], version=0, done=done)
    return answer
