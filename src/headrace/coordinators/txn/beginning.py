"""InitProducerId's decisions: a new user of a transactional id, and the end of the one before (KIP-98).

Every new user gets a higher epoch, so that an older one is refused from then on. A transaction that an
earlier user left open is aborted first, and the new user is told to come again, unless it wants to decide
that transaction itself (`keep_prepared`, KIP-939). A user that gives its own id and epoch goes on after an
error (KIP-360): it is refused where somebody else came in between. When the epochs of a producer id are used
up the transactional id gets a new one.
"""

from dataclasses import dataclass
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import EPOCH_MAX, NO_EPOCH, NO_ID, NO_TIME, Owner, Transaction

FIRST_EPOCH: Final = 0


class ProducerIdNeeded(Exception):  # noqa: N818 - not an error: the decision is made again with an id
    """The decision needs a new producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitWish:
    """What a new user asks for. `expected` is who it was before, where it goes on after an error."""

    transactional_id: str
    timeout_ms: int
    expected: Owner | None = None
    keep_prepared: bool = False


def begin_use(txn: Transaction | None, wish: InitWish, *, new_id: int | None, now_ms: int) -> Transaction:
    """The id with its new user; in PREPARE_EPOCH_FENCE where the open transaction must be aborted first."""
    if txn is None:
        producer_id = given(new_id)
        return Transaction(
            transactional_id=wish.transactional_id,
            producer_id=producer_id,
            previous_producer_id=producer_id,
            producer_epoch=FIRST_EPOCH,
            timeout_ms=wish.timeout_ms,
            update_ms=now_ms,
        )
    if wish.expected is not None and not _may_go_on(txn, wish.expected):
        raise ApiError(ErrorCode.PRODUCER_FENCED, "another producer uses this transactional id")
    if txn.state.is_preparing:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is TxnState.ONGOING:
        return _keep(txn, wish, new_id, now_ms) if wish.keep_prepared else fence(txn)
    fresh = {"timeout_ms": wish.timeout_ms, "update_ms": now_ms, "start_ms": NO_TIME}
    epoch = None if wish.expected is None else wish.expected.epoch
    if txn.writer.is_exhausted and epoch in (None, txn.producer_epoch, txn.last_epoch):
        return txn.moved(
            TxnState.EMPTY,
            producer_id=given(new_id),
            producer_epoch=FIRST_EPOCH,
            last_epoch=NO_EPOCH if epoch is None else txn.producer_epoch,
            **fresh,
        )
    if epoch is None:
        bumped, last = txn.producer_epoch + 1, NO_EPOCH
    elif epoch == txn.producer_epoch:
        bumped, last = txn.producer_epoch + 1, txn.producer_epoch
    elif epoch == txn.last_epoch:
        bumped, last = txn.producer_epoch, txn.last_epoch  # asked again: the answer was lost
    else:
        raise ApiError(ErrorCode.PRODUCER_FENCED, f"epoch {epoch} is over, {txn.producer_epoch} is current")
    return txn.moved(TxnState.EMPTY, producer_epoch=bumped, last_epoch=last, **fresh)


def fence(txn: Transaction) -> Transaction:
    """Nobody writes in this transaction any more: its epoch is over. It must be aborted with the new one."""
    owner = txn.owner
    if owner.producer_id == txn.producer_id:
        assert owner.epoch < EPOCH_MAX, "the largest epoch is for the marker of its transaction"
        return txn.moved(
            TxnState.PREPARE_EPOCH_FENCE,
            producer_epoch=owner.epoch + 1,
            last_epoch=owner.epoch,  # who was fenced for its own sake goes on from there
            next_producer_id=NO_ID,
            next_producer_epoch=NO_EPOCH,
        )
    # The newest user has another producer id: the marker ends the writer's, the user's goes on.
    return txn.moved(
        TxnState.PREPARE_EPOCH_FENCE,
        producer_epoch=txn.producer_epoch + 1,
        last_epoch=NO_EPOCH,
        next_producer_epoch=owner.epoch + 1,
    )


def _keep(txn: Transaction, wish: InitWish, new_id: int | None, now_ms: int) -> Transaction:
    """The transaction stays open under its writer's name, and the new user may only end it."""
    owner = txn.owner
    user = Owner(given(new_id), FIRST_EPOCH) if owner.is_exhausted else Owner(owner[0], owner.epoch + 1)
    return txn.moved(
        TxnState.ONGOING,
        next_producer_id=user.producer_id,
        next_producer_epoch=user.epoch,
        timeout_ms=wish.timeout_ms,
        update_ms=now_ms,
    )


def _may_go_on(txn: Transaction, expected: Owner) -> bool:
    """Whether nobody else has come since: the epoch itself is compared where it is bumped."""
    retried_rotation = expected.producer_id == txn.previous_producer_id and expected.is_exhausted
    return expected.producer_id == txn.owner.producer_id or retried_rotation


def given(new_id: int | None) -> int:
    """The producer id that the decision was given."""
    if new_id is None:
        raise ProducerIdNeeded
    return new_id
