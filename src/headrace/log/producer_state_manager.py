"""What a partition knows of its idempotent and transactional producers (KIP-98).

Per producer id: its epoch, its last five batches (a producer has at most five requests in flight), and where
its open transaction starts. `check` answers before a write, and changes nothing: a repeated batch gets the
offsets of its first arrival, a gap or an old epoch an error. `apply` follows the write, and is also how state
comes back at start-up, from a snapshot and the batches behind it. Followers apply without checks: the leader
has decided.

Transactions decide the last stable offset. One is open from its first batch to its marker, and counts as
unstable until the high watermark has passed the marker, because a marker that can still be lost has decided
nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH
from headrace.log.producer_snapshots import ProducerEntry
from headrace.log.transaction_index import AbortedTxn
from headrace.records.batch import BatchHeader, ControlType, read_txn_marker

BATCHES_KEPT: Final = 5
NO_OFFSET: Final = -1
NO_SEQUENCE: Final = -1


class BatchMetadata(NamedTuple):
    """A batch that was written: enough to answer its repetition."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTxn(NamedTuple):
    """A transaction whose marker was just written at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerStateEntry:
    """One producer's recent past in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.next_sequence = 0  # of the batch that would follow in order
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def use_epoch(self, epoch: int) -> None:
        """A new epoch starts its own sequence."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.next_sequence = 0
            self.batches.clear()

    def find(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


class ProducerStateManager:
    """All producers of one partition. `end_offset` is where replay would go on."""

    __slots__ = (
        "_first_unstable",
        "_open",
        "_undecided",
        "_verifying",
        "end_offset",
        "producers",
        "refusals",
    )

    def __init__(self) -> None:
        self.producers: dict[int, ProducerStateEntry] = {}
        self.end_offset = 0
        # First offsets of open transactions, in rising order because batches arrive so, with their producers.
        self._open: dict[int, int] = {}
        # First to last offset of transactions whose marker is not below the high watermark yet.
        self._undecided: dict[int, int] = {}
        self._first_unstable: int | None = None
        # Producers whose coordinator is being asked whether a transaction has come here.
        self._verifying: set[int] = set()
        self.refusals = RefusedBatches()

    def __len__(self) -> int:
        return len(self.producers)

    # -- deciding --------------------------------------------------------------------------------------------

    def check(self, header: BatchHeader, *, sequence: bool) -> BatchMetadata | None:
        """May this data batch be written? The earlier one where it is a repetition, ApiError where it may
        not.

        `sequence` is off for writers that are not clients and do not number their batches.
        """
        state = self.producers.get(header.producer_id)
        if state is None:
            if sequence and self.refusals:
                self.refusals.hold_back(header)
            return None  # unknown or expired: any sequence starts a new state (KIP-360)
        epoch = header.producer_epoch
        if epoch == state.epoch:
            if sequence and header.base_sequence != state.next_sequence:
                found = state.find(header.base_sequence, header.last_sequence)
                if found is not None:
                    return found
                self.refusals.hold_back(header)
                raise _out_of_order(header, state)
        elif epoch < state.epoch:
            raise _old_epoch(header, state)
        elif sequence and header.base_sequence != 0:
            self.refusals.hold_back(header)
            raise _out_of_order(header, state)
        if state.txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} wrote outside of the transaction it has open since offset "
                f"{state.txn_first_offset}",
            )
        return None

    def check_first(self, header: BatchHeader) -> None:
        """For producers that begin at 0 in each transaction: one that is not known here cannot be further."""
        if header.base_sequence and header.producer_id not in self.producers:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} is not known here and sent sequence {header.base_sequence}; "
                "a transaction begins with 0",
            )

    def continues(self, header: BatchHeader) -> bool:
        """Whether a damaged data batch says nothing but what was to be expected next of its producer.

        Of a producer that is not known that is any batch outside of a transaction: to remember one that never
        was does no harm.
        """
        if header.is_control or header.record_count != header.last_offset_delta + 1:
            return False
        state = self.producers.get(header.producer_id)
        if state is None:
            return not header.is_transactional
        return (
            header.producer_epoch == state.epoch
            and header.base_sequence == state.next_sequence
            and header.is_transactional == (state.txn_first_offset != NO_OFFSET)
        )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """May this transaction marker be written?"""
        state = self.producers.get(header.producer_id)
        if state is None:
            return
        if header.producer_epoch < state.epoch:
            raise _old_epoch(header, state)
        if coordinator_epoch < state.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {state.coordinator_epoch}, last seen "
                f"of producer {header.producer_id}",
            )

    def begin_verification(self, producer_id: int) -> None:
        """The coordinator is asked about a first write: until it has answered, a marker voids the question
        (KIP-890)."""
        self._verifying.add(producer_id)

    def end_verification(self, producer_id: int) -> bool:
        """The coordinator has answered: whether no marker came in between."""
        is_valid = producer_id in self._verifying
        self._verifying.discard(producer_id)
        return is_valid

    # -- applying --------------------------------------------------------------------------------------------

    def apply(self, header: BatchHeader, batch: Buffer) -> CompletedTxn | None:
        """Take in a batch that is in the log, with its final offsets; tells of the transaction a marker
        ended."""
        self.end_offset = header.base_offset + header.last_offset_delta + 1
        if header.producer_id < 0:
            return None
        if header.is_control:
            return self._apply_marker(header, batch) if header.record_count else None
        self.apply_data(header, header.base_offset)
        return None

    def apply_data(self, header: BatchHeader, first_offset: int) -> None:
        """A data batch that starts at `first_offset`."""
        state = self.producers.get(header.producer_id)
        if state is None:
            state = self.producers[header.producer_id] = ProducerStateEntry(header.producer_id)
        if header.producer_epoch != state.epoch:
            state.use_epoch(header.producer_epoch)
        if self.refusals:
            self.refusals.forget(header.producer_id)
        last_offset = first_offset + header.last_offset_delta
        last_sequence = header.last_sequence
        state.batches.append(
            BatchMetadata(
                header.base_sequence, last_sequence, first_offset, last_offset, header.max_timestamp
            )
        )
        if len(state.batches) > BATCHES_KEPT:
            del state.batches[0]
        state.next_sequence = last_sequence + 1 & 0x7FFFFFFF
        state.last_timestamp = header.max_timestamp
        self.end_offset = last_offset + 1
        if header.is_transactional and state.txn_first_offset == NO_OFFSET:
            state.txn_first_offset = first_offset
            self._open[first_offset] = header.producer_id
            if self._first_unstable is None:
                self._first_unstable = first_offset

    def _apply_marker(self, header: BatchHeader, batch: Buffer) -> CompletedTxn | None:
        control_type, coordinator_epoch = read_txn_marker(batch)
        if control_type not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        self._verifying.discard(header.producer_id)
        state = self.producers.get(header.producer_id)
        if state is None:
            state = self.producers[header.producer_id] = ProducerStateEntry(header.producer_id)
        first_offset, state.txn_first_offset = state.txn_first_offset, NO_OFFSET
        state.use_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = header.max_timestamp
        if first_offset == NO_OFFSET:
            return None  # a transaction that wrote nothing here changes nothing for readers
        aborted = control_type == ControlType.ABORT
        return CompletedTxn(header.producer_id, first_offset, header.base_offset, aborted)

    def complete(self, txn: CompletedTxn) -> AbortedTxn | None:
        """Close a transaction; the index entry it needs where it was aborted."""
        self._open.pop(txn.first_offset, None)
        stable = next(iter(self._open), txn.last_offset + 1)
        self._undecided[txn.first_offset] = txn.last_offset
        self._find_first_unstable()
        if not txn.aborted:
            return None
        return AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable)

    # -- the last stable offset ------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker may still be lost."""
        return self._first_unstable

    def on_high_watermark(self, high_watermark: int) -> None:
        if self._undecided:
            decided = [first for first, last in self._undecided.items() if last < high_watermark]
            for first in decided:
                del self._undecided[first]
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        first = next(iter(self._open), None)
        if self._undecided:
            undecided = min(self._undecided)
            first = undecided if first is None else min(first, undecided)
        self._first_unstable = first

    # -- forgetting and restoring ----------------------------------------------------------------------------

    def expire(self, now_ms: int, expiry_ms: int) -> None:
        """Forget producers that were silent for `expiry_ms` and have no transaction open."""
        for producer_id in [s.producer_id for s in self.producers.values() if _expired(s, now_ms, expiry_ms)]:
            del self.producers[producer_id]

    def on_log_start(self, log_start_offset: int) -> None:
        """Transactions that ended below the log's start are nobody's concern any more."""
        if self._undecided:
            for first in [f for f, last in self._undecided.items() if last < log_start_offset]:
                del self._undecided[first]
            self._find_first_unstable()
        self.end_offset = max(self.end_offset, log_start_offset)

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.refusals.clear()
        self._open.clear()
        self._undecided.clear()
        self._first_unstable = None
        self.end_offset = end_offset

    def snapshot(self) -> list[ProducerEntry]:
        """What a snapshot at `end_offset` holds."""
        entries = []
        for state in self.producers.values():
            last = state.batches[-1] if state.batches else BatchMetadata(0, NO_SEQUENCE, 0, NO_OFFSET, -1)
            entries.append(
                ProducerEntry(
                    state.producer_id,
                    state.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.last_offset - last.first_offset if state.batches else 0,
                    state.last_timestamp,
                    state.coordinator_epoch,
                    state.txn_first_offset,
                )
            )
        return entries

    def restore(
        self, entries: Iterable[ProducerEntry], end_offset: int, *, now_ms: int, expiry_ms: int
    ) -> None:
        """Become what a snapshot at `end_offset` held, without producers that have expired since."""
        self.clear(end_offset)
        for entry in entries:
            state = _restored(entry)
            if not _expired(state, now_ms, expiry_ms):
                self.producers[state.producer_id] = state
        opened = [s for s in self.producers.values() if s.txn_first_offset != NO_OFFSET]
        for state in sorted(opened, key=lambda s: s.txn_first_offset):
            self._open[state.txn_first_offset] = state.producer_id
        self._find_first_unstable()


