"""Mistakes that a coordinator, a log or a client could make, made on purpose: each anomaly that
txn_checker.py knows is found, with one of the first three seeds.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch
from headrace.coordinators.coordinator_shard import Done
from headrace.coordinators.drivers.transaction_coordinator import TransactionCoordinator
from headrace.coordinators.drivers.transaction_marker_channel_manager import TransactionMarkerChannelManager
from headrace.coordinators.txn import transitions
from headrace.coordinators.txn.transaction_metadata import TransactionMetadata, TransactionState
from headrace.coordinators.txn.transaction_state_manager import TransactionStateManager
from headrace.log import read
from headrace.log.producer_state_manager import BatchMetadata, ProducerStateEntry, ProducerStateManager
from headrace.log.unified_log import UnifiedLog
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
    patch.setattr(UnifiedLog, "last_stable_offset", property(lambda log: log.high_watermark))


def _one_partition_is_not_told(patch: Patch) -> None:
    def add_markers_to_send(
        own: TransactionMarkerChannelManager, txn: TransactionMetadata, coordinator_epoch: int
    ) -> None:
        told = frozenset(sorted(txn.partitions)[:1])
        rightly(own, replace(txn, partitions=told), coordinator_epoch)

    rightly = TransactionMarkerChannelManager.add_markers_to_send
    patch.setattr(TransactionMarkerChannelManager, "add_markers_to_send", add_markers_to_send)


def _nobody_looks_at_the_time(patch: Patch) -> None:
    patch.setattr(TransactionCoordinator, "_abort_timed_out", lambda own: None)


def _leaders_elsewhere_are_told_to_abort(patch: Patch) -> None:
    def ask(own: TransactionMarkerChannelManager, leader: int, rows: Any) -> None:
        def send(leader: int, request: WriteTxnMarkersRequest) -> Any:
            wrong = [replace(each, transaction_result=False) for each in request.markers]
            return rightly_sent(leader, WriteTxnMarkersRequest(wrong))

        rightly_sent, own._send = own._send, send
        try:
            rightly(own, leader, rows)
        finally:
            own._send = rightly_sent

    rightly = TransactionMarkerChannelManager._ask
    patch.setattr(TransactionMarkerChannelManager, "_ask", ask)


def _the_decision_is_answered_before_it_is_durable(patch: Patch) -> None:
    """By a moment: the record follows, unless the coordinator ends before."""

    def prepare(
        own: TransactionCoordinator, shard: TransactionStateManager, txn: TransactionMetadata, done: Done
    ) -> None:
        done(ErrorCode.NONE)
        own._loop.call_later(0.1, rightly, own, shard, txn, lambda error: None)

    rightly = TransactionCoordinator._prepare
    patch.setattr(TransactionCoordinator, "_prepare", prepare)


def _a_fence_keeps_the_epoch(patch: Patch) -> None:
    def fence(txn: TransactionMetadata) -> TransactionMetadata:
        return txn.transition_to(TransactionState.PREPARE_EPOCH_FENCE)

    def init_producer_id(txn: TransactionMetadata | None, *rest: Any, **options: Any) -> TransactionMetadata:
        begun = rightly(txn, *rest, **options)
        if txn is None or begun.state is not TransactionState.EMPTY:
            return begun
        return begun.transition_to(TransactionState.EMPTY, producer_epoch=txn.producer_epoch)

    rightly = transitions.init_producer_id
    patch.setattr(transitions, "fence_producer_epoch", fence)
    patch.setattr(transitions, "init_producer_id", init_producer_id)
    patch.setattr(ProducerStateManager, "check", lambda states, header, *, sequence: None)


def _a_repetition_is_written_again(patch: Patch) -> None:
    def check(states: ProducerStateManager, header: BatchHeader, *, sequence: bool) -> BatchMetadata | None:
        rightly(states, header, sequence=sequence)
        return None

    rightly = ProducerStateManager.check
    patch.setattr(ProducerStateManager, "check", check)


def _a_new_epoch_is_taken_for_a_repetition(patch: Patch) -> None:
    """Its sequence starts anew, and the last batches of the old one are not forgotten."""

    def use_epoch(state: ProducerStateEntry, epoch: int) -> None:
        state.epoch = epoch

    patch.setattr(ProducerStateEntry, "use_epoch", use_epoch)


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

    def is_aborted(chunk: CompletedFetch, at: int, header: BatchHeader) -> bool:
        before = set(chunk._aborting)
        found = rightly(chunk, at, header)
        chunk._aborting |= before
        return found

    rightly = CompletedFetch._is_aborted
    patch.setattr(CompletedFetch, "_is_aborted", is_aborted)


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
