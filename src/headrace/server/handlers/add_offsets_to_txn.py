"""AddOffsetsToTxn (25), v0-v4: a group's committed offsets join a transaction.

That is the partition of `__consumer_offsets` where the group lives. Before v2 PRODUCER_FENCED is told as
INVALID_PRODUCER_EPOCH. Checks, in order: may write under the id, and read as the group? ids not empty?
`__consumer_offsets` there? then the coordinator's own.
"""

from asyncio import Future
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.internal_topics import OFFSETS_TOPIC
from headrace.coordinators.txn.transaction import Owner
from headrace.server.authority import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.pending import settle
from headrace.wire.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE: Final = 2


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Future[AddOffsetsToTxnResponse]:
    parts = context.parts
    if not allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not allows(context, Operation.READ, Resource.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    home = TopicPartition(OFFSETS_TOPIC, parts.groups.partition_of(request.group_id))
    answer: Future[AddOffsetsToTxnResponse] = parts.loop.create_future()
    complete = settle(answer)

    def done(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        complete(AddOffsetsToTxnResponse(error_code=error))

    owner = Owner(request.producer_id, request.producer_epoch)
    parts.transactions.add_partitions(request.transactional_id, owner, [home], version=0, done=done)
    return answer
