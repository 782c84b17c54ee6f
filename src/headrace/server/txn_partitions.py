"""Asking a transaction's coordinator, on this node or another, about partitions before they are written to.

By transaction.version 2 the first write adds its partition to the transaction; before, the client has done so
and the coordinator is asked whether that is true (KIP-890). Either way no partition takes records of a
transaction that its coordinator does not know, which nobody would ever end.

A transaction that is just ending cannot take partitions yet: the coordinator is asked again for a moment,
since the markers are on their way.

A marker that comes to a partition while the coordinator of another node is asked makes its answer void: it
may speak of the transaction that has just ended, or of the next one. It is asked once more, and speaks of
what is then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.txn.transaction_metadata import EPOCH_BUMP_SINCE
from headrace.wire.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from headrace.coordinators.drivers.transaction_coordinator import TransactionCoordinator
    from headrace.log.producer_state_manager import ProducerStateManager
    from headrace.settings.broker_config import BrokerConfig

Errors = Mapping[TopicPartition, ErrorCode]
AskBroker = Callable[[int, AddPartitionsToTxnRequest], "asyncio.Future[AddPartitionsToTxnResponse]"]

ASKS_MAX: Final = 3
"""How often an answer may be void: every time another transaction of the producer has ended meanwhile."""


class TxnPartitions:
    """The way to the coordinators of all transactional ids."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        ask_broker: AskBroker,
    ) -> None:
        self._coordinator = coordinator
        self._config = config
        self._loop = loop
        self._ask_broker = ask_broker

    def ask(
        self,
        transactional_id: str,
        owner: ProducerIdAndEpoch,
        partitions: Mapping[TopicPartition, ProducerStateManager],
        *,
        adds: bool,
        done: Callable[[Errors], None],
    ) -> None:
        """Whether each partition is part of the owner's transaction; with `adds` it becomes so."""
        patience_ms = self._config.int("add.partitions.to.txn.retry.backoff.max.ms") if adds else 0
        pause_ms = self._config.int("add.partitions.to.txn.retry.backoff.ms")
        give_up = self._loop.time() + patience_ms / 1000
        asks_left = ASKS_MAX

        def attempt() -> None:
            for producers in partitions.values():
                producers.begin_verification(owner.producer_id)
            self._ask_once(transactional_id, owner, list(partitions), adds, heard)

        def heard(errors: Errors) -> None:
            nonlocal asks_left
            void = [
                each
                for each, producers in partitions.items()
                if not producers.end_verification(owner.producer_id) and not errors[each]
            ]
            ends = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            asks_left -= bool(void)
            if ends and self._loop.time() + pause_ms / 1000 <= give_up:
                self._loop.call_later(pause_ms / 1000, attempt)
            elif void and asks_left:
                attempt()
            else:
                done({**errors, **dict.fromkeys(void, ErrorCode.INVALID_TXN_STATE)})

        attempt()

    def _ask_once(
        self,
        transactional_id: str,
        owner: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        adds: bool,
        done: Callable[[Errors], None],
    ) -> None:
        try:
            if not transactional_id:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            leader = self._coordinator.leader_of(transactional_id)
        except ApiError as error:
            done(dict.fromkeys(partitions, error.code))
            return
        if leader < 0:
            done(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif leader != self._config.node_id:
            self._ask_elsewhere(leader, transactional_id, owner, partitions, adds, done)
        elif adds:
            self._coordinator.add_partitions(
                transactional_id,
                owner,
                partitions,
                version=EPOCH_BUMP_SINCE,
                done=lambda error: done(dict.fromkeys(partitions, error)),
            )
        else:
            self._coordinator.verify_partitions(
                transactional_id,
                owner,
                lambda error, found: done(verified(partitions, error, found)),
            )

    def _ask_elsewhere(
        self,
        leader: int,
        transactional_id: str,
        owner: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        adds: bool,
        done: Callable[[Errors], None],
    ) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        asked = AddPartitionsToTxnTransaction(
            transactional_id,
            owner.producer_id,
            owner.epoch,
            verify_only=not adds,
            topics=[AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in topics.items()],
        )

        def heard(answer: asyncio.Future[AddPartitionsToTxnResponse]) -> None:
            if answer.cancelled() or answer.exception() is not None:
                done(dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION))
            else:
                done(_errors_in(answer.result(), partitions))

        self._ask_broker(leader, AddPartitionsToTxnRequest(transactions=[asked])).add_done_callback(heard)


def verified(
    partitions: Sequence[TopicPartition], error: ErrorCode, found: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Of each partition whether it is in the transaction; one that is not ends it, for the client's sake."""
    if error:
        return dict.fromkeys(partitions, error)
    return {each: ErrorCode.NONE if each in found else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def _errors_in(response: AddPartitionsToTxnResponse, partitions: Sequence[TopicPartition]) -> Errors:
    if response.error_code:
        return dict.fromkeys(partitions, ErrorCode(response.error_code))
    said = {
        TopicPartition(topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for result in topic.results_by_partition
    }
    return {each: said.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in partitions}
