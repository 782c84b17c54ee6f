"""Sequences, epochs, duplicates, expiry, snapshots."""

import struct

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.producer_snapshots import ProducerEntry, decode_snapshot, encode_snapshot
from headrace.log.producer_state_manager import ProducerStateManager
from headrace.records.batch import read_header
from tests.log.building import NOW_MS, marker, sequenced

SEQUENCE_MAX = 2**31 - 1


def header_of(batch):
    return read_header(batch)


class Partition:
    """Checks and applies batches as a log does, without one."""

    def __init__(self):
        self.states = ProducerStateManager()
        self.end = 0

    def send(self, sequence, count=1, *, producer_id=9, epoch=0, transactional=False):
        batch = sequenced(producer_id, epoch, sequence, count, transactional=transactional)
        header = header_of(batch)
        duplicate = self.states.check(header, sequence=True)
        if duplicate is not None:
            return duplicate.first_offset, duplicate.last_offset
        first = self.end
        self.states.apply_data(header, first)
        self.end += count
        return first, self.end - 1

    def end_txn(self, *, commit, producer_id=9, epoch=0, coordinator_epoch=0):
        batch = marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch)
        header = header_of(batch)._replace(base_offset=self.end)
        self.states.check_marker(header, coordinator_epoch)
        self.end += 1
        completed = self.states.apply(header, batch)
        return self.states.complete(completed) if completed else None


@pytest.fixture
def partition():
    return Partition()


def refused(code, act, *args, **kwargs):
    with pytest.raises(ApiError) as raised:
        act(*args, **kwargs)
    assert raised.value.code is code


def test_sequences_in_order(partition):
    assert partition.send(0, 3) == (0, 2)
    assert partition.send(3) == (3, 3)
    assert partition.send(4, 2) == (4, 5)


def test_an_unknown_producer_may_start_anywhere(partition):
    assert partition.send(17) == (0, 0)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.send, 17 + 2)
    assert partition.send(18) == (1, 1)


def test_a_gap_is_refused_and_changes_nothing(partition):
    partition.send(0)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.send, 2)
    assert partition.send(1) == (1, 1)


def test_duplicates_get_their_first_offsets_as_far_back_as_five_batches(partition):
    sent = {sequence: partition.send(sequence, 2) for sequence in range(0, 14, 2)}
    for sequence in (4, 6, 8, 10, 12):
        assert partition.send(sequence, 2) == sent[sequence]
    for sequence in (0, 2):
        refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.send, sequence, 2)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.send, 12, 1)


def test_sequences_wrap(partition):
    partition.send(SEQUENCE_MAX - 1)
    first = partition.send(SEQUENCE_MAX, 3)  # MAX, 0, 1
    assert partition.send(SEQUENCE_MAX, 3) == first
    assert partition.send(2) == (4, 4)
    other = Partition()
    other.send(SEQUENCE_MAX)
    assert other.send(0) == (1, 1)


def test_epochs(partition):
    partition.send(5, epoch=3)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.send, 6, epoch=2)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.send, 6, epoch=4)
    assert partition.send(0, epoch=4) == (1, 1)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.send, 6, epoch=3)


def test_producers_do_not_know_each_other(partition):
    partition.send(0, producer_id=1)
    assert partition.send(0, producer_id=2) == (1, 1)
    assert len(partition.states) == 2


def test_a_marker_with_a_higher_epoch_starts_a_new_sequence(partition):
    """Transactions of version 2 bump the epoch with every marker (KIP-890)."""
    partition.send(0, 4, transactional=True)
    partition.end_txn(commit=True, epoch=1)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.send, 4, transactional=True)
    assert partition.send(0, epoch=1, transactional=True) == (5, 5)


def test_a_marker_with_the_same_epoch_keeps_the_sequence(partition):
    partition.send(0, 4, transactional=True)
    partition.end_txn(commit=True)
    assert partition.send(4, transactional=True) == (5, 5)


def test_markers_are_fenced_by_epoch_and_coordinator(partition):
    partition.send(0, epoch=2, transactional=True)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.end_txn, commit=True, epoch=1)
    partition.end_txn(commit=True, epoch=2, coordinator_epoch=5)
    partition.send(1, epoch=2, transactional=True)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        partition.end_txn,
        commit=False,
        epoch=2,
        coordinator_epoch=4,
    )


def test_no_plain_batch_inside_of_a_transaction(partition):
    partition.send(0, transactional=True)
    refused(ErrorCode.INVALID_TXN_STATE, partition.send, 1)


