"""TransactionMetadata's transitions: what InitProducerId, AddPartitionsToTxn and EndTxn make of it.

Pure decisions: each takes the state of a transactional id and returns the next one, or raises ApiError. The
coordinator writes it down.

InitProducerId (KIP-98): every new user of an id gets a higher epoch, so that an older one is fenced. A
transaction that an earlier user left open is aborted first, and the new user is told to try again, unless it
wants to decide that transaction itself (`keep_prepared`, KIP-939). A user that gives its own id and epoch
recovers from an error (KIP-360): it is fenced where somebody else came in between. When the epochs of a
producer id are used up the transactional id gets a new one.

AddPartitionsToTxn: the first partition opens the transaction, and its timeout begins to run.

EndTxn: by the rules of transaction.version 2 (KIP-890) every end bumps the epoch: the markers carry the new
one, so no write of this transaction can land in the next, and a retried EndTxn is known by the epoch before.
An abort is taken even where nothing was added, for a producer that does not know what arrived. Before that
version the epoch stays, and a retry is known by the state alone. The markers of an exhausted producer id
carry its largest epoch; the producer goes on under a new id.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import EPOCH_MAX, NO_EPOCH, NO_ID, ProducerIdAndEpoch
from headrace.coordinators.txn.transaction_metadata import (
    EPOCH_BUMP_SINCE,
    NO_TIME,
    TransactionMetadata,
    TransactionState,
)

FIRST_EPOCH: Final = 0


class ProducerIdNeeded(Exception):  # noqa: N818 - not an error: the decision is made again with an id
    """The decision needs a new producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdParams:
    """What an InitProducerId asks for. `expected` is the producer id and epoch of one that recovers."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    keep_prepared: bool = False


def init_producer_id(
    txn: TransactionMetadata | None, params: InitProducerIdParams, *, new_id: int | None, now_ms: int
) -> TransactionMetadata:
    """The id with its new owner; in PREPARE_EPOCH_FENCE where the open transaction must be aborted first."""
    if txn is None:
        producer_id = _given(new_id)
        return TransactionMetadata(
            transactional_id=params.transactional_id,
            producer_id=producer_id,
            previous_producer_id=producer_id,
            producer_epoch=FIRST_EPOCH,
            timeout_ms=params.timeout_ms,
            update_ms=now_ms,
        )
    if params.expected is not None and not _may_recover(txn, params.expected):
        raise ApiError(ErrorCode.PRODUCER_FENCED, "another producer uses this transactional id")
    if txn.state.is_preparing:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is TransactionState.ONGOING:
        return (
            _keep_prepared(txn, params, new_id, now_ms) if params.keep_prepared else fence_producer_epoch(txn)
        )
    fresh = {"timeout_ms": params.timeout_ms, "update_ms": now_ms, "start_ms": NO_TIME}
    epoch = None if params.expected is None else params.expected.epoch
    if txn.writer.is_exhausted and epoch in (None, txn.producer_epoch, txn.last_epoch):
        return txn.transition_to(
            TransactionState.EMPTY,
            producer_id=_given(new_id),
            producer_epoch=FIRST_EPOCH,
            last_epoch=NO_EPOCH if epoch is None else txn.producer_epoch,
            **fresh,
        )
    if epoch is None:
        bumped, last = txn.producer_epoch + 1, NO_EPOCH
    elif epoch == txn.producer_epoch:
        bumped, last = txn.producer_epoch + 1, txn.producer_epoch
    elif epoch == txn.last_epoch:
        bumped, last = txn.producer_epoch, txn.last_epoch  # a retry: the answer was lost
    else:
        raise ApiError(ErrorCode.PRODUCER_FENCED, f"epoch {epoch} is over, {txn.producer_epoch} is current")
    return txn.transition_to(TransactionState.EMPTY, producer_epoch=bumped, last_epoch=last, **fresh)


def fence_producer_epoch(txn: TransactionMetadata) -> TransactionMetadata:
    """Fence the producer of an open transaction, which must be aborted with the new epoch."""
    owner = txn.owner
    if owner.producer_id == txn.producer_id:
        assert owner.epoch < EPOCH_MAX, "the largest epoch is for the marker of its transaction"
        return txn.transition_to(
            TransactionState.PREPARE_EPOCH_FENCE,
            producer_epoch=owner.epoch + 1,
            last_epoch=owner.epoch,  # who was fenced for its own sake recovers from there
            next_producer_id=NO_ID,
            next_producer_epoch=NO_EPOCH,
        )
    # The newest user has another producer id: the marker ends the writer's, the user's goes on.
    return txn.transition_to(
        TransactionState.PREPARE_EPOCH_FENCE,
        producer_epoch=txn.producer_epoch + 1,
        last_epoch=NO_EPOCH,
        next_producer_epoch=owner.epoch + 1,
    )


def _keep_prepared(
    txn: TransactionMetadata, params: InitProducerIdParams, new_id: int | None, now_ms: int
) -> TransactionMetadata:
    """The transaction stays open under its writer's name, and the new user may only end it."""
    owner = txn.owner
    user = (
        ProducerIdAndEpoch(_given(new_id), FIRST_EPOCH)
        if owner.is_exhausted
        else ProducerIdAndEpoch(owner[0], owner.epoch + 1)
    )
    return txn.transition_to(
        TransactionState.ONGOING,
        next_producer_id=user.producer_id,
        next_producer_epoch=user.epoch,
        timeout_ms=params.timeout_ms,
        update_ms=now_ms,
    )


