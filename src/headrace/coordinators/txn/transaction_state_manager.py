"""TransactionStateManager: the transactional ids of one partition of `__transaction_state`.

A decision is written and takes effect at once; what rests on it (an answer, a marker) waits until every
in-sync replica has it. Because a later write is replicated after an earlier one, no decision has to wait for
the one before, and none can be seen to be undone: a leader that loses its records loses its shard too.
"""

from collections.abc import Callable, Sequence
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.coordinators.coordinator_shard import CoordinatorRecord, Done
from headrace.coordinators.txn.transaction_metadata import TransactionMetadata, TransactionState
from headrace.wire.schemas.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

TAGGED_SINCE: Final = 1
"""The transaction.version from which on records have tagged fields (value version 1)."""

Write = Callable[[Sequence[CoordinatorRecord], Done], None]


class TransactionStateManager:
    """A CoordinatorShard. `on_prepared` is called for every transaction whose markers are due after loading;
    `on_removed` for every id that this node no longer coordinates.
    """

    def __init__(
        self,
        *,
        write: Write,
        transaction_version: Callable[[], int],
        on_prepared: Callable[[TransactionMetadata], None],
        on_removed: Callable[[TransactionMetadata], None],
    ) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self._write = write
        self._transaction_version = transaction_version
        self._on_prepared = on_prepared
        self._on_removed = on_removed
        self._fresh: TransactionMetadata | None = None

    def append(self, txn: TransactionMetadata, done: Done) -> None:
        """Write an id's next state; `done` when it is replicated."""
        self._fresh = txn
        try:
            self._write([transaction_record(txn, self._transaction_version())], done)
        finally:
            self._fresh = None

    def remove(self, transactional_ids: Sequence[str], done: Done) -> None:
        """Write tombstones for ids that nobody uses."""
        dead = [self.transactions[each].transition_to(TransactionState.DEAD) for each in transactional_ids]
        self._write([tombstone(each.transactional_id) for each in dead], done)

    # --- CoordinatorShard ---

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

    def replay_transactional(self, producer_id: int, key: object, value: object | None) -> None:
        """This topic is no part of transactions itself."""

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """See `replay_transactional`."""

    def on_loaded(self) -> None:
        for txn in list(self.transactions.values()):
            if txn.state.is_preparing:
                self._on_prepared(txn)

    def on_unloaded(self) -> None:
        for txn in self.transactions.values():
            self._on_removed(txn)


# --- records of `__transaction_state`, in the versions that Kafka 4.3 writes ---


def transaction_record(txn: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """The id as it is. Below transaction.version 1 a record has no place for ids before and after."""
    partitions: dict[str, list[int]] = {}
    for topic, partition in sorted(txn.partitions):
        partitions.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state,
        transaction_partitions=None
        if txn.state is TransactionState.EMPTY
        else [PartitionsSchema(topic, indexes) for topic, indexes in partitions.items()],
        transaction_last_update_timestamp_ms=txn.update_ms,
        transaction_start_timestamp_ms=txn.start_ms,
    )
    key = TransactionLogKey(transactional_id=txn.transactional_id)
    if transaction_version < TAGGED_SINCE:
        return CoordinatorRecord(key, value, 0)
    value.previous_producer_id = txn.previous_producer_id
    value.next_producer_id = txn.next_producer_id
    value.next_producer_epoch = txn.next_producer_epoch
    value.client_transaction_version = txn.version
    return CoordinatorRecord(key, value, 1)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> TransactionMetadata:
    """The id that a record describes."""
    return TransactionMetadata(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(each.topic, index)
            for each in value.transaction_partitions or ()
            for index in each.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
    )