def test_unstable_until_the_marker_is_replicated(partition):
    states = partition.states
    assert states.first_unstable_offset is None
    partition.send(0, producer_id=1, transactional=True)  # 0
    partition.send(0, 2, producer_id=2, transactional=True)  # 1, 2
    assert states.first_unstable_offset == 0
    assert partition.end_txn(commit=False, producer_id=2) == (2, 1, 3, 0)
    assert partition.end_txn(commit=True, producer_id=1) is None  # 4
    assert states.first_unstable_offset == 0
    states.on_high_watermark(4)
    assert states.first_unstable_offset == 0
    states.on_high_watermark(5)
    assert states.first_unstable_offset is None


def test_the_last_stable_offset_of_an_entry_is_the_next_open_transaction(partition):
    partition.send(0, producer_id=1, transactional=True)  # 0
    partition.send(0, producer_id=2, transactional=True)  # 1
    aborted = partition.end_txn(commit=False, producer_id=1)  # 2
    assert aborted.last_stable_offset == 1
    aborted = partition.end_txn(commit=False, producer_id=2)  # 3
    assert aborted.last_stable_offset == 4


def test_a_marker_without_records_changes_nothing_for_readers(partition):
    assert partition.end_txn(commit=False) is None
    assert partition.states.first_unstable_offset is None


def test_silent_producers_expire_unless_a_transaction_is_open(partition):
    partition.send(0, producer_id=1)
    partition.send(0, producer_id=2, transactional=True)
    partition.states.expire(NOW_MS + 999, 1000)
    assert set(partition.states.producers) == {1, 2}
    partition.states.expire(NOW_MS + 1000, 1000)
    assert set(partition.states.producers) == {2}
    assert partition.send(33, producer_id=1) == (2, 2)


def test_a_snapshot_restores_all_that_counts(partition):
    partition.send(SEQUENCE_MAX, 3, producer_id=1)
    partition.send(0, 2, producer_id=2, transactional=True)
    partition.send(0, producer_id=3, transactional=True)
    partition.end_txn(commit=True, producer_id=3, coordinator_epoch=8)
    entries = decode_snapshot(encode_snapshot(partition.states.snapshot()))
    restored = Partition()
    restored.end = partition.end
    restored.states.restore(entries, partition.end, now_ms=NOW_MS, expiry_ms=1000)
    assert restored.states.snapshot() == partition.states.snapshot()
    assert restored.states.first_unstable_offset == 3
    assert restored.send(SEQUENCE_MAX, 3, producer_id=1) == (0, 2)
    assert restored.send(2, producer_id=1) == (7, 7)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        restored.end_txn,
        commit=True,
        producer_id=3,
        coordinator_epoch=7,
    )


def test_expired_producers_are_not_restored(partition):
    partition.send(0, producer_id=1)
    partition.send(0, producer_id=2, transactional=True)
    restored = ProducerStateManager()
    restored.restore(partition.states.snapshot(), 2, now_ms=NOW_MS + 1000, expiry_ms=1000)
    assert set(restored.producers) == {2}


def test_the_bytes_of_a_snapshot_are_kafkas():
    """Written by Apache Kafka 4.3.1 for one transactional producer."""
    data = bytes.fromhex(
        "00010e774d5b0000000100000000000000010000000019630000000000"
        "00196f000001f3000001a1deae1acb00000000ffffffffffffffff"
    )
    entries = decode_snapshot(data)
    assert entries == [ProducerEntry(1, 0, 6499, 6511, 499, 1794737314507, 0, -1)]
    assert encode_snapshot(entries) == data


@pytest.mark.parametrize("at", [0, 3, 8, 20, -1])
def test_a_changed_snapshot_is_told(at):
    data = bytearray(encode_snapshot([ProducerEntry(1, 0, 5, 6, 1, NOW_MS, 0, -1)]))
    data[at] ^= 1
    with pytest.raises(InvalidBytesError):
        decode_snapshot(bytes(data))


def test_a_cut_snapshot_is_told():
    data = encode_snapshot([ProducerEntry(1, 0, 5, 6, 1, NOW_MS, 0, -1)])
    for size in (0, 5, 9, len(data) - 1):
        with pytest.raises(InvalidBytesError):
            decode_snapshot(data[:size])
    assert struct.unpack_from(">h", data) == (1,)


def test_a_transaction_of_its_own_epoch_begins_with_0(partition):
    def first(sequence):
        return header_of(sequenced(9, 3, sequence, 1, transactional=True))

    with pytest.raises(ApiError) as refused:
        partition.states.check_first(first(2))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.states.check_first(first(0))
    partition.send(0, epoch=3, transactional=True)
    partition.states.check_first(first(2))
