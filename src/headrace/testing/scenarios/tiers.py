"""Tiered topics on a whole cluster, with a store that fails and processes that die at every step of a copy
and of a removal.

One node or three, real ones; an idempotent writer; a reader that begins again and again; an operator that
moves leaders, and makes and deletes tiered topics. Local retention is short, so most of what was written is
in the store alone. Rules, once faults have stopped and everything is quiet:

- what was acknowledged is there, at its offset, in one tier or the other, from the log's start on; and a log
  whose topic keeps everything still starts at 0. Where a consumer is told that a log starts, at any time, it
  can be read (`tiers_clients`);
- what was removed does not come back: no segment that was told to be deleted is ever known again;
- a compacted topic has the last value of each key, and what was deleted does not come back;
- nothing is left over: every object in the store belongs to a finished segment of the records, whole; every
  finished segment has its objects; topics that were deleted have none.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.clients import AsyncAdmin
from headrace.clients.errors import ClientError
from headrace.log.append import AppendOrigin
from headrace.log.file_names import LEADER_EPOCHS, LOG, LOG_STARTS
from headrace.log.unified_log import UnifiedLog
from headrace.node.assembly import Node
from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.testing.conditions import Conditions
from headrace.testing.disk import Crash
from headrace.testing.disk_faults import ProcessEndedError
from headrace.testing.machine import Surroundings
from headrace.testing.nemesis import NETWORK, Nemesis, Trouble
from headrace.testing.node_cluster import PORT, NodeCluster
from headrace.testing.scenarios.cluster_clients import FOREVER_MS, Writer, surroundings
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.scenarios.tiers_clients import KeyWriter, Wanderer
from headrace.testing.scenarios.tiers_store import TroubledStore
from headrace.testing.world import CheckFailedError, World
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.segment_metadata import RemoteLogSegmentState, TopicIdPartition
from headrace.tiered.stores.folder import FolderStore

KEPT: Final = "kept"
SHORT: Final = "short"
COMPACTED: Final = "keys"
SCRATCH: Final = ("scratch0", "scratch1")
ROOT: Final = "/store"
LOG_DIR: Final = "/data"
RAGE_S: Final = 12.0
START_S: Final = 60.0
PROGRESS_S: Final = 120.0
KINDS: Final = (
    *NETWORK,
    *(Trouble.KILL, Trouble.RESTART, Trouble.PAUSE, Trouble.SLOW_DISK, Trouble.SLOW_NETWORK),
)
TIERED: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "4000",
    "local.retention.ms": "1",
    "retention.ms": "-1",
}

COMPACTING: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "500",
}


def play(world: World) -> None:
    """A cluster with a store, faults for a while, then none, and a look at everything."""
    run = TiersRun(world)
    world.check_every_step(run.graveyard.check)
    world.run(run.script())


Contents = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value at each offset."""


class Acknowledged(CommittedRecords):
    """What writers were told to be written; it is looked for in the end."""

    def acknowledge(self, offset: int, values: list[bytes]) -> None:
        self.acknowledged.extend(enumerate(values, offset))
        self.end = max(self.end, offset + len(values))


class Graveyard:
    """Segments that were told to be deleted, by any node: none of them is ever known again."""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._states: dict[RemoteLogMetadataCache, dict[bytes, RemoteLogSegmentState]] = {}
        self._versions: dict[RemoteLogMetadataCache, int] = {}

    def check(self) -> None:
        for node in self._cluster.nodes.values():
            if node.remote_log_manager is None:
                continue
            for partition in node.remote_log_manager.logs.partitions():
                remote = node.remote_log_manager.logs.known(partition)
                if self._versions.get(remote) != remote.version:
                    self._versions[remote] = remote.version
                    self._look(remote)

    def _look(self, remote: RemoteLogMetadataCache) -> None:
        """One that is made anew, by another process or because it is wanted again, reads all records anew."""
        states = self._states.setdefault(remote, {})
        for segment in remote:
            before = states.get(segment.segment_id)
            if before is not None and segment.state < before:
                raise CheckFailedError(f"{segment} was {before.name} and is {segment.state.name}")
            states[segment.segment_id] = segment.state


