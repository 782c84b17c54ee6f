"""ListTransactions (66), v0-v2: the transactional ids that this node coordinates (KIP-664).

Filters: by state (unknown ones are told), by producer id; v1: by how long the transaction has been open
(KIP-994); v2: by a pattern of the whole id (KIP-1152), INVALID_REGULAR_EXPRESSION where RE2 cannot read it.
While a partition of `__transaction_state` is loading the list would have holes: COORDINATOR_LOAD_IN_PROGRESS.
"""

from collections.abc import Callable
from itertools import compress
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.consumer.subscription import matching_topics
from headrace.coordinators.txn.transaction_metadata import TITLES, TransactionMetadata
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, in_slices, unless_short
from headrace.wire.schemas.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_BY_TITLE: Final = {title: state for state, title in TITLES.items()}


def handle(
    context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Slices[ListTransactionsResponse]:
    runtime = context.parts.transactions.runtime
    if runtime.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    known = [txn for shard in runtime.shards() for txn in shard.transactions.values()]
    items = len(known) + len(request.state_filters) + len(request.producer_id_filters)
    return unless_short(items, _list(context, request, known))


def _list(
    context: RequestContext, request: ListTransactionsRequest, known: list[TransactionMetadata]
) -> Slices[ListTransactionsResponse]:
    unknown = yield from in_slices(request.state_filters, lambda title: title not in _BY_TITLE)
    is_wanted = _filter(request, context.parts.clock.now_ms())
    found = []
    for first in range(0, max(len(known), 1), SLICE_ITEMS):
        some = [txn for txn in known[first : first + SLICE_ITEMS] if is_wanted(txn)]
        if request.transactional_id_pattern:
            names = matching_topics(request.transactional_id_pattern, [txn.transactional_id for txn in some])
            some = [txn for txn in some if txn.transactional_id in names]
        found += [
            TransactionState(txn.transactional_id, txn.producer_id, txn.state.title)
            for txn in some
            if allows(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, txn.transactional_id)
        ]
        yield
    return ListTransactionsResponse(
        unknown_state_filters=[*compress(request.state_filters, unknown)],
        transaction_states=found,
    )


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[TransactionMetadata], bool]:
    states = {_BY_TITLE[title] for title in request.state_filters if title in _BY_TITLE}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter

    def is_wanted(txn: TransactionMetadata) -> bool:
        if request.state_filters and txn.state not in states:
            return False
        if producer_ids and txn.producer_id not in producer_ids:
            return False
        return duration_ms < 0 or now_ms - txn.start_ms > duration_ms

    return is_wanted
