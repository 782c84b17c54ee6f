"""The transactional ids of one partition of `__transaction_state`.

A decision is written and takes effect at once; what rests on it (an answer, a marker) waits until every
in-sync replica has it. Because a later write is replicated after an earlier one, no decision has to wait for
the one before, and none can be seen to be undone: a leader that loses its records loses its machine too.
"""

from collections.abc import Callable, Sequence

from headrace.coordinators.runtime import CoordinatorRecord, Done
from headrace.coordinators.txn.records import record_of, tombstone, transaction_of
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import Transaction
from headrace.wire.schemas.transaction_records import TransactionLogKey, TransactionLogValue

Write = Callable[[Sequence[CoordinatorRecord], Done], None]


class TxnMachine:
    """Implements `runtime.Machine`. `on_prepared` is told of every transaction whose markers are due after
    loading; `on_unloaded` of every id that this node no longer coordinates.
    """

    def __init__(
        self,
        *,
        write: Write,
        transaction_version: Callable[[], int],
        on_prepared: Callable[[Transaction], None],
        on_unloaded: Callable[[Transaction], None],
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._write = write
        self._transaction_version = transaction_version
        self._on_prepared = on_prepared
        self._on_unloaded = on_unloaded
        self._fresh: Transaction | None = None

    def put(self, txn: Transaction, done: Done) -> None:
        """Write an id's next state; `done` when it is replicated."""
        self._fresh = txn
        try:
            self._write([record_of(txn, self._transaction_version())], done)
        finally:
            self._fresh = None

    def forget(self, transactional_ids: Sequence[str], done: Done) -> None:
        """Ids that nobody uses are dead: they leave nothing but tombstones."""
        dead = [self.transactions[each].moved(TxnState.DEAD) for each in transactional_ids]
        self._write([tombstone(each.transactional_id) for each in dead], done)

    # --- Machine ------------------------------------------------------------------------------------------

    def replay(self, key: object, value: object | None) -> None:
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        if value is None:
            self.transactions.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        fresh = self._fresh
        if fresh is not None and fresh.transactional_id == transactional_id:
            self.transactions[transactional_id] = fresh  # it knows the epoch before, which no record holds
        else:
            self.transactions[transactional_id] = transaction_of(key, value)

    def replay_pending(self, producer_id: int, key: object, value: object | None) -> None:
        """This topic is no part of transactions itself."""

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        """See `replay_pending`."""

    def loaded(self) -> None:
        for txn in list(self.transactions.values()):
            if txn.state.is_preparing:
                self._on_prepared(txn)

    def unloaded(self) -> None:
        for txn in self.transactions.values():
            self._on_unloaded(txn)
