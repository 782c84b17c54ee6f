"""TransactionMetadata: the state of one transactional id, and which state may follow which.

A value, not an object that changes: `transitions` makes the next one, its record goes to the log, and replay
puts it in place. A request must name the `owner`: the producer id and epoch that the newest user of the id
was given. That pair differs from the transaction's own while a prepared transaction waits for its decision
(KIP-939), because the user that decides is a later one than the user that wrote.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import NO_EPOCH, NO_ID, ProducerIdAndEpoch


class TransactionState(IntEnum):
    """The states of a transactional id (KIP-98, KIP-360, KIP-890), with the numbers of `__transaction_state`.

    An id is Empty until its first partition is added, then Ongoing. Ending has two steps: Prepare is written
    first and decides; Complete is written when every partition has its marker. PrepareEpochFence is never
    written: it stands between the decision to fence a producer and the abort that does it. Dead is an id that
    is about to be removed.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As Kafka's tools spell it."""
        return TITLES[self]

    @property
    def is_preparing(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """No transaction is open: the id may start one, or expire."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


TITLES: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

_NEXT_FROM_IDLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
)

VALID_TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _NEXT_FROM_IDLE,
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_EPOCH_FENCE,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _NEXT_FROM_IDLE,
    TransactionState.COMPLETE_ABORT: _NEXT_FROM_IDLE,
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}


NO_TIME: Final = -1

NEVER_MS: Final = 2**31 - 1
"""The time-out of transactions that an outside coordinator decides: they have none."""

EPOCH_BUMP_SINCE: Final = 2
"""The transaction.version from which on every transaction has an epoch of its own (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """The state of one transactional id. Times are of the wall clock."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH  # before the last bump: in memory only, as in Kafka
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    next_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    update_ms: int
    version: int = 0  # the transaction.version that its producer works by

    @property
    def writer(self) -> ProducerIdAndEpoch:
        """Who wrote the open transaction."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def owner(self) -> ProducerIdAndEpoch:
        """Whom requests must come from."""
        if self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_EPOCH:
            return ProducerIdAndEpoch(self.next_producer_id, self.next_producer_epoch)
        return self.writer

    @property
    def has_timeout(self) -> bool:
        return self.timeout_ms != NEVER_MS

    def is_overdue(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.has_timeout
            and self.start_ms + self.timeout_ms < now_ms
        )

    def transition_to(self, state: TransactionState, **changes: Any) -> "TransactionMetadata":
        """The id in its next state, which remembers the producer id of this one."""
        assert state in VALID_TRANSITIONS[self.state], f"{self.state.title} cannot become {state.title}"
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)

    def with_owner(self, owner: ProducerIdAndEpoch, *, previous_producer_id: int) -> "TransactionMetadata":
        """The id with another owner."""
        return replace(
            self,
            producer_id=owner.producer_id,
            producer_epoch=owner.epoch,
            previous_producer_id=previous_producer_id,
            next_producer_id=NO_ID,
            next_producer_epoch=NO_EPOCH,
        )

    def with_next(self, owner: ProducerIdAndEpoch) -> "TransactionMetadata":
        """The id with the producer id that follows when its transaction has ended."""
        return replace(self, next_producer_id=owner.producer_id, next_producer_epoch=owner.epoch)
