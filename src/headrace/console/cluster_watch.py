"""Keeps a picture of a cluster young, and remembers how lag and rates went.

A picture is taken anew when somebody asks and the last one is old, and every few seconds for the charts. It
costs the brokers what it costs: the pause is at least twenty times what taking the last one took, so that a
console looks at most a twentieth of the time, however large the cluster is. Memory is bounded by the number
of samples, and of groups and topics that are remembered.
"""

import asyncio
import contextlib
import logging
import time
from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.clients.errors import ClientError
from headrace.console.cluster_connection import ClusterConnection
from headrace.console.cluster_picture import ClusterPicture, take_picture

log = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
FRESH_S: Final = 1.0
"""So old may be what somebody is shown who asks now, where looking anew is cheap."""
COST_SHARE: Final = 20
SAMPLES_MAX: Final = 720
"""An hour at the shortest pause."""
SERIES_MAX: Final = 20_000
"""Topics and groups whose course is remembered: some 100 MB at the most."""
WORTH_WAITING_S: Final = 0.4
"""A picture that takes longer than this to take is shown old while the next is taken."""
_UNKNOWN: Final = -1


class Course:
    """How figures of many names went: columns of samples, all taken at the same times."""

    def __init__(self) -> None:
        self._columns: dict[str, array[int]] = {}
        self._told = False

    def add(self, values: Mapping[str, int], at: int) -> None:
        """The sample number `at`, of those that are kept; the names that are gone are forgotten."""
        for name in [name for name in self._columns if name not in values]:
            del self._columns[name]
        for name, value in values.items():
            column = self._columns.get(name)
            if column is None:
                if len(self._columns) >= SERIES_MAX:
                    self._tell()
                    continue
                column = self._columns[name] = array("q", [_UNKNOWN]) * at
            column.append(value)
            if len(column) > SAMPLES_MAX:
                del column[0]

    def of(self, name: str) -> list[int | None]:
        return [None if value == _UNKNOWN else value for value in self._columns.get(name, ())]

    def last(self, name: str, count: int = 1) -> list[int | None]:
        return [
            None if value == _UNKNOWN else value for value in self._columns.get(name, array("q"))[-count:]
        ]

    def columns(self) -> Iterable["array[int]"]:
        """All of them; where nothing is known is a number below 0."""
        return self._columns.values()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            log.warning("charts are kept of %d topics and groups; the others have none", SERIES_MAX)


class ClusterWatch:
    """One cluster, as one identity sees it."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.connection = connection
        self.times: deque[int] = deque(maxlen=SAMPLES_MAX)
        self.lags = Course()
        self.written = Course()
        """Sums of end offsets: what is between two of them was written meanwhile."""
        self._picture: ClusterPicture | None = None
        self._taken_at = 0.0
        self._sampled_at = -PAUSE_S
        self._takes: deque[float] = deque(maxlen=3)
        self._taking: asyncio.Task[ClusterPicture] | None = None
        self._is_stale = False
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
        self._is_stale = True

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
            self._taking = asyncio.create_task(self._look())
        return self._taking

    async def _take(self) -> ClusterPicture:
        if self._is_stale and self._taking is not None:
            # One that began before the change does not show it.
            await asyncio.wait([self._taking])
        return await asyncio.shield(self._begin())

    async def _look(self) -> ClusterPicture:
        began = time.monotonic()
        self._is_stale = False
        try:
            picture = await take_picture(self.connection.admin)
        except ClientError as error:
            self.failure = str(error)
            raise
        self.failure = ""
        self._taken_at = time.monotonic()
        self._takes.append(self._taken_at - began)
        self._picture = picture
        if self._taken_at - self._sampled_at >= PAUSE_S:
            self._sampled_at = self._taken_at
            self._remember(picture)
        return picture

    def _remember(self, picture: ClusterPicture) -> None:
        kept = len(self.times)
        at = min(kept, SAMPLES_MAX - 1)
        self.times.append(picture.taken_ms)
        self.lags.add({name: each.lag for name, each in picture.groups.items() if each.lag is not None}, at)
        written: dict[str, int] = {}
        for place, end in picture.ends.items():
            written[place.topic] = written.get(place.topic, 0) + end
        self.written.add(written, at)

    async def _sample(self) -> None:
        while True:
            if time.monotonic() - self._taken_at >= self.pause_s:
                try:
                    await asyncio.shield(self._begin())
                except ClientError as error:
                    log.warning("cluster %s cannot be looked at now: %s", self.connection.spec.name, error)
                except Exception:
                    log.exception(
                        "looking at cluster %s failed; it is tried again", self.connection.spec.name
                    )
            await asyncio.sleep(self.pause_s)

    def rate(self, topic: str) -> float | None:
        """Records a second that were written between the last two samples."""
        return rate_of(list(self.times)[-2:], self.written.last(topic, 2))


def rate_of(times: list[int], sums: list[int | None]) -> float | None:
    """What was written a second between the first and the last; None where that is not known."""
    if len(times) < 2 or len(sums) < 2 or sums[0] is None or sums[-1] is None or times[-1] <= times[0]:
        return None
    # A topic that was deleted and made again begins at 0.
    return max(0, sums[-1] - sums[0]) * 1000 / (times[-1] - times[0])


def rates_of(times: Iterable[int], sums: list[int | None]) -> list[float | None]:
    """The course of a rate, one shorter than its samples."""
    moments = list(times)[-len(sums) :] if sums else []
    return [rate_of(moments[at : at + 2], sums[at : at + 2]) for at in range(len(sums) - 1)]
