"""Reading from the remote tier, joined for one node: RemoteLogReader, RemoteLogOffsetReader, the aux state
that followers start from, and the RemoteIndexCache that they share, with its upkeep.

They have threads of their own. How many read at once, and how many look up, is `remote.log.reader.threads`,
which can change while the node runs: so those count who give the threads work, and their pool has no bound of
its own. Followers' starts have another pool, for nobody counts them.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Final

from headrace.base.ids import TopicPartition, uuid_text
from headrace.log.disk import Disk
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.aux_state import RemoteLogAuxStates
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.offset_reader import RemoteLogOffsetReader
from headrace.tiered.reader import ReaderLimits, RemoteLogReader
from headrace.tiered.remote_index_cache import FOLDER, RemoteIndexCache
from headrace.tiered.remote_storage import RemoteStorageManager
from headrace.tiered.segment_metadata import RemoteLogSegmentState, TopicIdPartition

logger = logging.getLogger(__name__)

THREADS_MAX: Final = 1 << 16
"""No bound of its own: a pool makes a thread when none is idle, and who gives it work counts."""

STARTS_MAX: Final = 64
"""Followers that ask the store at once where to start."""


class RemoteReading:
    """What the node's other parts need to read what is in the remote store. `logs` is what is known of it."""

    def __init__(
        self,
        config: BrokerConfig,
        store: RemoteStorageManager,
        *,
        disk: Disk,
        log_dir: str,
        loop: asyncio.AbstractEventLoop,
        on_arrival: Callable[[TopicPartition], None],
    ) -> None:
        self.store = store
        self.logs = logs = RemotePartitionMetadataStore()
        self.executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="remote-log-reader")
        self.start_executor = ThreadPoolExecutor(STARTS_MAX, thread_name_prefix="remote-log-start")
        self.indexes = RemoteIndexCache(
            disk,
            f"{log_dir}/{FOLDER}",
            store,
            bytes_max=lambda: config.int("remote.log.index.file.cache.total.size.bytes"),
            new_lock=Lock,
        )
        self.reader = RemoteLogReader(
            store,
            self.indexes,
            logs,
            loop=loop,
            executor=self.executor,
            on_arrival=on_arrival,
            limits=ReaderLimits(
                threads=lambda: config.int("remote.log.reader.threads"),
                pending_max=lambda: config.int("remote.log.reader.max.pending.tasks"),
                bytes_per_second=lambda: config.int("remote.log.manager.fetch.max.bytes.per.second"),
            ),
        )
        self.offset_reader = RemoteLogOffsetReader(
            store,
            self.indexes,
            logs,
            loop=loop,
            executor=self.executor,
            threads=lambda: config.int("remote.log.reader.threads"),
        )
        self.aux_states = RemoteLogAuxStates(store, logs)

    def close(self) -> None:
        """Read nothing more; nobody waits for what is under way."""
        self.reader.close()
        for pool in (self.executor, self.start_executor):
            pool.shutdown(wait=False, cancel_futures=True)


class IndexUpkeep:
    """Removes indexes from the RemoteIndexCache that are too many, or of no use any more.

    Where `remote.log.index.file.cache.total.size.bytes` is lowered, the longest unused go at once. And what
    nobody can ask for any more goes: indexes of segments that were removed from the store, also while this
    node was down, of deleted topics, and of partitions that are held elsewhere now. All this is looked at
    every `interval_s`, and soon after `note`. `held` tells which tiered partitions this node has, `logs` what
    is known of their segments.
    """

    def __init__(
        self,
        indexes: RemoteIndexCache,
        logs: RemotePartitionMetadataStore,
        *,
        held: Callable[[], Iterable[TopicIdPartition]],
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None,
        interval_s: Callable[[], float],
    ) -> None:
        self._indexes = indexes
        self._logs = logs
        self._held = held
        self._loop = loop
        self._executor = executor
        self._interval_s = interval_s
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())

    def note(self) -> None:
        """Settings have changed, or a topic was deleted."""
        self._wake.set()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._loop.run_in_executor(self._executor, self._indexes.trim)
                await self._drop_dead()
            except OSError as error:
                logger.warning("indexes of remote segments are not removed yet: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._interval_s())
            self._wake.clear()

    async def _drop_dead(self) -> None:
        """Nothing goes before it is known of every partition here which segments it has."""
        dead = await self._loop.run_in_executor(self._executor, self._indexes.segment_ids)
        if not dead:
            return
        for partition in list(self._held()):
            remote = self._logs.get(partition)
            if remote is None:
                return
            dead.difference_update(
                uuid_text(segment.segment_id)
                for segment in remote.in_states(RemoteLogSegmentState.COPY_FINISHED)
            )
            await asyncio.sleep(0)  # there may be thousands, of thousands of segments each
        if dead:
            await self._loop.run_in_executor(self._executor, partial(self._indexes.forget, dead))