def _restored(entry: ProducerEntry) -> ProducerStateEntry:
    state = ProducerStateEntry(entry.producer_id)
    state.epoch = entry.epoch
    state.coordinator_epoch = entry.coordinator_epoch
    state.last_timestamp = entry.timestamp
    state.txn_first_offset = entry.txn_first_offset
    if entry.last_offset >= 0:
        # A batch has as many sequences as offsets, so the delta serves both.
        first_sequence = entry.last_sequence - entry.offset_delta & 0x7FFFFFFF
        first_offset = entry.last_offset - entry.offset_delta
        mark = BatchMetadata(
            first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp
        )
        state.batches.append(mark)
        state.next_sequence = entry.last_sequence + 1 & 0x7FFFFFFF
    return state


def _expired(state: ProducerStateEntry, now_ms: int, expiry_ms: int) -> bool:
    return state.txn_first_offset == NO_OFFSET and now_ms - state.last_timestamp >= expiry_ms


def _old_epoch(header: BatchHeader, state: ProducerStateEntry) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} has epoch {state.epoch} here, the batch has {header.producer_epoch}",
    )


def _out_of_order(header: BatchHeader, state: ProducerStateEntry) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence} of epoch "
        f"{header.producer_epoch}; {state.next_sequence} of epoch {state.epoch} would follow",
    )


