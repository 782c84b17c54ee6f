"""Doing the steps of work on remote segments: records are written and read back, what blocks is for a thread.

Threads are of an executor of their own: a store that is slow must not keep a log from being synced. All logs
that are copied or compacted share `remote.log.manager.copy.max.bytes.per.second`. Their bytes count before
they are moved, so that of many that want to begin at once only one does; the small objects beside them do not
count, as in Kafka.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

from headrace.base.errors import InvalidBytesError
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.tiered.pace import Pace
from headrace.tiered.remote_log import RemoteLog, RemoteLogs, SegmentUpdate
from headrace.tiered.remote_segment import RemoteSegment, TopicIdPartition, partition_prefix, segment_id_in
from headrace.tiered.removal import orphans
from headrace.tiered.steps import Room, Steps, Tell, Teller
from headrace.tiered.store import RemoteStore, RemoteStoreError, begun

logger = logging.getLogger(__name__)

T = TypeVar("T")
IsWanted = Callable[[], bool]

PAUSE_S: Final = 1.0


class SegmentRecords(Protocol):
    """`__remote_log_metadata`, as `node.remote_metadata` reads and writes it."""

    logs: RemoteLogs

    async def write(self, record: RemoteSegment | SegmentUpdate, is_wanted: IsWanted) -> bool: ...

    async def catch_up(self, partition: TopicIdPartition, is_wanted: IsWanted) -> bool: ...

    async def told_of(
        self, partition: TopicIdPartition, ids: Collection[str], is_wanted: IsWanted
    ) -> dict[str, bool] | None: ...


class TierRounds:
    """The records, the store, and the threads between them."""

    def __init__(
        self,
        records: SegmentRecords,
        store: RemoteStore,
        teller: Teller,
        *,
        loop: asyncio.AbstractEventLoop,
        bytes_per_second: Callable[[], int],
        executor: Executor | None = None,
    ) -> None:
        self.records = records
        self.store = store
        self.teller = teller
        self._loop = loop
        self._executor = executor
        self._pace = Pace(bytes_per_second)
        self._unmentioned: dict[TopicIdPartition, set[str]] = {}  # ids of segments without any record

    async def run(self, steps: Steps, is_wanted: IsWanted) -> bool:
        """Do the steps one after the other; whether what they are for is done."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Tell):
                    step = steps.send(await self.records.write(step.record, is_wanted))
                    continue
                if isinstance(step, Room):
                    if not await self.hold_back(step.size, is_wanted):
                        steps.close()
                        return False
                    step = steps.send(0)
                    continue
                try:
                    moved = await self.in_thread(step)
                except (RemoteStoreError, OSError, InvalidBytesError) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(moved)
        except StopIteration as stop:
            return bool(stop.value)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._executor, work)

    async def hold_back(self, size: int, is_wanted: IsWanted) -> bool:
        """Keep to the bound on bytes: wait until so many may be moved, and count them. False: nobody wants
        them moved any more.
        """
        while is_wanted():
            wait_s = self._pace.wait_s(self._loop.time())
            if wait_s <= 0:
                self._pace.take(size, self._loop.time())
                return True
            await asyncio.sleep(min(wait_s, PAUSE_S))  # the bound may change meanwhile
        return False

    async def sweep(
        self, name: TopicIdPartition, remote: RemoteLog, is_wanted: IsWanted, *, is_deleted: bool = False
    ) -> None:
        """Remove objects of segments that nobody knows: put by somebody who did not know that another leads.

        A removal that was told is all that makes an object superfluous, unless the topic `is_deleted`: then
        everything is. Records can be lost, with a disk or a retention of their own, and then there are
        objects of which they tell nothing. Those are kept.
        """
        names = await self.in_thread(lambda: begun(self.store, partition_prefix(name)))
        if not names or not await self.records.catch_up(name, is_wanted):
            return
        lost = orphans(names, remote)
        if not is_deleted:
            lost = await self._told_removed(name, lost, is_wanted)
        if lost:
            logger.warning("%d objects of %s belong to no segment: removing them", len(lost), name)
            await self.in_thread(lambda: self.store.delete(lost))

    async def _told_removed(
        self, name: TopicIdPartition, objects: list[str], is_wanted: IsWanted
    ) -> list[str]:
        """Of objects without a segment, those whose removal the records tell of. The others are kept, and
        named once.
        """
        ids = {segment_id_in(each) for each in objects}
        known = self._unmentioned.pop(name, set()) & ids
        told = await self.records.told_of(name, ids - known, is_wanted) if ids - known else {}
        if told is None:
            return []
        news = ids - known - told.keys()
        if known | news:
            self._unmentioned[name] = known | news
        if news:
            those = [each for each in objects if segment_id_in(each) in news]
            logger.error(
                "%s: %s has no record of %d objects in the remote store (%s and others). Each of them was"
                " announced there, so records were lost. The objects are kept, and cannot be read: bring the"
                " records back, or remove the objects yourself if nobody needs them",
                name,
                REMOTE_LOG_TOPIC,
                len(those),
                those[0],
            )
        return [each for each in objects if told.get(segment_id_in(each))]
