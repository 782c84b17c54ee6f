"""Keeps a picture of a cluster young, and remembers how lag and rates went.

A picture is taken anew when somebody asks and the last one is old, and every few seconds for the charts. It
costs the brokers what it costs: the pause is at least twenty times what taking the last one took, so that a
console looks at most a twentieth of the time, however large the cluster is. What the courses take is bounded
for all watches of a console together (`course.py`). Transactions that hang are looked for less often: every
partition is asked for its producers.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients import ActiveProducer, AsyncAdmin
from headrace.clients.errors import ClientError
from headrace.clients.remote_logs import AsyncClusterRemoteLogs
from headrace.console.cluster_connection import ClusterConnection
from headrace.console.cluster_picture import ClusterPicture, take_picture
from headrace.console.course import SAMPLES_MAX, Course, CourseMemory
from headrace.console.hanging import find_hanging
from headrace.console.row_changes import RowChanges

log = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
FRESH_S: Final = 1.0
"""So old may be what somebody is shown who asks now, where looking anew is cheap."""
COST_SHARE: Final = 20
HANGING_PAUSE_S: Final = 60.0
WORTH_WAITING_S: Final = 0.4
"""A picture that takes longer than this to take is shown old while the next is taken."""


class ClusterWatch:
    """One cluster, as one identity sees it."""

    def __init__(
        self,
        connection: ClusterConnection,
        memory: CourseMemory | None = None,
        *,
        take: Callable[[AsyncAdmin], Awaitable[ClusterPicture]] = take_picture,
    ) -> None:
        self.connection = connection
        self._take_picture = take
        self.topic_rows = RowChanges("name")
        self.group_rows = RowChanges("group")
        self.times: deque[int] = deque(maxlen=SAMPLES_MAX)
        self.total_rates: deque[float | None] = deque(maxlen=SAMPLES_MAX)
        """Records a second before each sample, of all topics that were there before."""
        memory = memory or CourseMemory()
        self.lags = Course(memory)
        self.written = Course(memory)
        """Sums of end offsets: what is between two of them was written meanwhile."""
        self._written: dict[str, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._rates: dict[str, float] = {}
        self.hanging: list[ActiveProducer] = []
        """Transactions that nobody will end, as the last look has found them."""
        self.remote_logs = AsyncClusterRemoteLogs(
            lambda: connection.consumer(isolation_level="read_uncommitted")
        )
        self.looked_for_hanging_ms: int | None = None
        self._look_for_hanging_at = 0.0
        self._picture: ClusterPicture | None = None
        self._taken_at = 0.0
        self._sampled_at = -PAUSE_S
        self._takes: deque[float] = deque(maxlen=3)
        self._taking: asyncio.Task[ClusterPicture] | None = None
        self._changes = 0
        self._changes_begun = 0
        self._changes_seen = 0
        self._sampler: asyncio.Task[None] | None = None
        self.failure = ""

    def start(self) -> None:
        """Sample from now on."""
        self._sampler = asyncio.create_task(self._sample())

    async def close(self) -> None:
        for task in (self._sampler, self._taking):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ClientError):
                    await task
        self.lags.close()
        self.written.close()
        await self.connection.close()

    @property
    def _took_s(self) -> float:
        """What a picture takes: the best of the last few, since a busy machine says nothing of its cost."""
        return min(self._takes, default=0.0)

    @property
    def pause_s(self) -> float:
        return max(PAUSE_S, COST_SHARE * self._took_s)

    def changed(self) -> None:
        """Somebody has changed the cluster: what is known is old."""
        self._changes += 1

    @property
    def _is_stale(self) -> bool:
        """Whether the picture was begun before the last change; one that is under way does not count."""
        return self._changes_seen < self._changes

    async def picture(self) -> ClusterPicture:
        """A young picture, or the last one where the next takes long."""
        age_s = time.monotonic() - self._taken_at
        if (
            self._picture is not None
            and not self._is_stale
            and age_s < max(FRESH_S, COST_SHARE * self._took_s)
        ):
            return self._picture
        if self._picture is None or self._is_stale or self._took_s < WORTH_WAITING_S:
            return await self._take()
        self._begin()
        return self._picture

    def _begin(self) -> "asyncio.Task[ClusterPicture]":
        if self._taking is None or self._taking.done():
            self._changes_begun = self._changes
            self._taking = asyncio.create_task(self._look())
        return self._taking

    async def _take(self) -> ClusterPicture:
        if self._taking is not None and self._changes_begun < self._changes:
            # One that began before the change does not show it.
            await asyncio.wait([self._taking])
        return await asyncio.shield(self._begin())

    async def _look(self) -> ClusterPicture:
        began = time.monotonic()
        changes = self._changes_begun
        try:
            picture = await self._take_picture(self.connection.admin)
        except ClientError as error:
            self.failure = str(error)
            raise
        self.failure = ""
        self._taken_at = time.monotonic()
        self._takes.append(self._taken_at - began)
        self._picture = picture
        self._changes_seen = changes
        if self._taken_at - self._sampled_at >= PAUSE_S:
            self._sampled_at = self._taken_at
            self._remember(picture)
        return picture

    def _remember(self, picture: ClusterPicture) -> None:
        kept = len(self.times)
        at = min(kept, SAMPLES_MAX - 1)
        self.times.append(picture.taken_ms)
        self.lags.add({name: each.lag for name, each in picture.groups.items() if each.lag is not None}, at)
        # A partition without a leader ends where it did: else a rate falls, and leaps when it is back.
        gone = {place: end for place, end in self._ends.items() if place.topic in picture.topics}
        self._ends = {**gone, **picture.ends}
        written: dict[str, int] = {}
        for place, end in self._ends.items():
            written[place.topic] = written.get(place.topic, 0) + end
        self.written.add(written, at)
        self._rates = self._rates_since(written)
        self.total_rates.append(sum(self._rates.values()) if self._rates else None)
        self._written = written

    def _rates_since(self, written: dict[str, int]) -> dict[str, float]:
        """What was written a second since the sample before this one."""
        pause_ms = self.times[-1] - self.times[-2] if len(self.times) > 1 else 0
        if pause_ms <= 0:
            return {}
        # A topic that was deleted and made again begins at 0.
        return {
            name: max(0, total - self._written[name]) * 1000 / pause_ms
            for name, total in written.items()
            if name in self._written
        }

    async def look_for_hanging(self) -> None:
        """Look now for transactions that nobody will end."""
        picture = await self.picture()
        began = time.monotonic()
        self.hanging = await find_hanging(
            self.connection.admin,
            [
                TopicPartition(topic.name, each.number)
                for topic in picture.topics.values()
                for each in topic.partitions
            ],
        )
        self.looked_for_hanging_ms = int(time.time() * 1000)
        took_s = time.monotonic() - began
        self._look_for_hanging_at = time.monotonic() + max(HANGING_PAUSE_S, COST_SHARE * took_s)

    async def _sample(self) -> None:
        while True:
            is_old = time.monotonic() - self._taken_at >= self.pause_s
            if is_old or time.monotonic() >= self._look_for_hanging_at:
                try:
                    if is_old:
                        await asyncio.shield(self._begin())
                    if time.monotonic() >= self._look_for_hanging_at:
                        await self._look_for_hanging()
                except ClientError as error:
                    log.warning("cluster %s cannot be looked at now: %s", self.connection.spec.name, error)
                except Exception:
                    log.exception(
                        "looking at cluster %s failed; it is tried again", self.connection.spec.name
                    )
            await asyncio.sleep(self.pause_s)

    async def _look_for_hanging(self) -> None:
        """What cannot be looked for (no such request, no right) is tried again later, and is no failure."""
        self._look_for_hanging_at = time.monotonic() + HANGING_PAUSE_S
        with contextlib.suppress(ClientError):
            await self.look_for_hanging()

    def rate(self, topic: str) -> float | None:
        """Records a second that were written between the last two samples."""
        return self._rates.get(topic)
