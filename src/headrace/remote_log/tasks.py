"""Starts the tasks of this broker's tiered partitions: taking over, copying, expiration and compaction.

Once a second every tiered partition is looked at, which costs little where nothing is to be done. Its log is
told how far it is in the remote store (`tiered_to`), on leaders and followers alike. Where this broker leads,
tasks run beside everything else, each as `partition_state` allows it: Kafka's RLMCopyTask (`copier`), as many
at once as `remote.log.manager.copier.thread.pool.size` says, its RLMExpirationTask (`expiration`), bounded by
`remote.log.manager.expiration.thread.pool.size`, and compaction (`compactor`), one at a time.

A leader that takes over finds out what its predecessors did before it does anything (`takeover`), and until
then consumers are not told where the log starts (`Partition.knows_start`): so it begins at once.

A task that failed is tried again after a pause that grows.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.unified_log import UnifiedLog
from headrace.remote_log.compactor import RemoteLogCompactor, look_at
from headrace.remote_log.copier import RemoteLogCopier, next_to_copy, stored_to
from headrace.remote_log.core.lineage import first_remote
from headrace.remote_log.core.partition_state import (
    PartitionRole,
    RemotePartitionState,
    RetryBackoff,
    TaskKind,
)
from headrace.remote_log.expiration import OrphanSweep, RemoteLogExpiration, expiration_input
from headrace.remote_log.steps import IsWanted, StepRunner
from headrace.remote_log.takeover import move_log_start, take_over
from headrace.replication.partition import Partition
from headrace.replication.replica_manager import ReplicaManager
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.remote_storage import CustomMetadataSizeLimitExceededError, RemoteStorageError
from headrace.tiered.segment_metadata import TopicIdPartition

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
NEXT_S: Final = 0.02
"""After the end of a task, when others may begin: their ends come in swarms."""
STOP_S: Final = 30.0
"""How long a stop waits for a store that does not answer."""
TAKE_OVERS_MAX: Final = 100
"""At once: each is a question to the leader of the records, and perhaps a read."""

POOL_SIZES: Final = {
    TaskKind.COPY: "remote.log.manager.copier.thread.pool.size",
    TaskKind.EXPIRE: "remote.log.manager.expiration.thread.pool.size",
}

Body = Callable[[IsWanted], Coroutine[Any, Any, None]]
"""A task, given whether this broker still leads in the epoch in which it began."""


class RemoteLogTasks:
    """The tasks under way, and the state of each partition."""

    def __init__(
        self,
        runner: StepRunner,
        sweep: OrphanSweep,
        *,
        replicas: ReplicaManager,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
    ) -> None:
        self._runner = runner
        self._metadata = runner.metadata
        self._replicas = replicas
        self._config = config
        self._loop = loop
        self._rng = rng
        self._copier = RemoteLogCopier(runner, config=config, loop=loop, rng=rng, on_copied=self._follow)
        self._expiration = RemoteLogExpiration(runner, sweep, config=config, loop=loop)
        self._compactor = RemoteLogCompactor(runner, config, rng)
        self._states: dict[TopicIdPartition, RemotePartitionState] = {}
        self._running: Counter[TaskKind] = Counter()
        self.failures: Counter[TaskKind] = Counter()
        self._handles: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._stopping = False

    # -- running ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._look_again()

    async def stop(self) -> None:
        """Begin nothing more, and return once no thread works on a task."""
        self.abandon()
        if self._handles:
            await asyncio.wait(list(self._handles), timeout=STOP_S)

    def abandon(self) -> None:
        self._stopping = True
        for timer in (self._timer, self._next_look):
            if timer is not None:
                timer.cancel()

    @property
    def running(self) -> Mapping[TaskKind, int]:
        """Tasks under way."""
        return self._running

    def held(self) -> list[TopicIdPartition]:
        """The partitions here whose remote segments must be known."""
        return [_name(partition) for partition in self._replicas if _is_tiered(partition.log)]

    # -- looking ---------------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        interval_s = self._config.int("remote.log.manager.task.interval.ms") / 1000
        self._timer = self._loop.call_later(min(LOOK_S, interval_s), self._look_again)
        self.look()

    def look(self) -> None:
        """Tell the logs how far they are, and begin what there is to do."""
        if self._stopping:
            return
        seen = set()
        for partition in list(self._replicas):
            if _is_tiered(partition.log):
                name = _name(partition)
                seen.add(name)
                self._look_at(partition, name, self._states.setdefault(name, RemotePartitionState()))
            elif partition.is_leader:
                _start_here(partition)
        for name in self._states.keys() - seen:
            if not self._states[name].running:
                del self._states[name]

    def look_soon(self) -> None:
        """Settings have changed, or a task has ended, and others may begin."""
        if self._next_look is None and not self._stopping:
            self._next_look = self._loop.call_later(NEXT_S, self._look_on)

    def _look_on(self) -> None:
        self._next_look = None
        self.look()

    def note(self, name: TopicIdPartition) -> None:
        """Records about a partition were read, or all of them: it may be known now."""
        partition = self._replicas.get(name.topic_partition)
        state = self._states.get(name)
        if partition is not None and state is not None and partition.topic_id == name.topic_id:
            if _role(partition) is PartitionRole.NEW_LEADER:
                self._look_at(partition, name, state)
            else:
                self._follow(partition, name, state)

    def note_leader(self, topic_partition: TopicPartition) -> None:
        """The cluster has changed there: this broker may lead it from now on."""
        partition = self._replicas.get(topic_partition)
        if partition is None or _role(partition) is not PartitionRole.NEW_LEADER or self._stopping:
            return
        if _is_tiered(partition.log):
            name = _name(partition)
            self._look_at(partition, name, self._states.setdefault(name, RemotePartitionState()))

    def _follow(
        self, partition: Partition, name: TopicIdPartition, state: RemotePartitionState
    ) -> RemoteLogMetadataCache | None:
        """Tell the log how far it is in the remote store."""
        log, remote = partition.log, self._metadata.logs.get(name)
        if log is None or remote is None:
            return None
        versions = remote.version, log.leader_epoch_cache.version
        # Of a copy that is going nobody counts on the store, also where tiering is turned on again meanwhile.
        counts = log.config.remote_storage_enable and not state.is_removing_all
        if versions != state.followed or counts is (log.tiered_to is None):
            state.followed = versions
            if partition.knows_remote:
                move_log_start(partition, log, remote)
            if counts:
                log.tiered_from = first_remote(log, remote)
                log.copied_to, log.removed_to = (
                    remote.end_offset(log.leader_epoch_cache) or 0,
                    remote.removed_to,
                )
                log.tiered_to = stored_to(log, remote)
            else:
                log.tiered_to = None
        return remote

    def _look_at(self, partition: Partition, name: TopicIdPartition, state: RemotePartitionState) -> None:
        """Tell the log how far it is, and start what is due."""
        remote = self._follow(partition, name, state)
        if remote is None or not partition.is_leader or partition.log is None:
            return
        if partition.log.failure is not None:
            return
        now_s = self._loop.time()
        for kind in state.may_start(_role(partition), now_s):
            if self._running[kind] < self._limit(kind):
                body = self._due(kind, partition, name, remote, state, now_s)
                if body is not None:
                    self._start(kind, body, partition, state)

    def _limit(self, kind: TaskKind) -> int:
        """How many of a kind may run at once on this broker."""
        if kind in POOL_SIZES:
            return self._config.int(POOL_SIZES[kind])
        return TAKE_OVERS_MAX if kind is TaskKind.TAKE_OVER else 1

    def _due(
        self,
        kind: TaskKind,
        partition: Partition,
        name: TopicIdPartition,
        remote: RemoteLogMetadataCache,
        state: RemotePartitionState,
        now_s: float,
    ) -> Body | None:
        """The task, where there is something for it to do."""
        log = partition.local_log()
        match kind:
            case TaskKind.TAKE_OVER:
                return partial(self._take_over, partition, name, state)
            case TaskKind.EXPIRE:
                is_due = state.is_expiration_due(expiration_input(log, remote), now_s)
                return partial(self._expiration.run, partition, name, state) if is_due else None
            case TaskKind.COPY:
                is_due = next_to_copy(log, self._runner.publisher.now_ms()) is not None
                return partial(self._copier.run, partition, name, state) if is_due else None
            case TaskKind.COMPACT:
                if not log.config.compacts or not state.begin_compaction_look(remote.version):
                    return None
                found = look_at(log, remote)
                return None if found is None else partial(self._compactor.run, found, remote, state)

    # -- tasks -----------------------------------------------------------------------------------------------

    def _start(self, kind: TaskKind, body: Body, partition: Partition, state: RemotePartitionState) -> None:
        task = self._loop.create_task(self._guard(kind, body, partition, state))
        state.running.add(kind)
        self._running[kind] += 1
        self._handles.add(task)
        task.add_done_callback(lambda done: self._ended(kind, done, state))

    async def _guard(
        self, kind: TaskKind, body: Body, partition: Partition, state: RemotePartitionState
    ) -> None:
        name = _name(partition)
        try:
            await body(self._leads(partition))
            state.succeeded()
        except CustomMetadataSizeLimitExceededError as error:
            state.refuse_copies()
            logger.error("%s: nothing more is copied to the remote tier: %s", name, error)
        except (RemoteStorageError, ApiError, OSError, InvalidBytesError) as error:
            self._failed(kind, state)
            logger.warning(
                "%s: to %s in the remote tier failed, and is tried again: %s", name, kind.value, error
            )
        except Exception:
            self._failed(kind, state)  # a fault of ours must not be met again and again
            logger.exception("%s: to %s in the remote tier", name, kind.value)

    def _failed(self, kind: TaskKind, state: RemotePartitionState) -> None:
        self.failures[kind] += 1
        backoff = RetryBackoff(
            self._config.int("remote.log.manager.task.retry.backoff.ms"),
            self._config.int("remote.log.manager.task.retry.backoff.max.ms"),
        )
        jitter = self._config.float("remote.log.manager.task.retry.jitter")
        state.failed(kind, self._loop.time(), backoff, jitter=self._rng.uniform(1 - jitter, 1 + jitter))

    def _ended(self, kind: TaskKind, task: asyncio.Task[None], state: RemotePartitionState) -> None:
        state.running.remove(kind)
        self._running[kind] -= 1
        self._handles.remove(task)
        self.look_soon()

    def _leads(self, partition: Partition) -> IsWanted:
        """Whether this broker leads the partition in the same epoch as now."""
        epoch = partition.leader_epoch

        def leads() -> bool:
            return (
                not self._stopping
                and partition.is_leader
                and partition.leader_epoch == epoch
                and self._replicas.get(partition.topic_partition) is partition
            )

        return leads

    async def _take_over(
        self, partition: Partition, name: TopicIdPartition, state: RemotePartitionState, leads: IsWanted
    ) -> None:
        if await take_over(partition, name, self._runner, leads):
            state.taken_over()


def _name(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.topic_partition)


def _role(partition: Partition) -> PartitionRole:
    if not partition.is_leader:
        return PartitionRole.FOLLOWER
    return PartitionRole.LEADER if partition.knows_remote else PartitionRole.NEW_LEADER


def _is_tiered(log: UnifiedLog | None) -> bool:
    return log is not None and log.config.is_tiered


def _start_here(partition: Partition) -> None:
    """Have a log that is tiered no more start on this disk: what lies before it in the store is going."""
    log = partition.log
    if log is not None and log.failure is None and log.log_start_offset < log.segments.first.base_offset:
        log.maybe_increment_log_start_offset(min(log.segments.first.base_offset, log.high_watermark))
        partition.on_advance(partition.topic_partition)