class TiersRun:
    """One run."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng = self.rng = world.rng
        self.nodes = rng.choice([1, 3, 3])
        self.loses_power = rng.random() < 0.4
        self.is_calm = False
        world.network.conditions = replace(Conditions.drawn(rng), short_rate=0.05, split_rate=0.05)
        world.machine("store").disk.make_folder(ROOT)
        self.failure_rate = rng.choice([0.0, 0.1, 0.4])
        self.death_rate = rng.choice([0.0, 0.02, 0.2])
        self.cluster = NodeCluster(world, nodes=self.nodes, settings=self._settings(rng))
        self.cluster.remote_store_of = self._store_of
        self.graveyard = Graveyard(self.cluster)
        self.partitions = [TopicPartition(KEPT, 0), TopicPartition(KEPT, 1), TopicPartition(SHORT, 0)]
        self.ledger: dict[TopicPartition, CommittedRecords] = {
            where: Acknowledged(where) for where in self.partitions
        }
        self.writer = Writer(world, 0, self.ledger, self._producer_settings())
        self.key_writer = KeyWriter(world, COMPACTED, self._producer_settings())
        self.wanderer = Wanderer(world, self.ledger, self._client_settings(), whole=frozenset({KEPT}))
        self.operator_is_done = False

    # --- what the seed draws ---

    def _settings(self, rng: random.Random) -> dict[str, str]:
        return {
            "remote.log.storage.system.enable": "true",
            "remote.log.manager.task.interval.ms": rng.choice(["500", "3000"]),
            "remote.log.manager.task.retry.backoff.ms": "100",
            "remote.log.manager.task.retry.backoff.max.ms": "2000",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
            "log.retention.check.interval.ms": "500",
            "log.cleaner.backoff.ms": "300",
            "default.replication.factor": str(self.nodes),
            "min.insync.replicas": "1" if self.nodes == 1 else "2",
            "offsets.topic.replication.factor": "1",
            "replica.lag.time.max.ms": "2000",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "log.message.timestamp.after.max.ms": str(10**12),
        }

    def _store_of(self, node_id: int) -> TroubledStore:
        deaths = (Crash.KILL, Crash.POWER_CUT) if self.loses_power else (Crash.KILL,)
        machine = self.cluster.machine(node_id)
        return TroubledStore(
            self.store(),
            machine,
            self.world.scheduler.random_for(f"store/{node_id}/{machine.boots}"),
            is_calm=lambda: self.is_calm,
            failure_rate=self.failure_rate,
            death_rate=self.death_rate,
            deaths=deaths,
        )

    def store(self) -> FolderStore:
        return FolderStore(self.world.machine("store").disk, ROOT)

    def _client_settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"node{n}:{PORT}" for n in self.cluster.ids),
            "request.timeout.ms": 3_000,
            "socket.connection.setup.timeout.ms": 1_000,
            "retry.backoff.max.ms": 500,
        }

    def _producer_settings(self) -> dict[str, Any]:
        return self._client_settings() | {"delivery.timeout.ms": FOREVER_MS, "max.block.ms": FOREVER_MS}

    # --- the run ---

    async def script(self) -> None:
        for node_id in self.cluster.ids:
            self.cluster.keep_running(node_id, may_end_with=(OSError, ApiError))
        await self.until(lambda: len(self.cluster.nodes) == self.nodes, "all nodes are ready", START_S)
        operator = self.world.machine("operator")
        await self.world.result(operator, operator.boot(self._create_topics, may_fail=True))
        operator.retire()
        self.world.machine(self.writer.name).boot(self.writer.run)
        self.world.machine("key-writer").boot(self.key_writer.run)
        operator.boot(self._operate)
        self.world.machine(self.wanderer.name).boot(self.wanderer.run)
        nemesis = Nemesis(
            self.world,
            [self.cluster.machine(node_id) for node_id in self.cluster.ids],
            self._kinds(),
            stop=lambda machine: self.cluster.ask_to_stop(int(machine.name.removeprefix("node"))),
        )
        damage = asyncio.get_running_loop().create_task(self._damage())
        await nemesis.rage(RAGE_S)
        damage.cancel()
        nemesis.calm()
        self.is_calm = True
        self.writer.stopping = self.key_writer.stopping = True
        await self.until(
            lambda: self.writer.is_done and self.key_writer.is_done and self.operator_is_done,
            "the clients are done",
        )
        await self._restart_all()
        await self.until(self._is_quiet, "everything that is closed is copied, and nothing is left over")
        self._check_everything()
        self.wanderer.is_last_round = True
        await self.until(lambda: self.wanderer.is_done, "a client has read everything")

    def _kinds(self) -> list[Trouble]:
        kinds = [kind for kind in KINDS if self.rng.random() < 0.5]
        return [*kinds, Trouble.POWER_CUT, Trouble.CRASH_WITHIN] if self.loses_power else kinds

    async def _damage(self) -> None:
        """Spoil what tells, on the disk of a node that is down, of what is in the store alone. A flipped bit
        in the number of a log's start is left out: that one nobody can know.
        """
        rng = self.world.scheduler.random_for("damage")
        if rng.random() < 0.6:
            return
        while True:
            await asyncio.sleep(rng.expovariate(3.0))
            machine = self.cluster.machine(rng.choice(self.cluster.ids))
            if machine.process is not None:
                continue
            paths = [path for path in machine.disk.files() if path.endswith(LEADER_EPOCHS)]
            tiered = sorted(
                path for path in paths if path.split("/")[-2].startswith((KEPT, SHORT, COMPACTED))
            )
            if tiered and rng.random() < 0.8:
                machine.disk.flip_bit(rng.choice(tiered))
            elif machine.disk.exists(f"{LOG_DIR}/{LOG_STARTS}"):
                machine.disk.lose(f"{LOG_DIR}/{LOG_STARTS}")
            self.world.note(f"a file of {machine.name} is damaged")

    async def _restart_all(self) -> None:
        """New leaders look for what nobody knows of."""
        for node_id in self.cluster.ids:
            await self.until(lambda: len(self.cluster.nodes) == self.nodes, "all nodes are there")
            boots = self.cluster.machine(node_id).boots
            self.cluster.ask_to_stop(node_id)
            await self.until(partial(self._is_back, node_id, boots), "a node is back")

    def _is_back(self, node_id: int, boots: int) -> bool:
        """Whether it serves again, as a process after those that had booted."""
        return self.cluster.machine(node_id).boots > boots and node_id in self.cluster.nodes

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = PROGRESS_S) -> None:
        await self.world.until(condition, timeout_s=timeout_s, what=what)

    # --- the operator ---

    async def _create_topics(self, own: Surroundings) -> None:
        # Who may lose power syncs what it promises. The records of the remote tier see to that themselves.
        common = TIERED | ({"flush.messages": "1"} if self.loses_power else {})
        wanted = {
            KEPT: (2, common),
            SHORT: (1, common | {"retention.bytes": "20000"}),
            COMPACTED: (1, common | COMPACTING),
        }
        async with AsyncAdmin(self._client_settings(), environment=surroundings(own)) as admin:
            for name, (partitions, configs) in wanted.items():
                while name not in {topic.name for topic in await admin.list_topics()}:
                    try:
                        await admin.create_topic(
                            name, partitions=partitions, replication_factor=self.nodes, configs=configs
                        )
                    except ClientError as error:
                        self.world.note(f"the operator hears: {error}")
                        await asyncio.sleep(0.1)

    async def _operate(self, own: Surroundings) -> None:
        rng = own.rng
        async with AsyncAdmin(self._client_settings(), environment=surroundings(own)) as admin:
            while not self.writer.stopping:
                await asyncio.sleep(rng.expovariate(2.0))
                try:
                    await self._act(admin, rng)
                except ClientError as error:
                    self.world.note(f"the operator hears: {error}")
        self.operator_is_done = True

    async def _act(self, admin: AsyncAdmin, rng: random.Random) -> None:
        name = rng.choice(SCRATCH)
        names = {topic.name for topic in await admin.list_topics()}
        what = rng.random()
        if what < 0.3:
            await admin.elect_leaders(None)
        elif name in names and what < 0.7:
            for node in list(self.cluster.nodes.values()):
                self._fill(node, name, rng)
        elif name in names:
            await admin.delete_topics([name])
        else:
            await admin.create_topic(name, partitions=1, replication_factor=self.nodes, configs=TIERED)
        self.world.note(f"the operator is done with {name}")

    def _fill(self, node: Node, name: str, rng: random.Random) -> None:
        """Give a topic something to copy, past the protocol: nobody is promised anything about it."""
        partition = node.parts.replica_manager.get(TopicPartition(name, 0))
        if partition is not None and partition.is_leader and partition.log is not None:
            try:
                now_ms = node.parts.clock.now_ms()
                for _ in range(3):
                    batch = build_batch([Record(timestamp=now_ms, value=rng.randbytes(3_000))])
                    partition.append(batch, now_ms=now_ms, origin=AppendOrigin.CLIENT, acks=1, api_version=9)
            except ApiError as error:
                self.world.note(f"nothing is written to {name}: {error}")
            except ProcessEndedError:
                self.world.note(f"a node has died of a write to {name}")

    # --- the rules ---

    def _leader(self, where: TopicPartition) -> tuple[Node, UnifiedLog, RemoteLogMetadataCache] | None:
        for node in self.cluster.nodes.values():
            partition = node.parts.replica_manager.get(where)
            # One that has yet to read what was done before it tells nobody where its log starts; whoever is
            # told, the wanderer holds them to it.
            if (
                partition is not None
                and partition.knows_remote
                and partition.log is not None
                and node.remote_log_manager
            ):
                remote = node.remote_log_manager.logs.get(TopicIdPartition(partition.topic_id, where))
                return None if remote is None else (node, partition.log, remote)
        return None

    def _is_quiet(self) -> bool:
        if len(self.cluster.nodes) < self.nodes:
            return False
        known: set[str] = set()
        for where in [*self.partitions, *(TopicPartition(name, 0) for name in (COMPACTED, *SCRATCH))]:
            if self._is_gone(where.topic):
                continue
            found = self._leader(where)
            if found is None:
                return False
            _, log, remote = found
            closed_to = log.segments.active.base_offset
            if log.config.compacts:
                closed_to = min(closed_to, log.cleaner_checkpoint or 0)
            if (log.tiered_to or 0) < closed_to or log.high_watermark < log.log_end_offset:
                return False
            number = max(log.segments.number_of(closed_to), 0)
            if number and not log.config.compacts:
                return False
            if any(segment.state is not RemoteLogSegmentState.COPY_FINISHED for segment in remote):
                return False
            known.update(name for segment in remote for name in segment.object_names())
        return {name for name, _ in self.store().list("")} <= known

    def _is_gone(self, topic: str) -> bool:
        return all(topic not in node.image.topics_by_name for node in self.cluster.nodes.values())

    def _check_everything(self) -> None:
        for where in self.partitions:
            found = self._leader(where)
            assert found is not None
            _, log, remote = found
            if where.topic == KEPT and log.log_start_offset:
                raise CheckFailedError(f"{where} starts at {log.log_start_offset}: what it held is lost")
            there = {offset: value for offset, (_, value) in self._read(log, remote).items()}
            for offset, value in self.ledger[where].acknowledged:
                if offset >= log.log_start_offset and there.get(offset) != value:
                    raise CheckFailedError(f"{where}: what was acknowledged at offset {offset} is lost")
            self.world.note(f"{where}: {len(there)} records, {len(remote)} remote segments")
        self._check_keys()

    def _check_keys(self) -> None:
        found = self._leader(TopicPartition(COMPACTED, 0))
        assert found is not None
        _, log, remote = found
        there = self._read(log, remote)
        self.key_writer.check(there[offset] for offset in sorted(there))
        self.world.note(f"{COMPACTED}: {len(there)} records, {len(remote)} remote segments")

    def _read(self, log: UnifiedLog, remote: RemoteLogMetadataCache) -> Contents:
        """Everything from the log's start on, from the store as far as it lies there."""
        found: Contents = {}
        offset, store = log.log_start_offset, self.store()
        while offset < log.local_start_offset:
            segment = remote.find(log.leader_epoch_cache, offset)
            if segment is None:
                raise CheckFailedError(f"{log.topic_partition}: offset {offset} is in no tier")
            data = store.read(segment.object_name(LOG), 0, segment.size + 1)
            if len(data) != segment.size:
                raise CheckFailedError(f"{segment} has {len(data)} bytes, not {segment.size}")
            _take(data, found, offset)
            offset = segment.end_offset + 1
        while offset < log.log_end_offset:
            result = log.read(offset, max_bytes=1 << 20)
            data = result.chunk if isinstance(result.chunk, bytes) else result.chunk.read()
            _take(data, found, offset)
            offset = result.upper_offset
        return found


def _take(data: bytes, found: Contents, start: int) -> None:
    for at, header in batches(data):
        if not header.is_control:
            found.update(
                (record.offset, (record.key, record.value))
                for record in read_records(data, at)
                if record.offset >= start
            )
