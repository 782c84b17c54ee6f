"""Idempotence: which batch has which sequence, and what an answer means for it (KIP-98, KIP-360).

A core: no IO, no time. Every partition has its own run of sequences under the producer's id and epoch. A
batch keeps its sequence over all attempts, so a broker that has it already says so instead of writing it
again, and one that misses an earlier one refuses it.

The first batch of a partition goes alone: until one is acknowledged, a broker takes any for the first. From
the oldest that is undecided on there are no more than five, decided or not: a broker does not know older ones
again, and they would be written twice. One that the broker calls out of order though a later one is
acknowledged is written: the later one could not have been otherwise.

Order over retries: batches that were sent before and came back are sent again one at a time, oldest first;
new ones may follow on the wire. A batch that was given up leaves its fate open, so nothing is renumbered for
it: if it was written, the next one fits; if not, the broker refuses the next one as out of order, and only
that proves the gap. Then the epoch is raised and what is left of the partition starts from 0 again, once
nothing of it is on the wire, so that no late answer can be mistaken. What still arrives of the old epoch is
refused by the broker.

Without idempotence the same book is kept, without sequences, for who is on the wire.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.ids import TopicPartition
from headrace.base.producer_id_and_epoch import EPOCH_MAX, NO_PRODUCER, ProducerIdAndEpoch
from headrace.clients.internals.producer.producer_batch import ProducerBatch
from headrace.records.batch import NO_SEQUENCE

BATCHES_KNOWN_AGAIN: Final = 5
_SEQUENCE_MASK: Final = 0x7FFFFFFF


class Verdict(Enum):
    """What an answer means for a batch."""

    WRITTEN = auto()
    RETRY = auto()
    FAILED = auto()


@dataclass(slots=True)
class PartitionRun:
    """The sequences of one partition."""

    identity: ProducerIdAndEpoch = NO_PRODUCER
    next_sequence: int = 0
    acked_sequence: int = -1  # the highest that is known to be written
    acked_offset: int = -1
    in_flight: list[ProducerBatch] = field(default_factory=list)  # sequenced and undecided, oldest first
    on_wire: int = 0
    numbered: int = 0  # batches that have had a sequence
    needs_new_epoch: bool = False


class Sequences:
    """The runs of all partitions, and the producer's identity."""

    def __init__(self, *, is_idempotent: bool, in_flight_max: int, is_transactional: bool = False) -> None:
        self.is_idempotent = is_idempotent
        self.is_transactional = is_transactional  # epochs are the coordinator's then
        self._in_flight_max = in_flight_max
        self.identity = NO_PRODUCER
        self._runs: dict[TopicPartition, PartitionRun] = {}

    @property
    def needs_identity(self) -> bool:
        return self.is_idempotent and self.identity == NO_PRODUCER

    def run(self, partition: TopicPartition) -> PartitionRun:
        found = self._runs.get(partition)
        if found is None:
            found = self._runs[partition] = PartitionRun()
        return found

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether this batch, the first in its queue, may leave now."""
        run = self.run(batch.partition)
        if self._in_flight_max == 1 and run.on_wire:
            return False
        if not self.is_idempotent:
            return True
        if run.needs_new_epoch:
            return False
        if batch.base_sequence != NO_SEQUENCE:
            return run.in_flight[0] is batch
        # A broker knows the last few batches of a producer again, and no older ones. Those that a former
        # leader was asked to write and never answered for count too: its followers may have them.
        if run.in_flight and run.numbered - run.in_flight[0].place >= BATCHES_KNOWN_AGAIN:
            return False
        # Behind a batch that has to be sent again, new ones wait until it is on the wire.
        if self._must_move(run) or not all(each.is_on_wire for each in run.in_flight):
            return False
        # A broker takes any sequence as the first of a producer that it does not know: were the first batch
        # refused, by a leader that is not ready yet, the second would be written in its place.
        return run.acked_sequence != NO_SEQUENCE or not run.on_wire

    def _must_move(self, run: PartitionRun) -> bool:
        """A new identity is taken up when nothing of the old one is undecided."""
        if run.identity == self.identity:
            return False
        if run.in_flight:
            return run.identity != NO_PRODUCER
        run.identity, run.next_sequence, run.acked_sequence = self.identity, 0, -1
        return False

    def sent(self, batch: ProducerBatch) -> None:
        """A batch goes on the wire; a new one gets its sequence."""
        run = self.run(batch.partition)
        run.on_wire += 1
        batch.is_on_wire = True
        batch.attempts += 1
        if self.is_idempotent and batch.base_sequence == NO_SEQUENCE:
            self._number(run, batch)
            run.in_flight.append(batch)

    def _number(self, run: PartitionRun, batch: ProducerBatch) -> None:
        batch.producer_id, batch.producer_epoch = run.identity
        batch.base_sequence = run.next_sequence
        batch.place = run.numbered
        run.numbered += 1
        run.next_sequence = (run.next_sequence + batch.count) & _SEQUENCE_MASK

    def back(self, batch: ProducerBatch) -> None:
        """A batch is off the wire: it was answered, or its connection is gone."""
        batch.is_on_wire = False
        self.run(batch.partition).on_wire -= 1

    def judge(self, batch: ProducerBatch, code: int, log_start_offset: int) -> Verdict:
        """What an answer's error code means for the batch; may ask for a new epoch."""
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return Verdict.WRITTEN
        if self.is_transactional and code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return Verdict.FAILED
        if self.is_idempotent:
            run = self.run(batch.partition)
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if _is_before(_last_sequence(batch), run.acked_sequence):
                    return Verdict.WRITTEN
                # An earlier batch is on its way again; without one there is a gap that nothing will fill.
                if run.in_flight and run.in_flight[0] is batch:
                    if self.is_transactional:
                        return Verdict.FAILED
                    run.needs_new_epoch = True
                return Verdict.RETRY
            if code == ErrorCode.UNKNOWN_PRODUCER_ID:
                # Without the log's start the answer does not tell whether our records were deleted.
                run.needs_new_epoch = run.needs_new_epoch or log_start_offset >= 0
                return Verdict.RETRY
        return Verdict.RETRY if code in RETRIABLE else Verdict.FAILED

    def written(self, batch: ProducerBatch, base_offset: int) -> None:
        """A batch is in the log: it is decided."""
        run = self.run(batch.partition)
        if batch in run.in_flight:
            run.in_flight.remove(batch)
            last = _last_sequence(batch)
            if not _is_before(last, run.acked_sequence):
                run.acked_sequence = last
        if base_offset >= 0:
            run.acked_offset = max(run.acked_offset, base_offset + batch.count - 1)

    def given_up(self, batch: ProducerBatch, *, is_unwritten: bool) -> None:
        """A batch has failed, or its time is up. Its sequence is free again if it is surely not written."""
        run = self.run(batch.partition)
        if batch not in run.in_flight:
            return
        is_last = run.in_flight[-1] is batch
        run.in_flight.remove(batch)
        if is_last and is_unwritten and batch.attempts == 1:
            run.next_sequence = batch.base_sequence

    def split(self, batch: ProducerBatch, parts: tuple[ProducerBatch, ...]) -> None:
        """A batch goes on as parts, with its sequences."""
        run = self.run(batch.partition)
        if batch in run.in_flight:
            at = run.in_flight.index(batch)
            for each in run.in_flight[at + 1 :]:
                each.place += len(parts) - 1
            for number, part in enumerate(parts):
                part.place = batch.place + number
            run.numbered += len(parts) - 1
            run.in_flight[at : at + 1] = parts

    def maybe_bump_epoch(self, partition: TopicPartition) -> bool:
        """Raise the epoch for a partition that needs it and has nothing on the wire; whether that was done.

        After the last epoch of an id a new id is needed: `needs_identity` says so.
        """
        run = self._runs.get(partition)
        if run is None or not run.needs_new_epoch or run.on_wire:
            return False
        if run.identity == self.identity:
            producer_id, epoch = self.identity
            self.identity = ProducerIdAndEpoch(producer_id, epoch + 1) if epoch < EPOCH_MAX else NO_PRODUCER
        if self.identity == NO_PRODUCER:
            return False
        run.identity, run.next_sequence, run.acked_sequence = self.identity, 0, -1
        run.needs_new_epoch = False
        for batch in run.in_flight:
            self._number(run, batch)
        return True

    def needing_epoch(self) -> list[TopicPartition]:
        """Partitions that wait for a new epoch."""
        return [partition for partition, run in self._runs.items() if run.needs_new_epoch]


def _last_sequence(batch: ProducerBatch) -> int:
    return (batch.base_sequence + batch.count - 1) & _SEQUENCE_MASK


def _is_before(sequence: int, other: int) -> bool:
    """Whether it comes before the other, or is the same; sequences begin at 0 again after the highest."""
    return other != NO_SEQUENCE and (other - sequence) & _SEQUENCE_MASK <= _SEQUENCE_MASK // 2
