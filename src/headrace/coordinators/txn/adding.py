"""AddPartitionsToTxn's decisions: partitions join a transaction, or are asked whether they have.

The first partition opens the transaction, and its time-out begins to run.
"""

from collections.abc import Collection

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import Owner, Transaction


def add_partitions(
    txn: Transaction | None,
    owner: Owner,
    partitions: Collection[TopicPartition],
    *,
    version: int,
    now_ms: int,
) -> Transaction | None:
    """The transaction with these partitions in it; None where all of them are already."""
    txn = _checked(txn, owner)
    if txn.state is TxnState.ONGOING:
        if txn.owner != txn.writer:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "a prepared transaction can only be ended")
        if txn.partitions.issuperset(partitions):
            return None
    return txn.moved(
        TxnState.ONGOING,
        partitions=txn.partitions.union(partitions),
        start_ms=txn.start_ms if txn.state is TxnState.ONGOING else now_ms,
        update_ms=now_ms,
        version=version,
    )


def verify_partitions(txn: Transaction | None, owner: Owner) -> frozenset[TopicPartition]:
    """The partitions of the owner's open transaction (KIP-890)."""
    return _checked(txn, owner).partitions


def _checked(txn: Transaction | None, owner: Owner) -> Transaction:
    """The transaction, if it is this owner's and not about to end."""
    if txn is None or txn.owner.producer_id != owner.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.owner.epoch != owner.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if txn.state.is_preparing:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return txn
