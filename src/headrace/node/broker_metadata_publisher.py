"""A broker follows the image, commit by commit, in the log's order.

A commit that changes few partitions is followed at once. One that brings many is followed in slices, between
which the loop serves others, for a file system may take a millisecond for each file of a new partition; the
commits after it wait behind it. A thread would not do better: it gives up the interpreter with every file,
and gets it back from a busy loop five milliseconds later.

The image is ahead of the partitions meanwhile, as one broker's is ahead of another's: clients that come too
early are told that the partition is not known here, and ask again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.base.clock import Clock
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage

AT_ONCE: Final = 256
"""Partitions that are followed without a pause: most topics have fewer, and are there when their makers hear
that they are. Some fifty milliseconds where files are made quickly."""

PIECE: Final = 16
"""Partitions between two looks at the clock."""

SLICE: Final = 64
SLICE_MS: Final = 10
"""Where there are more: so many partitions, or so long, in one turn of the loop."""

Follow = Callable[[MetadataImage, MetadataDelta], None]


class BrokerMetadataPublisher:
    """A listener of the image's publisher. `follow` does what a commit asks for, in pieces where it is much;
    `on_followed` is called after each commit.
    """

    def __init__(
        self,
        follow: Follow,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        on_failure: Callable[[Exception], None],
        on_followed: Callable[[], None] = lambda: None,
    ) -> None:
        self._follow = follow
        self._loop = loop
        self._clock = clock
        self._on_failure = on_failure
        self._on_followed = on_followed
        self._waiting: deque[tuple[int, MetadataDelta]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if self._task is None and delta.partition_count <= AT_ONCE:
            self._follow(image, delta)
            self._on_followed()
            return
        self._waiting.append((image.offset, delta))
        if self._task is None:
            self._task = self._loop.create_task(self._run(image))
            self._task.add_done_callback(self._ended)

    def replayed_to(self, image: MetadataImage) -> int:
        """The offset of the last commit that was followed."""
        return self._waiting[0][0] - 1 if self._waiting else image.offset

    async def settle(self) -> None:
        """Return when everything so far is followed."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """Follow no further: what waits is left to the next start."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, image: MetadataImage) -> None:
        while self._waiting:
            await self._follow_slowly(image, self._waiting[0][1])
            self._on_followed()
            self._waiting.popleft()
        # In the same turn in which nothing waited: a commit before the task's callback would wait for nobody.
        self._task = None

    async def _follow_slowly(self, image: MetadataImage, delta: MetadataDelta) -> None:
        began_ms, count = self._clock.monotonic_ms(), 0
        for piece in delta.slices(PIECE):
            self._follow(image, piece)
            count += PIECE
            if count >= SLICE or self._clock.monotonic_ms() - began_ms >= SLICE_MS:
                await self._let_others()
                began_ms, count = self._clock.monotonic_ms(), 0

    async def _let_others(self) -> None:
        await asyncio.sleep(0)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if self._task is task:
            self._task = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            # Nobody else would hear of it, and the partitions would never follow again.
            self._on_failure(error)
