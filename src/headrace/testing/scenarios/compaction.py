"""Compaction on a disk that cannot be trusted: keys are written over and deleted, segments are cleaned and
swapped, replicas move between two folders, and the process is ended at any moment.

Rules: each key has its last value, as far as it was acknowledged and, after a power cut, synced; a deleted
key is never back; no record is changed, and none is at another offset; the log opens again, and is clean in
the end. The node's own drivers run the rounds and the moves, with their threads and checkpoints.

Half of the runs have what is drawn by `_Run.more`: limits on the age of what is compacted, moves, and, where
the disk has errors, reads that fail.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.compaction.drivers.log_cleaner import LogCleaner
from headrace.log.future_logs import future_log_dir
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.image import MetadataImage
from headrace.metadata.metadata_loader import everything_in
from headrace.records.batch import Record, build_batch, read_records
from headrace.records.header import batches
from headrace.replication.drivers.log_flusher import LogFlusher
from headrace.replication.drivers.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from headrace.replication.replica_manager import ReplicaManager
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import LONG_MAX
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash
from headrace.testing.machine import Surroundings
from headrace.testing.nemesis import CRASHES, Nemesis, Trouble
from headrace.testing.scenarios.one_disk import OneDisk, OneLife
from headrace.testing.world import CheckFailedError, World
from headrace.wire.schemas.metadata_records import PartitionRecord, TopicRecord

NODE: Final = 1
RAGE_S: Final = 5.0
PROGRESS_S: Final = 60.0
DAY_MS: Final = 86_400_000
KEYS: Final = 8
RARE_KEYS: Final = 20
TOPIC: Final = "keyed"
PARTITIONS: Final = tuple(TopicPartition(TOPIC, number) for number in range(2))
TOPIC_ID: Final = TopicId(bytes([1]) * 16)
KINDS: Final = (*CRASHES, Trouble.CLOCK_JUMP, Trouble.DISK_FULL, Trouble.DISK_ERRORS, Trouble.SLOW_DISK)


@dataclass(slots=True)
class Truth:
    """What was written to a partition, by offset; what must be there after a crash."""

    name: str
    written: dict[int, Record] = field(default_factory=dict)
    pending: dict[int, Record] = field(default_factory=dict)
    synced_to: int = 0
    required_to: int = 0

    def crashed(self, how: Crash) -> None:
        """After a power cut only what was synced must be there."""
        if how is Crash.POWER_CUT:
            self.required_to = min(self.required_to, self.synced_to)

    def reopened(self, log: UnifiedLog | None) -> None:
        end = 0 if log is None else log.log_end_offset
        if end < self.required_to:
            raise CheckFailedError(f"{self.name} ends at {end}, {self.required_to} was promised")
        whole = self.written | self.pending  # a write that was under way may be there, or a part of it
        self.written = {offset: record for offset, record in whole.items() if offset < end}
        self.pending = {}
        self.required_to = self.synced_to = min(self.synced_to, end)
        if log is not None:
            self.check(log)

    def check(self, log: UnifiedLog) -> None:
        found: dict[bytes | None, int] = {}
        for record in _records(log):
            if record != self.written[record.offset]:
                raise CheckFailedError(f"{self.name}: {record} is not what was written there")
            found[record.key] = record.offset
        last = {record.key: offset for offset, record in sorted(self.written.items())}
        for key, offset in last.items():
            is_deleted = self.written[offset].value is None
            if found.get(key, offset if is_deleted else -1) != offset:
                raise CheckFailedError(
                    f"{self.name}: {key!r} is at {found.get(key)}, its last record is at {offset}"
                )


def _records(log: UnifiedLog) -> list[Record]:
    records: list[Record] = []
    offset = log.log_start_offset
    while True:
        chunk = log.read(offset, max_bytes=1 << 20).chunk
        data = chunk if isinstance(chunk, bytes) else chunk.read()
        whole = list(batches(data))
        if not whole:
            return records
        for at, _ in whole:
            records += read_records(data, at)
        offset = whole[-1][1].next_offset


def _topic(epoch: int) -> list[TopicRecord | PartitionRecord]:
    """What the cluster says of the partitions: this node leads them, since it was started."""
    partitions = [
        PartitionRecord(
            partition_id=partition.partition,
            topic_id=TOPIC_ID,
            replicas=[NODE],
            isr=[NODE],
            leader=NODE,
            leader_epoch=epoch,
            partition_epoch=epoch,
        )
        for partition in PARTITIONS
    ]
    return [TopicRecord(name=TOPIC, topic_id=TOPIC_ID), *partitions]


def play(world: World) -> None:
    """One process on one disk, compacting, and stopped in many ways."""
    world.run(_Run(world).script())


class _Run:
    def __init__(self, world: World) -> None:
        self.world = world
        rng, more = world.rng, world.scheduler.random_for("more")
        self.more = more if more.random() < 0.5 else None
        machine = world.machine("node", disk_bytes=rng.choice([60_000, 4_000_000]))
        self.truths = {partition: Truth(str(partition)) for partition in PARTITIONS}
        self.rounds = 0
        self.kinds = [kind for kind in KINDS if rng.random() < 0.5] if rng.random() < 0.9 else []
        config = TopicConfig(
            cleanup_policy=frozenset({"compact"}),
            segment_bytes=rng.choice([400, 1_500]),
            index_interval_bytes=rng.choice([1, 300]),
            delete_retention_ms=rng.choice([0, 300]),
            min_cleanable_dirty_ratio=0.1,
            file_delete_delay_ms=200,
            message_timestamp_after_max_ms=10**12,
            min_compaction_lag_ms=more.choice([0, 0, 100]) if self.more else 0,
            max_compaction_lag_ms=more.choice([LONG_MAX, 300]) if self.more else LONG_MAX,
        )
        # A log is copied at once, and what comes then slowly.
        self.move_bytes_per_s = more.choice([300, 1_000, 3_000, 10**9])
        settings = {
            "log.dirs": "/mount/data,/mount/more" if self.more else "/mount/data",
            "node.id": str(NODE),
            "log.cleaner.backoff.ms": "50",
            "log.cleaner.io.buffer.size": rng.choice(["300", "4000"]),
            "log.cleaner.dedupe.buffer.size": rng.choice(["120", "100000"]),
        }
        self.where = OneDisk(machine, BrokerConfig(settings, check=False), config, self.truths)

    async def script(self) -> None:
        nemesis = Nemesis(self.world, [self.where.machine], self.kinds)
        await self.where.suffer(self.world, nemesis, lambda own: _Life(self, own), seconds=RAGE_S)
        self.more = None
        self.move_bytes_per_s = 10**9
        # What was written under a clock that was set back since would be too young to be compacted.
        self.where.machine.clock.jump(DAY_MS)
        before = self.rounds
        await self.world.until(
            lambda: self.rounds > before + 3, timeout_s=PROGRESS_S, what="rounds after faults stopped"
        )


class _Life(OneLife):
    steps_mean = 333
    pause_s_max = 0.02

    def __init__(self, run: _Run, own: Surroundings) -> None:
        super().__init__(run.where, own)
        self.run_ = run
        self.log_cleaner = LogCleaner(
            loop=own.loop,
            log_manager=self.log_manager,
            config=run.where.broker,
            rng=own.rng,
            on_cleaned=self.cleaned,
        )
        self.log_flusher = LogFlusher(loop=own.loop, clock=own.clock, on_durable=lambda where: None)
        self.replicas = ReplicaManager(
            node_id=NODE,
            store=self.log_manager,
            topic_config=lambda topic: run.where.config,
            on_advance=lambda where: None,
        )
        self.alter_log_dirs = ReplicaAlterLogDirsManager(
            self.log_manager,
            self.replicas,
            loop=own.loop,
            request_flush=self.log_flusher.request,
            bytes_per_second=lambda: run.move_bytes_per_s,
        )

    def cleaned(self, done: object) -> None:
        self.run_.rounds += 1

    def open(self) -> None:
        self.own.disk.faults.read_error_rate = 0.0
        super().open()
        image = MetadataImage("cluster")
        image.replay_all(_topic(self.where.machine.boots))
        self.replicas.apply(image, everything_in(image))
        for log in self.log_manager.logs():
            log.maybe_increment_high_watermark(log.log_end_offset)
        self.log_cleaner.start()
        self.alter_log_dirs.resume()

    async def stop(self) -> None:
        self.alter_log_dirs.stop()
        await self.log_cleaner.stop()
        await self.log_flusher.wait_idle()
        await super().stop()

    def need_disk(self) -> None:
        super().need_disk()
        if self.log_cleaner.uncleanable:
            raise CheckFailedError(f"nothing was damaged, but: {self.log_cleaner.uncleanable}")

    async def step(self) -> None:
        partition = self.rng.choice(PARTITIONS)
        log, truth = self.log_manager.get(partition), self.run_.truths[partition]
        assert log is not None
        luck = self.rng.random()
        if luck < 0.7:
            self.append(log, truth)
        elif luck < 0.8:
            await self.flush(log, truth)
        elif luck < 0.9:
            truth.check(log)
        else:
            await self.regular_work()
        if self.run_.more is not None:
            self.do_more(self.run_.more, partition)

    def do_more(self, more: random.Random, partition: TopicPartition) -> None:
        """Until the next step reads may fail; and a replica may begin to move, or be called back."""
        reads_fail = Trouble.DISK_ERRORS in self.run_.kinds and more.random() < 0.02
        self.own.disk.faults.read_error_rate = more.choice([0.1, 1.0]) if reads_fail else 0.0
        if more.random() < 0.05:
            is_moving = future_log_dir(self.log_manager, partition) is not None
            if not is_moving or more.random() < 0.1:
                self.alter_log_dirs.move(partition, more.choice(self.log_manager.log_dirs).path)

    def append(self, log: UnifiedLog, truth: Truth) -> None:
        now_ms, first = self.own.clock.now_ms(), log.log_end_offset
        rows = [
            Record(
                first + number,
                now_ms,
                self.key(),
                None if self.rng.random() < 0.2 else self.rng.randbytes(self.rng.choice([3, 60])),
            )
            for number in range(self.rng.randint(1, 4))
        ]
        truth.pending = {row.offset: row for row in rows}
        batch = build_batch(rows, codec=self.rng.choice([0, 0, 4]))
        try:
            log.append_as_leader(batch, leader_epoch=self.where.machine.boots, now_ms=now_ms)
        except ApiError:
            if self.own.disk.faults.is_full or log.failure is None:
                truth.pending = {}
                return
            raise
        truth.written |= truth.pending
        truth.pending = {}
        truth.required_to = log.log_end_offset
        log.maybe_increment_high_watermark(log.log_end_offset)

    def key(self) -> bytes:
        number, more = self.rng.randrange(KEYS), self.run_.more
        if more is not None and more.random() < 0.1:
            number = KEYS + more.randrange(RARE_KEYS)  # so that some stay deleted for a while
        return b"key %d" % number

    async def flush(self, log: UnifiedLog, truth: Truth) -> None:
        flush = log.begin_flush()
        if flush is None:
            return

        def sync() -> None:
            flush.sync()
            if not flush.lacks_room:
                truth.synced_to = max(truth.synced_to, flush.offset)

        try:
            await self.own.loop.run_in_executor(None, sync)
        except OSError as error:
            if log.failure is not None:
                return  # it was moved: its files are elsewhere
            raise log.abandon_flush(flush, error) from error
        log.finish_flush(flush, now_ms=self.own.clock.now_ms())

    async def regular_work(self) -> None:
        loop = self.own.loop
        for log in list(self.log_manager.logs()):
            if log.failure is None:  # else it was moved meanwhile
                await self.flush(log, self.run_.truths[log.topic_partition])
        for write in self.log_manager.begin_checkpoint():
            await loop.run_in_executor(None, write.write)
        for removal in self.log_manager.take_removals():
            await loop.run_in_executor(None, removal.run)
