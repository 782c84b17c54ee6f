"""Mistakes that a coordinator, a log or a client could make, made on purpose: each anomaly that
txn_checker.py knows is found, with one of the first three seeds.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.consuming.async_face import AsyncConsumer
from headrace.clients.consuming.records import Chunk
from headrace.coordinators.runtime import Done
from headrace.coordinators.txn import beginning
from headrace.coordinators.txn.coordinator import TxnCoordinator
from headrace.coordinators.txn.machine import TxnMachine
from headrace.coordinators.txn.markers import Markers
from headrace.coordinators.txn.states import TxnState
from headrace.coordinators.txn.transaction import Transaction
from headrace.log import read
from headrace.log.partition_log import PartitionLog
from headrace.log.producer_states import BatchMark, ProducerState, ProducerStates
from headrace.records.batch import BatchHeader
from headrace.replication.partition import Partition
from headrace.wire.schemas.write_txn_markers import WriteTxnMarkersRequest
from tests.simulation.txn_checker import AnomalyError, Kind
from tests.simulation.txn_world import TxnWorld

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = range(1, 31)
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


def _nobody_looks_at_the_time(patch: Patch) -> None:
    patch.setattr(TxnCoordinator, "_abort_overdue", lambda own: None)


def _leaders_elsewhere_are_told_to_abort(patch: Patch) -> None:
    def ask(own: Markers, leader: int, rows: Any) -> None:
        def send(leader: int, request: WriteTxnMarkersRequest) -> Any:
            wrong = [replace(each, transaction_result=False) for each in request.markers]
            return rightly_sent(leader, WriteTxnMarkersRequest(wrong))

        rightly_sent, own._send = own._send, send
        try:
            rightly(own, leader, rows)
        finally:
            own._send = rightly_sent

    rightly = Markers._ask
    patch.setattr(Markers, "_ask", ask)


def _the_decision_is_answered_before_it_is_durable(patch: Patch) -> None:
    """By a moment: the record follows, unless the coordinator ends before."""

    def prepare(own: TxnCoordinator, machine: TxnMachine, txn: Transaction, done: Done) -> None:
        done(ErrorCode.NONE)
        own._loop.call_later(0.1, rightly, own, machine, txn, lambda error: None)

    rightly = TxnCoordinator._prepare
    patch.setattr(TxnCoordinator, "_prepare", prepare)


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


def _a_repetition_is_written_again(patch: Patch) -> None:
    def check(states: ProducerStates, header: BatchHeader, *, sequence: bool) -> BatchMark | None:
        rightly(states, header, sequence=sequence)
        return None

    rightly = ProducerStates.check
    patch.setattr(ProducerStates, "check", check)


def _a_new_epoch_is_taken_for_a_repetition(patch: Patch) -> None:
    """Its sequence starts anew, and the last batches of the old one are not forgotten."""

    def use_epoch(state: ProducerState, epoch: int) -> None:
        state.epoch = epoch

    patch.setattr(ProducerState, "use_epoch", use_epoch)


def _a_new_leader_cuts_to_its_high_watermark(patch: Patch) -> None:
    """As Kafka did before KIP-101: a follower's high watermark is behind what was acknowledged."""

    def enter_epoch(partition: Partition) -> None:
        log = partition.log
        if log is not None:
            log.truncate_to(log.high_watermark, now_ms=0)
        rightly(partition)

    rightly = Partition.enter_epoch
    patch.setattr(Partition, "enter_epoch", enter_epoch)


def _a_leader_answers_before_the_others_have_it(patch: Patch) -> None:
    """If it ends now, the next one gives the same offsets to others."""

    def replicated_to(partition: Partition, offset: int) -> bool:
        return partition.log is not None and partition.log.log_end_offset >= offset

    patch.setattr(Partition, "replicated_to", replicated_to)


def _who_aborted_once_is_passed_over(patch: Patch) -> None:
    """In what came with one answer of the broker."""

    def is_aborted(chunk: Chunk, at: int, header: BatchHeader) -> bool:
        before = set(chunk._aborting)
        found = rightly(chunk, at, header)
        chunk._aborting |= before
        return found

    rightly = Chunk._is_aborted
    patch.setattr(Chunk, "_is_aborted", is_aborted)


def _a_reader_goes_on_one_record_too_early(patch: Patch) -> None:
    def seek(consumer: AsyncConsumer, partition: TopicPartition, offset: int) -> None:
        rightly(consumer, partition, max(0, offset - 1))

    rightly = AsyncConsumer.seek
    patch.setattr(AsyncConsumer, "seek", seek)


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        (_nothing_is_told_aborted, Kind.ABORTED_READ),
        (_readers_pass_open_transactions, Kind.INTERMEDIATE_READ),
        (_one_partition_is_not_told, Kind.HANGING),
        (_nobody_looks_at_the_time, Kind.HANGING),
        (_leaders_elsewhere_are_told_to_abort, Kind.TORN),
        (_the_decision_is_answered_before_it_is_durable, Kind.LOST_WRITE),
        (_a_fence_keeps_the_epoch, Kind.ZOMBIE),
        (_a_repetition_is_written_again, Kind.DUPLICATE_WRITE),
        (_a_new_epoch_is_taken_for_a_repetition, Kind.LOST_WRITE),
        (_a_new_leader_cuts_to_its_high_watermark, Kind.LOST_WRITE),
        (_a_leader_answers_before_the_others_have_it, Kind.DUPLICATE_OFFSET),
        (_who_aborted_once_is_passed_over, Kind.POLL_SKIP),
        (_a_reader_goes_on_one_record_too_early, Kind.NON_MONOTONIC),
    ],
)
def test_a_mistake_is_found(mistake: Callable[[Patch], None], kind: Kind, monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    for seed in SEEDS:
        try:
            TxnWorld(seed, writers=3, kills=4).play()
        except AnomalyError as found:
            print(f"seed {seed}: {found}")
            if kind in found.kinds:
                return
    raise AssertionError(f"{mistake.__name__} is not found as {kind.value} with the seeds {SEEDS}")
