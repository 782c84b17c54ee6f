"""Keeping the indexes of remote segments on this disk (`tiered.index_cache`) to what they are for.

Where `remote.log.index.file.cache.total.size.bytes` is lowered, the longest unused go at once. And what
nobody can ask for any more goes: indexes of segments that were removed from the store, also while this node
was down, of deleted topics, and of partitions that are held elsewhere now. All this is looked at every
`interval_s`, and soon after `note`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial

from headrace.base.ids import uuid_text
from headrace.tiered.index_cache import IndexCache
from headrace.tiered.remote_log import RemoteLogs
from headrace.tiered.remote_segment import SegmentState, TopicIdPartition

logger = logging.getLogger(__name__)


class IndexUpkeep:
    """`held` tells which tiered partitions this node has, `logs` what is known of their segments."""

    def __init__(
        self,
        indexes: IndexCache,
        logs: RemoteLogs,
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
                uuid_text(segment.segment_id) for segment in remote.in_states(SegmentState.COPY_FINISHED)
            )
            await asyncio.sleep(0)  # there may be thousands, of thousands of segments each
        if dead:
            await self._loop.run_in_executor(self._executor, partial(self._indexes.forget, dead))
