"""Mistakes that a coordinator or a log could make, made on purpose: the rules of txn_world.py find each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.coordinators.txn import beginning
from headrace.coordinators.txn.markers import Markers
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import Transaction
from headrace.log import read
from headrace.log.partition_log import PartitionLog
from headrace.log.producer_states import ProducerStates
from tests.simulation.txn_world import TxnWorld

pytestmark = pytest.mark.slow

SEEDS = range(1, 4)
Patch = pytest.MonkeyPatch


def _nothing_is_told_aborted(patch: Patch) -> None:
    patch.setattr(read, "aborted_transactions", lambda log, first, upto: [])


def _readers_pass_open_transactions(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def _one_partition_is_not_told(patch: Patch) -> None:
    def begin(own: Markers, txn: Transaction, coordinator_epoch: int) -> None:
        told = frozenset(sorted(txn.partitions)[:1])
        rightly(own, replace(txn, partitions=told), coordinator_epoch)

    rightly = Markers.begin
    patch.setattr(Markers, "begin", begin)


def _a_fence_keeps_the_epoch(patch: Patch) -> None:
    def fence(txn: Transaction) -> Transaction:
        return txn.moved(TxnState.PREPARE_EPOCH_FENCE)

    def begin_use(txn: Transaction | None, *rest: Any, **options: Any) -> Transaction:
        begun = rightly(txn, *rest, **options)
        if txn is None or begun.state is not TxnState.EMPTY:
            return begun
        return begun.moved(TxnState.EMPTY, producer_epoch=txn.producer_epoch)

    rightly = beginning.begin_use
    patch.setattr(beginning, "fence", fence)
    patch.setattr(beginning, "begin_use", begin_use)
    patch.setattr(ProducerStates, "check", lambda states, header, *, sequence: None)


@pytest.mark.parametrize(
    "mistake",
    [
        _nothing_is_told_aborted,
        _readers_pass_open_transactions,
        _one_partition_is_not_told,
        _a_fence_keeps_the_epoch,
    ],
)
def test_a_mistake_is_found(mistake: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    for seed in SEEDS:
        try:
            TxnWorld(seed, writers=3, kills=4).play()
        except Exception as found:
            print(f"seed {seed}: {found}")
            return
    raise AssertionError(f"{mistake.__name__} was not found with the seeds {SEEDS}")
