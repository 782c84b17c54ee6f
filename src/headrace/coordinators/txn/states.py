"""The states of a transactional id, and which may follow which (KIP-98, KIP-360, KIP-890).

An id is Empty until its first partition is added, then Ongoing. Ending has two steps: Prepare is written
first and decides; Complete is written when every partition has its marker. PrepareEpochFence is never
written: it stands between the decision to fence a producer and the abort that does it. Dead is an id that is
about to be forgotten.
"""

from enum import IntEnum
from typing import Final


class TxnState(IntEnum):
    """The numbers are those of `__transaction_state`."""

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
        return self in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Nothing is open: the id may start anew, or be forgotten."""
        return self in (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


TITLES: Final = {
    TxnState.EMPTY: "Empty",
    TxnState.ONGOING: "Ongoing",
    TxnState.PREPARE_COMMIT: "PrepareCommit",
    TxnState.PREPARE_ABORT: "PrepareAbort",
    TxnState.COMPLETE_COMMIT: "CompleteCommit",
    TxnState.COMPLETE_ABORT: "CompleteAbort",
    TxnState.DEAD: "Dead",
    TxnState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

_NEXT_FROM_IDLE: Final = frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD})

MOVES: Final[dict[TxnState, frozenset[TxnState]]] = {
    TxnState.EMPTY: _NEXT_FROM_IDLE,
    TxnState.ONGOING: frozenset(
        {
            TxnState.ONGOING,
            TxnState.PREPARE_COMMIT,
            TxnState.PREPARE_ABORT,
            TxnState.PREPARE_EPOCH_FENCE,
        }
    ),
    TxnState.PREPARE_COMMIT: frozenset({TxnState.COMPLETE_COMMIT}),
    TxnState.PREPARE_ABORT: frozenset({TxnState.COMPLETE_ABORT}),
    TxnState.COMPLETE_COMMIT: _NEXT_FROM_IDLE,
    TxnState.COMPLETE_ABORT: _NEXT_FROM_IDLE,
    TxnState.DEAD: frozenset(),
    TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.PREPARE_ABORT}),
}
