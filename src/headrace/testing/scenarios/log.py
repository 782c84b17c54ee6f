"""The log on a disk that cannot be trusted: appends, syncs, rolls and reads, and every way to be interrupted.

Rules: what was synced survives a power cut, what was acknowledged survives a kill; what is damaged is
never given out as good; an idempotent producer's repetition is recognised; times are found where they are;
the log always opens again, and appends again once faults stop.
"""

import random
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log.flush import Flush
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import Record, build_batch
from headrace.records.header import batches
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.testing.machine import SimulatedMachine, Surroundings
from headrace.testing.nemesis import CRASHES, Nemesis, Trouble
from headrace.testing.scenarios.log_ledger import Ledger, Written
from headrace.testing.scenarios.one_disk import DiskFailedError, OneDisk, OneLife
from headrace.testing.world import CheckFailedError, World

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
        self.ledgers = {partition: Ledger(str(partition)) for partition in PARTITIONS}
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
        log, ledger = self.store.get(partition), self.run_.ledgers[partition]
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

    def append(self, log: PartitionLog, ledger: Ledger) -> None:
        now_ms = self.own.clock.now_ms()
        count = self.rng.randint(1, 4)
        batch = Written(
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
            log.advance_high_watermark(log.log_end_offset)

    def repeat(self, log: PartitionLog, ledger: Ledger) -> None:
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

    def flush(self, log: PartitionLog, ledger: Ledger) -> None:
        flush = log.begin_flush()
        if flush is not None:
            self.own.loop.create_task(self._finish_flush(log, flush, ledger))

    async def _finish_flush(self, log: PartitionLog, flush: Flush, ledger: Ledger) -> None:
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
        for log, flush in self.store.take_flushes():
            await self._finish_flush(log, flush, self.run_.ledgers[log.topic_partition])
        try:
            for write in self.store.begin_checkpoint():
                await loop.run_in_executor(None, write.write)
            for removal in self.store.take_removals():
                await loop.run_in_executor(None, removal.run)
        except OSError as error:
            if not self.own.disk.faults.is_full:
                raise DiskFailedError from error

    def delete_some(self, log: PartitionLog) -> None:
        if log.high_watermark > log.log_start_offset:
            log.advance_log_start(self.rng.randint(log.log_start_offset, log.high_watermark))
            log.apply_retention(self.own.clock.now_ms())

    # --- reading ---

    def look(self, log: PartitionLog, ledger: Ledger) -> None:
        if log.log_start_offset < log.log_end_offset:
            offset = self.rng.randrange(log.log_start_offset, log.log_end_offset)
            first = max(ledger.batch_at(offset).first, log.log_start_offset)
            ledger.check_read(log, first, self.rng.choice([1, 500, 100_000]))

    def seek(self, log: PartitionLog, ledger: Ledger) -> None:
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


def _encode(batch: Written) -> bytearray:
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