# -- refused batches -----------------------------------------------------------------------------------------

BEHIND_MAX: Final = 4
"""What a producer may have on the wire behind a batch."""

PRODUCERS_MAX: Final = 1000
"""The refusals that are remembered: more, and the oldest are forgotten, as by a leader that restarts."""

PASSING: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Reasons that have nothing to do with the batch."""


@dataclass(slots=True)
class RefusedBatch:
    """The first batch that was refused; `behind` is how many more may still be answered like it."""

    epoch: int
    sequence: int
    code: ErrorCode
    behind: int = BEHIND_MAX


class RefusedBatches:
    """Batches of a partition that its leader refused through no fault of theirs, by producer.

    A producer has up to five requests on the wire. Where one is refused because replicas are missing, the
    disk is full or the node does not lead yet, those behind it arrive all the same, perhaps when the reason
    is gone. To a leader that forgot, the second looks like a gap; of a producer that it does not know yet, it
    even looks like a beginning, and the first could never be written any more. librdkafka takes an "out of
    order" there as a reason to number everything from 0, and writes twice what it had no answer for on other
    partitions.

    So the ones behind get the same answer as the first, until it comes again. Only as many as can have been
    on the wire: a producer that gave the first one up must hear of the gap.
    """

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, RefusedBatch] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def note(self, header: BatchHeader, code: ErrorCode) -> None:
        """A numbered batch that would have been the next of its producer is refused."""
        if code not in PASSING:
            return
        known = self._of.pop(header.producer_id, None)
        if (
            known is not None
            and known.epoch == header.producer_epoch
            and known.sequence != header.base_sequence
        ):
            self._of[header.producer_id] = known  # one behind the first
            return
        if len(self._of) >= PRODUCERS_MAX:
            del self._of[next(iter(self._of))]
        self._of[header.producer_id] = RefusedBatch(header.producer_epoch, header.base_sequence, code)

    def hold_back(self, header: BatchHeader) -> None:
        """ApiError where a batch that is not the next one came behind one that was refused."""
        refusal = self._of.get(header.producer_id)
        if refusal is None or refusal.epoch != header.producer_epoch or refusal.behind == 0:
            return
        if refusal.sequence != header.base_sequence:
            refusal.behind -= 1
            raise ApiError(
                refusal.code,
                f"producer {header.producer_id} sent sequence {header.base_sequence} behind "
                f"{refusal.sequence}, which was refused: send that one again first",
            )

    def forget(self, producer_id: int) -> None:
        """A batch of the producer was written."""
        self._of.pop(producer_id, None)

    def clear(self) -> None:
        self._of.clear()
