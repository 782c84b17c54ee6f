"""Reading from the remote tier, joined for one node: the reader, lookups by time, followers' starts, and the
indexes that they share, on this disk.

They have threads of their own. How many read at once, and how many look up, is `remote.log.reader.threads`,
which can change while the node runs: so those count who give the threads work, and their pool has no bound of
its own. Followers' starts have another pool, for nobody counts them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.log.disk import Disk
from headrace.settings.broker_config import BrokerConfig
from headrace.tiered.index_cache import FOLDER, IndexCache
from headrace.tiered.reader import ReaderLimits, RemoteReader
from headrace.tiered.remote_log import RemoteLogs
from headrace.tiered.store import RemoteStore
from headrace.tiered.tails import RemoteTails
from headrace.tiered.times import RemoteTimes

THREADS_MAX: Final = 1 << 16
"""No bound of its own: a pool makes a thread when none is idle, and who gives it work counts."""

STARTS_MAX: Final = 64
"""Followers that ask the store at once where to start."""


class RemoteReading:
    """What the node's other parts need to read what is in the remote store."""

    def __init__(
        self,
        config: BrokerConfig,
        store: RemoteStore,
        logs: RemoteLogs,
        *,
        disk: Disk,
        log_dir: str,
        loop: asyncio.AbstractEventLoop,
        on_arrival: Callable[[TopicPartition], None],
    ) -> None:
        self.executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="remote-log-reader")
        self.start_executor = ThreadPoolExecutor(STARTS_MAX, thread_name_prefix="remote-log-start")
        self.indexes = IndexCache(
            disk,
            f"{log_dir}/{FOLDER}",
            store,
            bytes_max=lambda: config.int("remote.log.index.file.cache.total.size.bytes"),
            new_lock=Lock,
        )
        self.reader = RemoteReader(
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
        self.times = RemoteTimes(
            store,
            self.indexes,
            logs,
            loop=loop,
            executor=self.executor,
            threads=lambda: config.int("remote.log.reader.threads"),
        )
        self.tails = RemoteTails(store, logs)

    def close(self) -> None:
        """Read nothing more; nobody waits for what is under way."""
        self.reader.close()
        for pool in (self.executor, self.start_executor):
            pool.shutdown(wait=False, cancel_futures=True)
