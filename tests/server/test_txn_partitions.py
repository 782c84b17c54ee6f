"""Asking a coordinator on another node about partitions, while transactions end."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import ProducerIdAndEpoch
from headrace.coordinators.drivers.transaction_coordinator import TransactionCoordinator
from headrace.log.producer_state_manager import ProducerStateManager
from headrace.records.batch import build_txn_marker, read_header
from headrace.server.txn_partitions import ASKS_MAX, Errors, TxnPartitions
from headrace.settings.broker_config import BrokerConfig
from headrace.testing.loop import SimulatedLoop
from headrace.wire.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

TP = TopicPartition("t", 0)
OWNER = ProducerIdAndEpoch(7, 1)


class ElsewhereCoordinator:
    """Of every id: broker 2, which is not this one."""

    def leader_of(self, transactional_id: str) -> int:
        return 2


class Bench:
    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        self.states = ProducerStateManager()
        self.asked: list[asyncio.Future[AddPartitionsToTxnResponse]] = []
        self.told: list[Errors] = []
        self.partitions = TxnPartitions(
            cast(TransactionCoordinator, ElsewhereCoordinator()),
            BrokerConfig({"node.id": "1"}, check=False),
            loop=self.loop,
            ask_broker=self._ask,
        )

    def _ask(
        self, leader: int, request: AddPartitionsToTxnRequest
    ) -> "asyncio.Future[AddPartitionsToTxnResponse]":
        self.asked.append(self.loop.create_future())
        return self.asked[-1]

    def ask(self, *, adds: bool = True) -> None:
        self.partitions.ask("x", OWNER, {TP: self.states}, adds=adds, done=self.told.append)

    def mark(self) -> None:
        """The marker of the producer's last transaction comes."""
        marker = build_txn_marker(
            commit=True, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp_ms=0
        )
        self.states.apply(read_header(marker), marker)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        topic = AddPartitionsToTxnTopicResult("t", [AddPartitionsToTxnPartitionResult(0, error)])
        result = AddPartitionsToTxnResult("x", [topic])
        self.asked[-1].set_result(AddPartitionsToTxnResponse(results_by_transaction=[result]))
        while self.loop.has_work():
            self.loop.run_round()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.loop.kill()


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE])
def test_what_the_coordinator_says_is_told(bench: Bench, error: ErrorCode) -> None:
    bench.ask()
    bench.answer(error)
    assert (bench.told, len(bench.asked)) == ([{TP: error}], 1)


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("second", [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE])
def test_after_a_marker_in_between_the_coordinator_is_asked_once_more(
    bench: Bench, adds: bool, second: ErrorCode
) -> None:
    """The next transaction begins while the markers of the last are on their way: that is no reason to
    abort it."""
    bench.ask(adds=adds)
    bench.mark()
    bench.answer()
    assert (bench.told, len(bench.asked)) == ([], 2)
    bench.answer(second)
    assert (bench.told, len(bench.asked)) == ([{TP: second}], 2)


def test_not_for_ever(bench: Bench) -> None:
    bench.ask()
    for _ in range(ASKS_MAX):
        bench.mark()
        bench.answer()
    assert (bench.told, len(bench.asked)) == ([{TP: ErrorCode.INVALID_TXN_STATE}], ASKS_MAX)
