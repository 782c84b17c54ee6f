"""A leader whose disk is full lets another replica lead.

An append that finds no room is refused, and the log stays what it was: it can be read and followed. But while
there is no room its producers would be refused, though other replicas could take their records. So a leader
that has others in sync tells the controller that its replica lies in no directory that can be used (KIP-858):
that takes it out of the in-sync set, and another one leads. It follows that one, and as soon as there is room
again, or its log has grown, it tells where its replica lies.

One that is alone in sync goes on leading: what it has can be read nowhere else.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.ids import TopicId
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.metadata.directories import LOST
from headrace.replication.partition import Partition
from headrace.replication.replicas import Replicas

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
        replicas: Replicas,
        store: LogStore,
        *,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[TopicId, int, bytes], None],
    ) -> None:
        self._replicas = replicas
        self._store = store
        self._loop = loop
        self._report = report
        self._timer: asyncio.TimerHandle | None = None
        self.handed_over: dict[Partition, int] = {}
        """With where their logs ended then. Their places are not told meanwhile."""
        replicas.handed_over = self.handed_over
        for folder in store.folders:
            folder.storage.on_full = self.note

    def note(self, log: PartitionLog) -> None:
        """An append to the log found no room."""
        partition = self._replicas.get(log.topic_partition)
        if partition is None or partition.log is not log or partition in self.handed_over:
            return
        if not partition.is_leader or partition.in_sync_count < 2:
            return
        logger.warning("%s: the disk is full, and another replica shall lead", log.topic_partition)
        self.handed_over[partition] = log.log_end_offset
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
        for partition, end in list(self.handed_over.items()):
            if self._replicas.get(partition.topic_partition) is not partition:
                del self.handed_over[partition]
            elif self._is_usable(partition, end):
                del self.handed_over[partition]
                self._replicas.report_place(partition)
        if self.handed_over:
            self._look_later()

    def _is_usable(self, partition: Partition, end: int) -> bool:
        if partition.log is not None and partition.log.log_end_offset > end:
            return True
        folder = self._store.folder_of(partition.topic_partition)
        if folder is None:
            return False
        try:
            total_bytes, free_bytes = folder.disk.usage(folder.path)
        except OSError:
            return False
        return free_bytes >= min(total_bytes // _FREE_SHARE, _FREE_BYTES_MAX)