def _may_recover(txn: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether no other producer has come since: the epoch itself is compared where it is bumped."""
    retried_rotation = expected.producer_id == txn.previous_producer_id and expected.is_exhausted
    return expected.producer_id == txn.owner.producer_id or retried_rotation


def _given(new_id: int | None) -> int:
    """The producer id that the decision was given."""
    if new_id is None:
        raise ProducerIdNeeded
    return new_id


# --- AddPartitionsToTxn ---


def add_partitions(
    txn: TransactionMetadata | None,
    owner: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    *,
    version: int,
    now_ms: int,
) -> TransactionMetadata | None:
    """The transaction with these partitions in it; None where all of them are already."""
    txn = _checked(txn, owner)
    if txn.state is TransactionState.ONGOING:
        if txn.owner != txn.writer:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "a prepared transaction can only be ended")
        if txn.partitions.issuperset(partitions):
            return None
    return txn.transition_to(
        TransactionState.ONGOING,
        partitions=txn.partitions.union(partitions),
        start_ms=txn.start_ms if txn.state is TransactionState.ONGOING else now_ms,
        update_ms=now_ms,
        version=version,
    )


def verify_partitions(
    txn: TransactionMetadata | None, owner: ProducerIdAndEpoch
) -> frozenset[TopicPartition]:
    """The partitions of the owner's open transaction (KIP-890)."""
    return _checked(txn, owner).partitions


def _checked(txn: TransactionMetadata | None, owner: ProducerIdAndEpoch) -> TransactionMetadata:
    """The transaction, if it is this owner's and not about to end."""
    if txn is None or txn.owner.producer_id != owner.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.owner.epoch != owner.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if txn.state.is_preparing:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return txn


# --- EndTxn ---


def end_transaction(
    txn: TransactionMetadata | None,
    owner: ProducerIdAndEpoch,
    *,
    commit: bool,
    version: int,
    new_id: int | None,
    now_ms: int,
) -> TransactionMetadata | None:
    """The transaction in its Prepare state; None for a retry of an end that is complete."""
    if txn is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version < EPOCH_BUMP_SINCE:
        return _end_in_its_epoch(txn, owner, commit, now_ms)
    return _end_with_bump(txn, owner, commit, new_id, now_ms)


def prepare_abort_fenced(fenced: TransactionMetadata, *, version: int, now_ms: int) -> TransactionMetadata:
    """The abort that follows a fence, by which the epoch was bumped."""
    return fenced.transition_to(TransactionState.PREPARE_ABORT, update_ms=now_ms, version=version)


def prepare_complete(txn: TransactionMetadata, *, now_ms: int) -> TransactionMetadata:
    """All partitions have their markers."""
    is_commit = txn.state is TransactionState.PREPARE_COMMIT
    done = txn.transition_to(
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        update_ms=now_ms,
    )
    if txn.next_producer_id == NO_ID:
        return done
    after = producer_after_end(txn)
    return done.with_owner(after, previous_producer_id=txn.producer_id)


def producer_after_end(txn: TransactionMetadata) -> ProducerIdAndEpoch:
    """Who its producer is once the transaction has ended."""
    if txn.next_producer_id == NO_ID:
        return txn.writer
    return ProducerIdAndEpoch(txn.next_producer_id, max(txn.next_producer_epoch, FIRST_EPOCH))


def _end_in_its_epoch(
    txn: TransactionMetadata, owner: ProducerIdAndEpoch, commit: bool, now_ms: int
) -> TransactionMetadata | None:
    if txn.owner.producer_id != owner.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.owner.epoch != owner.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if txn.state is TransactionState.ONGOING:
        return _decided(txn, commit, owner.epoch, now_ms=now_ms, version=0)
    if txn.state is _preparing(commit):
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is _completed(commit):
        return None
    raise _invalid(txn, commit)


def _end_with_bump(
    txn: TransactionMetadata, owner: ProducerIdAndEpoch, commit: bool, new_id: int | None, now_ms: int
) -> TransactionMetadata | None:
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
    elif txn.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
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
    if txn.state is TransactionState.ONGOING:
        return _bumped(txn, commit, new_id, now_ms)
    if commit or not txn.state.is_idle:
        raise _invalid(txn, commit)
    # Nothing was added, as far as is known here: what may have arrived is fenced by the new epoch.
    return _bumped(txn, commit, new_id, now_ms, start_ms=now_ms)


def _is_retry(txn: TransactionMetadata, owner: ProducerIdAndEpoch) -> bool:
    """Whether this is who the transaction ended for: the epoch before the bump."""
    bumped = ProducerIdAndEpoch(owner.producer_id, owner.epoch + 1)
    return bumped == txn.writer or bumped == ProducerIdAndEpoch(txn.next_producer_id, txn.next_producer_epoch)


def _bumped(
    txn: TransactionMetadata, commit: bool, new_id: int | None, now_ms: int, start_ms: int | None = None
) -> TransactionMetadata:
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
        return decided.with_next(ProducerIdAndEpoch(_given(new_id), NO_EPOCH))
    return decided


def _decided(txn: TransactionMetadata, commit: bool, epoch: int, **changes: int) -> TransactionMetadata:
    """The transaction with its decision; `epoch` is its owner's from now on. The markers end the writer's
    epoch: where the owner has another producer id (KIP-939), by the one that follows it.
    """
    now_ms = changes.pop("now_ms")
    state = _preparing(commit)
    if txn.owner.producer_id == txn.producer_id:
        return txn.transition_to(
            state,
            producer_epoch=epoch,
            next_producer_id=NO_ID,
            next_producer_epoch=NO_EPOCH,
            update_ms=now_ms,
            **changes,
        )
    return txn.transition_to(
        state, producer_epoch=txn.producer_epoch + 1, next_producer_epoch=epoch, update_ms=now_ms, **changes
    )


def _preparing(commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _completed(commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT


def _invalid(txn: TransactionMetadata, commit: bool) -> ApiError:
    outcome = "committed" if commit else "aborted"
    return ApiError(
        ErrorCode.INVALID_TXN_STATE, f"{txn.transactional_id} is {txn.state.title} and cannot be {outcome}"
    )
