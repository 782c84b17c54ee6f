"""What a partition's log must still hold: the truth that the simulated log is compared with.

The ledger lives outside of the simulated process and knows every batch that was written, how far a sync
has come back, and what was damaged on purpose. After a crash it says how much must be there: after a kill
everything that was acknowledged, after a power cut everything that was synced. What is there beyond that
must still be what was written, in order and without a gap.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import BatchHeader, batches, crc_matches, read_records
from headrace.testing.disk import Crash
from headrace.testing.world import CheckFailedError

# A read this large returns whole segments of the small ones that scenarios use.
READ_BYTES: int = 1 << 20


@dataclass(slots=True)
class Written:
    """One batch as it was given to the log."""

    first: int
    values: list[bytes]
    timestamps: list[int]
    leader_epoch: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_damaged: bool = False

    @property
    def next(self) -> int:
        return self.first + len(self.values)


@dataclass(slots=True)
class Ledger:
    """The truth of one partition."""

    name: str
    start: int = 0
    written: list[Written] = field(default_factory=list)
    pending: Written | None = None
    synced_to: int = 0
    required_to: int = 0
    is_open: bool = False
    is_trusted: bool = True
    may_have_forgotten: bool = False
    epochs: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.written[-1].next if self.written else self.start

    # --- producers ---

    def sent_by(self, producer_id: int) -> list[Written]:
        """A producer's batches of its current epoch."""
        epoch = self.epochs.get(producer_id, 0)
        return [
            batch
            for batch in self.written
            if batch.producer_id == producer_id and batch.producer_epoch == epoch
        ]

    def number(self, batch: Written, producer_id: int) -> None:
        """Make it the next batch of this producer."""
        sent = self.sent_by(producer_id)
        batch.producer_id = producer_id
        batch.producer_epoch = self.epochs.get(producer_id, 0)
        batch.base_sequence = sent[-1].base_sequence + len(sent[-1].values) if sent else 0

    def begin_epoch(self, producer_id: int) -> None:
        """What a producer does whose sequence is refused."""
        self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1

    # --- what happens to the log ---

    def confirm(self) -> None:
        """The pending batch was acknowledged."""
        assert self.pending is not None
        self.written.append(self.pending)
        self.pending = None

    def synced(self, offset: int) -> None:
        """A sync came back: everything below is durable. After a failed one, no sync can be believed."""
        if self.is_trusted:
            self.synced_to = max(self.synced_to, offset)

    def sync_failed(self) -> None:
        self.is_trusted = False

    def crashed(self, how: Crash) -> None:
        if how is Crash.POWER_CUT:
            self.required_to = self.synced_to
        elif self.is_open:
            self.required_to = self.end
        self.is_open = False

    def damaged(self, offset: int) -> None:
        """The batch that holds `offset` was damaged: it may be cut off with everything behind it."""
        for batch in self.written:
            if batch.first <= offset < batch.next:
                batch.is_damaged = True
                self.synced_to = min(self.synced_to, batch.first)
                self.required_to = min(self.required_to, batch.first)

    @property
    def damaged_from(self) -> int:
        """The first damaged offset; the end where nothing is damaged."""
        return next((batch.first for batch in self.written if batch.is_damaged), self.end)

    # --- what must hold ---

    def reopened(self, log: PartitionLog | None) -> None:
        """Compare with the log as a new process finds it, and go on from there."""
        end = 0 if log is None else log.log_end_offset
        start = 0 if log is None else log.log_start_offset
        if self.pending is not None:
            # It was never acknowledged, and may be there or not.
            self.written.append(self.pending)
            self.pending = None
        if end < min(self.required_to, self.damaged_from):
            self._broken(f"ends at {end}, but everything below {self.required_to} was kept safe")
        self._cut(end)
        if start == end > self.end:
            # Everything was deleted durably up to here, and what was deleted has not come back.
            self.start, self.written = start, []
        if self.end != end:
            self._broken(f"ends at {end}, in the middle of a batch or behind all: {self.end} was written")
        if log is not None:
            self.check_all(log)
        # Producers come back from snapshots and batches: where batches are damaged, and the snapshot behind
        # them is too, nothing says what a producer sent last, and its next batch is refused.
        self.may_have_forgotten = any(batch.is_damaged for batch in self.written)
        self.is_open = True

    def _cut(self, end: int) -> None:
        self.written = [batch for batch in self.written if batch.next <= end]
        self.synced_to = min(self.synced_to, end)

    def check_all(self, log: PartitionLog) -> None:
        """Read the whole log as a consumer would."""
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            offset = self.check_read(log, offset, READ_BYTES)

    def check_read(self, log: PartitionLog, offset: int, max_bytes: int) -> int:
        """Read once and compare; returns the offset to go on from."""
        try:
            result = log.read(offset, max_bytes=max_bytes)
            data = result.chunk if isinstance(result.chunk, bytes) else result.chunk.read()
        except ApiError as error:
            return self._excuse(offset, f"cannot be read: {error}")
        following = offset
        try:
            for at, header in batches(data):
                if not crc_matches(data, at, header):
                    return self._excuse(following, "has a batch whose CRC does not match")
                following = self._compare(data, at, header, following)
        except InvalidBytesError as error:
            return self._excuse(following, f"has no batch: {error}")
        if following == offset:
            return self._excuse(offset, "gives nothing")
        return following

    def _compare(self, data: bytes, at: int, header: BatchHeader, following: int) -> int:
        expected = self.batch_at(following)
        if not self.is_trusted and header.base_offset > expected.first:
            # A failed sync drops what it should have written, and no later sync brings it back: a hole.
            expected = self.batch_at(header.base_offset)
        if header.base_offset != expected.first:
            self._broken(f"gives offset {header.base_offset} where {expected.first} should be")
        if header.leader_epoch != expected.leader_epoch:
            self._broken(f"offset {expected.first} has epoch {header.leader_epoch}")
        if [record.value for record in read_records(data, at)] != expected.values:
            self._broken(f"offset {expected.first} holds what was never written there")
        return expected.next

    def _excuse(self, offset: int, what: str) -> int:
        """A failed read is right where the batch, or one on the way to it, was damaged or never synced."""
        if offset < self.damaged_from and self.is_trusted:
            self._broken(f"offset {offset} {what}")
        return self.batch_at(offset).next

    def batch_at(self, offset: int) -> Written:
        for batch in self.written:
            if batch.first <= offset < batch.next:
                return batch
        self._broken(f"gives offset {offset}, where nothing was written")
        raise AssertionError

    def records(self, start: int) -> Iterator[tuple[int, int]]:
        """(offset, timestamp) of all records from `start` on."""
        for batch in self.written:
            for delta, timestamp in enumerate(batch.timestamps):
                if batch.first + delta >= start:
                    yield batch.first + delta, timestamp

    def _broken(self, what: str) -> None:
        raise CheckFailedError(f"{self.name} {what}")
