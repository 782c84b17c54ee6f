"""The log on a disk that cannot be trusted: appends, syncs, rolls and reads, and every way to be interrupted.

Rules: what was synced survives a power cut, what was acknowledged survives a kill; what is damaged is
never given out as good; an idempotent producer's repetition is recognised; times are found where they are;
the log always opens again, and appends again once faults stop.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.flush import Flush
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import BatchHeader, Record, batches, build_batch, crc_matches, read_records
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.nemesis import CRASHES, Nemesis, Trouble
from headrace.testing.scenarios.one_disk import DiskFailedError, OneDisk, OneLife
from headrace.testing.world import CheckFailedError, World

# A read this large returns whole segments of the small ones that scenarios use.
READ_BYTES: int = 1 << 20


@dataclass(slots=True)
class WrittenBatch:
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
class LogLedger:
    """What a partition's log must still hold: the truth that the simulated log is compared with.

    It lives outside of the simulated process and knows every batch that was written, how far a sync has come
    back, and what was damaged on purpose. After a crash it says how much must be there: after a kill
    everything that was acknowledged, after a power cut everything that was synced. What is there beyond that
    must still be what was written, in order and without a gap.
    """

    name: str
    start: int = 0
    written: list[WrittenBatch] = field(default_factory=list)
    pending: WrittenBatch | None = None
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

    def sent_by(self, producer_id: int) -> list[WrittenBatch]:
        """A producer's batches of its current epoch."""
        epoch = self.epochs.get(producer_id, 0)
        return [
            batch
            for batch in self.written
            if batch.producer_id == producer_id and batch.producer_epoch == epoch
        ]

    def number(self, batch: WrittenBatch, producer_id: int) -> None:
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

    def reopened(self, log: UnifiedLog | None) -> None:
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

    def check_all(self, log: UnifiedLog) -> None:
        """Read the whole log as a consumer would."""
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            offset = self.check_read(log, offset, READ_BYTES)

    def check_read(self, log: UnifiedLog, offset: int, max_bytes: int) -> int:
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
                following = self._compare(log, data, at, header, following)
        except InvalidBytesError as error:
            return self._excuse(following, f"has no batch: {error}")
        if following == offset:
            return self._excuse(offset, "gives nothing")
        return following

    def _compare(self, log: UnifiedLog, data: bytes, at: int, header: BatchHeader, following: int) -> int:
        expected = self.batch_at(following)
        if header.base_offset > expected.first and self._may_skip(log, expected, header.base_offset):
            expected = self.batch_at(header.base_offset)
        if header.base_offset != expected.first:
            self._broken(f"gives offset {header.base_offset} where {expected.first} should be")
        if header.leader_epoch != expected.leader_epoch:
            self._broken(f"offset {expected.first} has epoch {header.leader_epoch}")
        if [record.value for record in read_records(data, at)] != expected.values:
            self._broken(f"offset {expected.first} holds what was never written there")
        return expected.next

    def _may_skip(self, log: UnifiedLog, expected: WrittenBatch, base_offset: int) -> bool:
        """A failed sync drops what it should have written, and no later sync brings it back: a hole. And
        where a batch's length was damaged, the rest of its segment cannot be found: the log has said so, and
        goes on with the next segment.
        """
        if not self.is_trusted:
            return True
        is_told = log.missing_from is not None and log.missing_from <= expected.first
        return is_told and self.damaged_from <= expected.first and base_offset in log.segments.bases

    def _excuse(self, offset: int, what: str) -> int:
        """A failed read is right where the batch, or one on the way to it, was damaged or never synced."""
        if offset < self.damaged_from and self.is_trusted:
            self._broken(f"offset {offset} {what}")
        return self.batch_at(offset).next

    def batch_at(self, offset: int) -> WrittenBatch:
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


RAGE_S: Final = 3.0
PROGRESS_S: Final = 10.0
PARTITIONS: Final = tuple(TopicPartition("events", number) for number in range(3))
PRODUCERS: Final = (1000, 1001)
KINDS: Final = (
    *CRASHES,
    Trouble.CLOCK_JUMP,
    Trouble.DISK_FULL,
    Trouble.DISK_ERRORS,
    Trouble.SLOW_DISK,
    Trouble.BIT_FLIP,
)
# Bytes of a batch's header that its checksum does not cover: base offset, and leader epoch.
UNCOVERED: Final = frozenset((*range(8), *range(12, 16)))


