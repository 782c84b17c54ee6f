"""ListTransactions (66), v0-v2: the transactional ids that this node coordinates (KIP-664).

Filters: by state (unknown ones are told), by producer id; v1: by how long the transaction has been open
(KIP-994); v2: by a pattern of the whole id (KIP-1152), INVALID_REGULAR_EXPRESSION where RE2 cannot read it.
While a partition of `__transaction_state` is loading the list would have holes: COORDINATOR_LOAD_IN_PROGRESS.
"""

from collections.abc import Callable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.coordinators.group.consumer.patterns import matching
from headrace.coordinators.txn.states import TITLES, TxnState
from headrace.coordinators.txn.transaction import Transaction
from headrace.server.authority import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.wire.schemas.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_BY_TITLE: Final = {title: state for state, title in TITLES.items()}


def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    runtime = context.parts.transactions.runtime
    if runtime.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    is_wanted = _filter(request, context.parts.clock.now_ms())
    found = [txn for machine in runtime.machines() for txn in machine.transactions.values() if is_wanted(txn)]
    if request.transactional_id_pattern:
        names = matching(request.transactional_id_pattern, [txn.transactional_id for txn in found])
        found = [txn for txn in found if txn.transactional_id in names]
    return ListTransactionsResponse(
        unknown_state_filters=[title for title in request.state_filters if title not in _BY_TITLE],
        transaction_states=[
            TransactionState(txn.transactional_id, txn.producer_id, txn.state.title)
            for txn in found
            if allows(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, txn.transactional_id)
        ],
    )


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    states: set[TxnState] = {_BY_TITLE[title] for title in request.state_filters if title in _BY_TITLE}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter

    def is_wanted(txn: Transaction) -> bool:
        if request.state_filters and txn.state not in states:
            return False
        if producer_ids and txn.producer_id not in producer_ids:
            return False
        return duration_ms < 0 or now_ms - txn.start_ms > duration_ms

    return is_wanted
