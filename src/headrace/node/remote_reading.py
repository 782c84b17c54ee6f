"""Reading from the remote tier, joined for one node: the reader, lookups by time, followers' starts, and the
indexes that they share, on this disk.

They have threads of their own. How many read at once is a setting that can change while the node runs, so the
reader counts; the pool is only the upper bound.
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

THREADS_MAX: Final = 64


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
        indexes = IndexCache(
            disk,
            f"{log_dir}/{FOLDER}",
            store,
            bytes_max=lambda: config.int("remote.log.index.file.cache.total.size.bytes"),
            new_lock=Lock,
        )
        self.reader = RemoteReader(
            store,
            indexes,
            logs,
            loop=loop,
            executor=self.executor,
            on_arrival=on_arrival,
            limits=ReaderLimits(
                threads=lambda: min(config.int("remote.log.reader.threads"), THREADS_MAX),
                pending_max=lambda: config.int("remote.log.reader.max.pending.tasks"),
                bytes_per_second=lambda: config.int("remote.log.manager.fetch.max.bytes.per.second"),
            ),
        )
        self.times = RemoteTimes(store, indexes, logs, loop=loop, executor=self.executor)
        self.tails = RemoteTails(store, logs)

    def close(self) -> None:
        """Read nothing more; nobody waits for what is under way."""
        self.reader.close()
        self.executor.shutdown(wait=False, cancel_futures=True)
