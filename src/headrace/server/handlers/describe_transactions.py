"""DescribeTransactions (65), v0: what transactional ids are doing (KIP-664).

Checks, in order: id not empty? coordinator here? id known?
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.txn.transaction_metadata import TransactionMetadata
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(context: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(context, each) for each in request.transactional_ids]
    )


def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    try:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        shard = context.parts.transactions.shard_for(transactional_id)
    except ApiError as error:
        return TransactionState(error.code, transactional_id)
    txn = shard.transactions.get(transactional_id)
    if txn is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return TransactionState(
        0,
        transactional_id,
        txn.state.title,
        txn.timeout_ms,
        txn.start_ms,
        txn.producer_id,
        txn.producer_epoch,
        _topics(context, txn),
    )


def _topics(context: RequestContext, txn: TransactionMetadata) -> list[TopicData]:
    """The partitions of the open transaction, as far as the client may know of them."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        if allows(context, Operation.DESCRIBE, Resource.TOPIC, topic):
            topics.setdefault(topic, []).append(index)
    return [TopicData(topic, indexes) for topic, indexes in topics.items()]
