"""EndTxn's decisions: commit or abort, told once or told again.

By the rules of transaction.version 2 (KIP-890) every end bumps the epoch: the markers carry the new one, so
no write of this transaction can land in the next, and a repeated EndTxn is known by the epoch before. An
abort is taken even where nothing was added, for a producer that does not know what arrived. Before that
version the epoch stays, and a repetition is known by the state alone.

The markers of an exhausted producer id carry its largest epoch; the producer goes on under a new id.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.txn.beginning import FIRST_EPOCH, given
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import (
    EPOCH_BUMP_SINCE,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    Owner,
    Transaction,
)


def end(
    txn: Transaction | None, owner: Owner, *, commit: bool, version: int, new_id: int | None, now_ms: int
) -> Transaction | None:
    """The transaction about to end; None where it has ended so before, and the owner asked again."""
    if txn is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version < EPOCH_BUMP_SINCE:
        return _end_in_its_epoch(txn, owner, commit, now_ms)
    return _end_with_bump(txn, owner, commit, new_id, now_ms)


def abort_fenced(fenced: Transaction, *, version: int, now_ms: int) -> Transaction:
    """The abort that follows a fence, by which the epoch was bumped."""
    return fenced.moved(TxnState.PREPARE_ABORT, update_ms=now_ms, version=version)


def complete(txn: Transaction, *, now_ms: int) -> Transaction:
    """All partitions have their markers."""
    is_commit = txn.state is TxnState.PREPARE_COMMIT
    done = txn.moved(
        TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT,
        partitions=frozenset(),
        update_ms=now_ms,
    )
    if txn.next_producer_id == NO_ID:
        return done
    after = owner_after(txn)
    return done.with_owner(after, previous_producer_id=txn.producer_id)


def owner_after(txn: Transaction) -> Owner:
    """Who its producer is once the transaction has ended."""
    if txn.next_producer_id == NO_ID:
        return txn.writer
    return Owner(txn.next_producer_id, max(txn.next_producer_epoch, FIRST_EPOCH))


def _end_in_its_epoch(txn: Transaction, owner: Owner, commit: bool, now_ms: int) -> Transaction | None:
    if txn.owner.producer_id != owner.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.owner.epoch != owner.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if txn.state is TxnState.ONGOING:
        return _decided(txn, commit, owner.epoch, now_ms=now_ms, version=0)
    if txn.state is _preparing(commit):
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is _completed(commit):
        return None
    raise _invalid(txn, commit)


def _end_with_bump(
    txn: Transaction, owner: Owner, commit: bool, new_id: int | None, now_ms: int
) -> Transaction | None:
    is_retry = _is_retry(txn, owner)
    is_retry_of_rotation = (
        owner.producer_id == txn.previous_producer_id != txn.producer_id
        and owner.epoch == EPOCH_MAX - 1
        and txn.producer_epoch == FIRST_EPOCH
    )
    if owner.producer_id != txn.owner.producer_id and not is_retry and not is_retry_of_rotation:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.state.is_preparing:
        is_valid = is_retry
    elif txn.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
        is_valid = is_retry or is_retry_of_rotation or owner == txn.owner
    else:
        is_valid = owner == txn.owner
    if not is_valid:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if txn.state is _preparing(commit):
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_retry or is_retry_of_rotation:
        if txn.state is _completed(commit):
            return None
        raise _invalid(txn, commit)
    if txn.state is TxnState.ONGOING:
        return _bumped(txn, commit, new_id, now_ms)
    if commit or not txn.state.is_idle:
        raise _invalid(txn, commit)
    # Nothing was added, as far as is known here: what may have arrived is fenced by the new epoch.
    return _bumped(txn, commit, new_id, now_ms, start_ms=now_ms)


def _is_retry(txn: Transaction, owner: Owner) -> bool:
    """Whether this is who the transaction ended for: the epoch before the bump."""
    bumped = Owner(owner.producer_id, owner.epoch + 1)
    return bumped == txn.writer or bumped == Owner(txn.next_producer_id, txn.next_producer_epoch)


def _bumped(
    txn: Transaction, commit: bool, new_id: int | None, now_ms: int, start_ms: int | None = None
) -> Transaction:
    """Decided by the rules of transaction.version 2."""
    owner = txn.owner
    decided = _decided(
        txn,
        commit,
        owner.epoch + 1,
        now_ms=now_ms,
        version=EPOCH_BUMP_SINCE,
        start_ms=txn.start_ms if start_ms is None else start_ms,
        last_epoch=owner.epoch,
    )
    if owner.is_exhausted:
        return decided.with_next(Owner(given(new_id), NO_EPOCH))
    return decided


def _decided(txn: Transaction, commit: bool, epoch: int, **changes: int) -> Transaction:
    """The transaction with its decision; `epoch` is its owner's from now on. The markers end the writer's
    epoch: where the owner has another producer id (KIP-939), by the one that follows it.
    """
    now_ms = changes.pop("now_ms")
    state = _preparing(commit)
    if txn.owner.producer_id == txn.producer_id:
        return txn.moved(
            state,
            producer_epoch=epoch,
            next_producer_id=NO_ID,
            next_producer_epoch=NO_EPOCH,
            update_ms=now_ms,
            **changes,
        )
    return txn.moved(
        state, producer_epoch=txn.producer_epoch + 1, next_producer_epoch=epoch, update_ms=now_ms, **changes
    )


def _preparing(commit: bool) -> TxnState:
    return TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT


def _completed(commit: bool) -> TxnState:
    return TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT


def _invalid(txn: Transaction, commit: bool) -> ApiError:
    wish = "committed" if commit else "aborted"
    return ApiError(
        ErrorCode.INVALID_TXN_STATE, f"{txn.transactional_id} is {txn.state.title} and cannot be {wish}"
    )
