"""Transactional ids as records of `__transaction_state`, in the versions that Kafka 4.3 writes."""

from typing import Final

from headrace.base.ids import TopicPartition
from headrace.coordinators.runtime import CoordinatorRecord
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import Transaction
from headrace.wire.schemas.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

TAGGED_SINCE: Final = 1
"""The transaction.version from which on records have tagged fields (value version 1)."""


def record_of(txn: Transaction, transaction_version: int) -> CoordinatorRecord:
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
        if txn.state is TxnState.EMPTY
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


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """The id that a record describes."""
    return Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TxnState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(each.topic, index)
            for each in value.transaction_partitions or ()
            for index in each.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
    )
