"""A replica whose disk is full, or whose log has lost records, steps back while others are in sync.

An append that finds no room is refused, and the log stays what it was: it can be read and followed. But while
there is no room a leader's producers would be refused, though other replicas could take their records, and
with a follower everybody who waits for all in-sync replicas would wait, until it has lagged for
replica.lag.time.max.ms. So one that has others in sync tells the controller that its replica lies in no
directory that can be used (KIP-858): that takes it out of the in-sync set, and another one leads. It follows
that one, and as soon as there is room again, or its log has grown, it tells where its replica lies.

The same way goes a replica that finds a hole in its log (`log.missing_records`): once it counts for nobody it
cuts its log there and fetches the rest again (`follower_log.fetch_missing`).

One that is alone in sync goes on leading: what it has can be read nowhere else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.ids import TopicId
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog
from headrace.metadata.directory_id import LOST
from headrace.replication.partition import Partition
from headrace.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often room is looked for while there is none."""

# So much of a disk must be free: what is gone with the next batch is no room.
_FREE_SHARE: Final = 100
_FREE_BYTES_MAX: Final = 1 << 30


class FullDisks:
    """What this node could lead but for its disks. On the loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        log_manager: LogManager,
        *,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[TopicId, int, bytes], None],
    ) -> None:
        self._replicas = replicas
        self._log_manager = log_manager
        self._loop = loop
        self._report = report
        self._timer: asyncio.TimerHandle | None = None
        # With where their logs ended then. Their places are not told meanwhile.
        self._handed_over: dict[Partition, int] = {}
        self._unmade: dict[Partition, None] = {}

    def note(self, log: UnifiedLog) -> None:
        """An append to the log found no room."""
        self._step_back(log, "its disk is full")

    def note_missing(self, log: UnifiedLog) -> None:
        """A closed segment of the log was found to have lost records."""
        self._step_back(log, "it has lost records")

    def note_unmade(self, partition: Partition) -> None:
        """There was no room to make the partition's log: it is made when there is."""
        if partition in self._unmade:
            return
        self._unmade[partition] = None
        logger.warning(
            "%s: there is no room for its log. It is made when there is; until then who uses it is told "
            "KAFKA_STORAGE_ERROR, and other replicas lead.",
            partition.topic_partition,
        )
        if partition.in_sync_count > 1:
            self._replicas.withhold_place(partition)
            self._report(partition.topic_id, partition.topic_partition.partition, LOST)
        self._look_later()

    def _make_again(self) -> None:
        for partition in list(self._unmade):
            if not self._log_manager.room():
                return
            del self._unmade[partition]
            self._replicas.release_place(partition)
            if self._replicas.make_again(partition):
                logger.info("%s: its log is made, there is room again", partition.topic_partition)

    def _step_back(self, log: UnifiedLog, why: str) -> None:
        partition = self._replicas.get(log.topic_partition)
        if partition is None or partition.log is not log or partition in self._handed_over:
            return
        if partition.in_sync_count < 2 or not partition.is_in_sync(partition.node_id):
            return
        logger.warning(
            "%s: %s. %s",
            log.topic_partition,
            why,
            "Another replica shall lead."
            if partition.is_leader
            else "This replica leaves the in-sync set until it has caught up.",
        )
        self._handed_over[partition] = log.log_end_offset
        self._replicas.withhold_place(partition)
        self._report(partition.topic_id, log.topic_partition.partition, LOST)
        self._look_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        for partition, end in list(self._handed_over.items()):
            if self._replicas.get(partition.topic_partition) is not partition:
                self._take_back(partition)
            elif self._is_usable(partition, end):
                self._take_back(partition)
                logger.info("%s: this replica can be used again", partition.topic_partition)
                self._replicas.report_place(partition)
        self._make_again()
        if self._handed_over or self._unmade:
            self._look_later()

    def _take_back(self, partition: Partition) -> None:
        del self._handed_over[partition]
        self._replicas.release_place(partition)

    def _is_usable(self, partition: Partition, end: int) -> bool:
        if partition.log is not None and partition.log.missing_from is not None:
            return False
        if partition.log is not None and partition.log.log_end_offset > end:
            return True
        folder = self._log_manager.folder_of(partition.topic_partition)
        if folder is None:
            return False
        try:
            total_bytes, free_bytes = folder.disk.usage(folder.path)
        except OSError:
            return False
        return free_bytes >= min(total_bytes // _FREE_SHARE, _FREE_BYTES_MAX)
