"""A broker's partitions follow the image, commit by commit, in the log's order.

A commit that changes few partitions is followed at once. One that brings many has their files made by a
thread first (`log/making.py`), and is followed in slices, between which the loop serves others; the commits
after it wait behind it. The image is ahead of the partitions meanwhile, as one broker's is ahead of
another's: clients that come too early are told that the partition is not known here, and ask again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.log.log_store import LogStore
from headrace.metadata.delta import Delta
from headrace.metadata.image import ClusterImage
from headrace.replication.replicas import Replicas

AT_ONCE: Final = 256
"""Partitions that are followed without a pause: most topics have fewer, and are there when their makers hear
that they are. Some fifty milliseconds where files are made quickly."""

SLICE: Final = 64
"""Partitions that are followed in one turn of the loop where there are more."""

Follow = Callable[[ClusterImage, Delta], None]


class ImageFollowing:
    """A listener of the image's publisher. `follow` does what a commit asks for."""

    def __init__(
        self,
        store: LogStore,
        replicas: Replicas,
        follow: Follow,
        *,
        is_starting: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._follow = follow
        self._is_starting = is_starting
        self._loop = loop
        self._on_failure = on_failure
        self._waiting: deque[tuple[int, Delta]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def __call__(self, image: ClusterImage, delta: Delta) -> None:
        if self._task is None and delta.partition_count <= AT_ONCE:
            self._follow(image, delta)
        elif not self._stopped:
            self._waiting.append((image.offset, delta))
            if self._task is None:
                self._task = self._loop.create_task(self._run(image))
                self._task.add_done_callback(self._ended)

    def replayed_to(self, image: ClusterImage) -> int:
        """The offset of the last commit that the partitions have followed."""
        return self._waiting[0][0] - 1 if self._waiting else image.offset

    async def settle(self) -> None:
        """Return when everything so far is followed."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Follow no further; on return no thread makes anything any more. What was not followed yet is left
        to the next start."""
        self._stopped = True
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Stop where it stands."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self, image: ClusterImage) -> None:
        while self._waiting and not self._stopped:
            await self._follow_slowly(image, self._waiting[0][1])
            self._waiting.popleft()

    async def _follow_slowly(self, image: ClusterImage, delta: Delta) -> None:
        for piece in delta.slices(SLICE):
            new = self._replicas.new_logs(image, piece, starting=self._is_starting())
            making = self._store.begin_making(new)
            if making.wanted:
                await self._loop.run_in_executor(None, making.run)
                self._store.finish_making(making)
            if self._stopped:
                return
            self._follow(image, piece)
            self._store.drop_unused()
            await asyncio.sleep(0)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            # Nobody else would hear of it, and the partitions would never follow again.
            self._on_failure(error)