def play(world: World) -> None:
    """One process on one disk, stopped in many ways."""
    world.run(_Run(world).script())


class _Run:
    """One run: what was written, and who is out to destroy it."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng = world.rng
        machine = world.machine("node", disk_bytes=rng.choice([300_000, 4_000_000]))
        self.ledgers = {partition: LogLedger(str(partition)) for partition in PARTITIONS}
        self.appends = 0
        # Now and then nothing goes wrong at all: the same rules must hold then.
        self.kinds = [kind for kind in KINDS if rng.random() < 0.4] if rng.random() < 0.9 else []
        config = TopicConfig(
            segment_bytes=rng.choice([500, 3_000, 50_000]),
            index_interval_bytes=rng.choice([1, 200, 4_096]),
            segment_index_bytes=rng.choice([120, 10_000]),
            file_delete_delay_ms=500,
            preallocate=rng.random() < 0.2,
            # A repetition keeps its time, and the clock may have been set back since.
            message_timestamp_after_max_ms=10**12,
        )
        folders = rng.choice(["/mount/data", "/mount/one,/mount/two"])
        broker = BrokerConfig({"log.dirs": folders, "node.id": "1"}, check=False)
        self.where = OneDisk(machine, broker, config, self.ledgers)

    async def script(self) -> None:
        nemesis = Nemesis(self.world, [self.where.machine], self.kinds, flip=self.flip)
        await self.where.suffer(self.world, nemesis, lambda own: _Life(self, own), seconds=RAGE_S)
        before = self.appends
        await self.world.until(
            lambda: self.appends > before + 20, timeout_s=PROGRESS_S, what="appends after faults stopped"
        )

    def flip(self, victim: SimulatedMachine, rng: random.Random) -> None:
        """Damage a file that the log can notice to be damaged."""
        suffixes = (".log", ".log", ".index", ".timeindex", ".snapshot")
        suffix = rng.choice(suffixes)
        paths = [path for path in victim.disk.files() if path.endswith(suffix)]
        if not paths:
            return
        path = rng.choice(paths)
        data = bytes(victim.disk.tree.file(path).data)
        if suffix != ".log":
            victim.disk.flip_bit(path)
            return
        found = list(batches(data))
        if found and found[-1][0] + found[-1][1].size <= len(data):
            start, header = rng.choice(found)
            position = start + rng.choice([at for at in range(header.size) if at not in UNCOVERED])
            victim.disk.flip_bit(path, position)
            partition = TopicPartition("events", int(path.split("/")[-2].rpartition("-")[2]))
            self.ledgers[partition].damaged(header.base_offset)


class _Life(OneLife):
    steps_mean = 500
    pause_s_max = 0.01

    def __init__(self, run: _Run, own: Surroundings) -> None:
        super().__init__(run.where, own)
        self.run_ = run

    async def step(self) -> None:
        partition = self.rng.choice(PARTITIONS)
        log, ledger = self.log_manager.get(partition), self.run_.ledgers[partition]
        assert log is not None
        luck = self.rng.random()
        if luck < 0.60:
            self.append(log, ledger)
        elif luck < 0.68:
            self.repeat(log, ledger)
        elif luck < 0.76:
            self.flush(log, ledger)
        elif luck < 0.86:
            self.look(log, ledger)
        elif luck < 0.90:
            self.seek(log, ledger)
        elif luck < 0.92:
            log.roll(self.own.clock.now_ms())
        elif luck < 0.93:
            self.delete_some(log)
        else:
            await self.regular_work()

    async def stop(self) -> None:
        """A clean stop makes everything durable; one that a failing disk prevents promises nothing."""
        await super().stop()
        for ledger in self.run_.ledgers.values():
            ledger.synced(ledger.end)

    # --- writing ---

    def append(self, log: UnifiedLog, ledger: LogLedger) -> None:
        now_ms = self.own.clock.now_ms()
        count = self.rng.randint(1, 4)
        batch = WrittenBatch(
            first=log.log_end_offset,
            values=[self.rng.randbytes(self.rng.choice([5, 50, 400])) for _ in range(count)],
            timestamps=[now_ms + self.rng.randint(-100, 100) for _ in range(count)],
            leader_epoch=self.where.machine.boots,
        )
        if self.rng.random() < 0.5:
            ledger.number(batch, self.rng.choice(PRODUCERS))
        ledger.pending = batch
        try:
            result = log.append_as_leader(_encode(batch), leader_epoch=batch.leader_epoch, now_ms=now_ms)
        except ApiError as error:
            ledger.pending = None
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and self.own.disk.faults.is_full:
                return
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and ledger.may_have_forgotten:
                ledger.begin_epoch(batch.producer_id)
                return
            raise
        if (result.first_offset, result.duplicate) != (batch.first, False):
            raise CheckFailedError(f"{ledger.name}: {result} for a new batch at {batch.first}")
        ledger.confirm()
        self.run_.appends += 1
        if self.rng.random() < 0.9:
            log.maybe_increment_high_watermark(log.log_end_offset)

    def repeat(self, log: UnifiedLog, ledger: LogLedger) -> None:
        """Send one of a producer's last batches again, as a producer that missed its answers does."""
        producer_id = self.rng.choice(PRODUCERS)
        sent = ledger.sent_by(producer_id)
        if not sent or sent[-1].first < log.log_start_offset:
            return
        # Of batches that retention took, only the last of each producer survives a restart: in a snapshot.
        batch = self.rng.choice([each for each in sent[-5:] if each.first >= log.log_start_offset])
        try:
            result = log.append_as_leader(
                _encode(batch), leader_epoch=self.where.machine.boots, now_ms=self.own.clock.now_ms()
            )
        except ApiError as error:
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and ledger.may_have_forgotten:
                return
            raise
        if not result.duplicate or result.first_offset != batch.first:
            raise CheckFailedError(f"{ledger.name}: {result} for a repetition of the batch at {batch.first}")

    def flush(self, log: UnifiedLog, ledger: LogLedger) -> None:
        flush = log.begin_flush()
        if flush is not None:
            self.own.loop.create_task(self._finish_flush(log, flush, ledger))

    async def _finish_flush(self, log: UnifiedLog, flush: Flush, ledger: LogLedger) -> None:
        def sync() -> None:
            try:
                flush.sync()
            except OSError:
                ledger.sync_failed()
                raise
            ledger.synced(flush.offset)

        try:
            await self.own.loop.run_in_executor(None, sync)
        except OSError as error:
            log.abandon_flush(flush, error)
            return
        log.finish_flush(flush, now_ms=self.own.clock.now_ms())

    async def regular_work(self) -> None:
        """What a node does now and then, in threads where it blocks."""
        loop = self.own.loop
        for log, flush in self.log_manager.take_flushes():
            await self._finish_flush(log, flush, self.run_.ledgers[log.topic_partition])
        try:
            for write in self.log_manager.begin_checkpoint():
                await loop.run_in_executor(None, write.write)
            for removal in self.log_manager.take_removals():
                await loop.run_in_executor(None, removal.run)
        except OSError as error:
            if not self.own.disk.faults.is_full:
                raise DiskFailedError from error

    def delete_some(self, log: UnifiedLog) -> None:
        if log.high_watermark > log.log_start_offset:
            log.maybe_increment_log_start_offset(self.rng.randint(log.log_start_offset, log.high_watermark))
            log.delete_old_segments(self.own.clock.now_ms())

    # --- reading ---

    def look(self, log: UnifiedLog, ledger: LogLedger) -> None:
        if log.log_start_offset < log.log_end_offset:
            offset = self.rng.randrange(log.log_start_offset, log.log_end_offset)
            first = max(ledger.batch_at(offset).first, log.log_start_offset)
            ledger.check_read(log, first, self.rng.choice([1, 500, 100_000]))

    def seek(self, log: UnifiedLog, ledger: LogLedger) -> None:
        """Look a time up."""
        is_whole = ledger.is_trusted and ledger.damaged_from == ledger.end
        if not is_whole or log.log_start_offset == log.log_end_offset:
            return
        offset = self.rng.randrange(log.log_start_offset, log.log_end_offset)
        batch = ledger.batch_at(offset)
        wanted = batch.timestamps[offset - batch.first] + self.rng.randint(-1, 1)
        expected = next((o for o, time in ledger.records(log.log_start_offset) if time >= wanted), None)
        found = log.offset_for_timestamp(wanted)
        if (None if found is None else found.offset) != expected:
            raise CheckFailedError(f"{ledger.name}: time {wanted} found at {found}, it is at {expected}")


def _encode(batch: WrittenBatch) -> bytearray:
    records = [
        Record(0, timestamp, None, value)
        for timestamp, value in zip(batch.timestamps, batch.values, strict=True)
    ]
    return build_batch(
        records,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
