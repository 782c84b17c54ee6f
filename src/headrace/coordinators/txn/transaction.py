"""One transactional id: who may write under it, and the transaction it has open.

Values, not objects that change: a decision makes the next one (`moved`), its record goes to the log, and
replay puts it in place. A request must name the `owner`: the producer id and epoch that the newest user of
the id was given. That pair differs from the transaction's own while a prepared transaction waits for its
decision (KIP-939), because the user that decides is a later one than the user that wrote.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from headrace.base.ids import TopicPartition
from headrace.coordinators.txn.states import MOVES, TxnState

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
EPOCH_MAX: Final = 2**15 - 1

NEVER_MS: Final = 2**31 - 1
"""The time-out of transactions that an outside coordinator decides: they have none."""

EPOCH_BUMP_SINCE: Final = 2
"""The transaction.version from which on every transaction has an epoch of its own (KIP-890)."""


class Owner(NamedTuple):
    """What a producer says who it is."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left to give out: the largest one is kept for fencing."""
        return self.epoch >= EPOCH_MAX - 1


NOBODY: Final = Owner(NO_ID, NO_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of one transactional id. Times are of the wall clock."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH  # before the last bump: in memory only, as in Kafka
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    next_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    update_ms: int
    version: int = 0  # the transaction.version that its producer works by

    @property
    def writer(self) -> Owner:
        """Who wrote the open transaction."""
        return Owner(self.producer_id, self.producer_epoch)

    @property
    def owner(self) -> Owner:
        """Whom requests must come from."""
        if self.state is TxnState.ONGOING and self.next_producer_epoch != NO_EPOCH:
            return Owner(self.next_producer_id, self.next_producer_epoch)
        return self.writer

    @property
    def has_timeout(self) -> bool:
        return self.timeout_ms != NEVER_MS

    def is_overdue(self, now_ms: int) -> bool:
        return (
            self.state is TxnState.ONGOING and self.has_timeout and self.start_ms + self.timeout_ms < now_ms
        )

    def moved(self, state: TxnState, **changes: Any) -> "Transaction":
        """The id in another state. Each remembers the producer id of the one before."""
        assert state in MOVES[self.state], f"{self.state.title} cannot become {state.title}"
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)

    def with_owner(self, owner: Owner, *, previous_producer_id: int) -> "Transaction":
        """The id in the hands of another producer id."""
        return replace(
            self,
            producer_id=owner.producer_id,
            producer_epoch=owner.epoch,
            previous_producer_id=previous_producer_id,
            next_producer_id=NO_ID,
            next_producer_epoch=NO_EPOCH,
        )

    def with_next(self, owner: Owner) -> "Transaction":
        """The id with the producer id that follows when its transaction has ended."""
        return replace(self, next_producer_id=owner.producer_id, next_producer_epoch=owner.epoch)
