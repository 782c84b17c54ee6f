"""Moves replicas between this node's own log directories (KIP-113): AlterReplicaLogDirs.

A move copies the log piece by piece into a future log beside it (`log.future_logs`), a bounded piece each
turn of the loop and at most `replica.alter.log.dirs.io.max.bytes.per.second`, while the log is written and
read as ever. When the future log has caught up it is synced in a thread. Once it is caught up and synced but
for a little, the two change places between two turns of the loop: nobody sees a moment without a log.

Where a log is truncated while it is copied, copying starts over. Moves that a stop interrupts go on after the
next start. A log is not compacted while it is copied (`LogCleaner`): a key whose value was copied would be
back if its delete marker was not there any more when the copy comes to it. Where compaction may have been at
work without the future log, because that was in a folder that was offline, copying starts over.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log import future_logs
from headrace.log.faults import fail_log
from headrace.log.log_manager import LogManager
from headrace.log.throttler import Throttler
from headrace.log.unified_log import UnifiedLog
from headrace.replication.partition import Partition
from headrace.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
"""Copied in one turn: a few milliseconds in which nobody else is served."""

TAIL_BYTES: Final = 4 << 20
"""What may be left to sync when a copy takes its log's place."""

PAUSE_S: Final = 0.05
"""Between two looks while a sync is under way, or the bound on bytes is used up."""

UNKNOWN: Final = -1
"""The generation of a log of which a copy was made by an earlier process."""


class _Move:
    __slots__ = ("copy", "generation", "log", "partition", "synced_to", "unsynced_bytes")

    def __init__(self, partition: Partition, log: UnifiedLog, copy: UnifiedLog) -> None:
        self.partition = partition
        self.log = log
        self.copy = copy
        self.generation = log.generation
        self.synced_to: int | None = None
        self.unsynced_bytes = 0


class ReplicaAlterLogDirsManager:
    """The moves under way. `on_moved` is called for a replica that lies elsewhere now."""

    def __init__(
        self,
        log_manager: LogManager,
        replicas: ReplicaManager,
        *,
        loop: asyncio.AbstractEventLoop,
        request_flush: Callable[[UnifiedLog], None],
        bytes_per_second: Callable[[], int],
        on_moved: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self._log_manager = log_manager
        self._replicas = replicas
        self._loop = loop
        self._request_flush = request_flush
        self._throttler = Throttler(bytes_per_second)
        self._on_moved = on_moved
        self._moves: dict[TopicPartition, _Move] = {}
        self._wanted: dict[TopicPartition, str] = {}
        self._timer: asyncio.Handle | None = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._moves)

    def resume(self) -> None:
        """Go on with what an earlier process had begun."""
        for folder in self._log_manager.live_log_dirs():
            for where in list(folder.future_logs):
                partition = self._replicas.get(where)
                if partition is None or partition.log is None:
                    future_logs.abandon_future_log(self._log_manager, where)
                elif where not in self._moves:
                    log = partition.log
                    may_be_cleaned = log.config.compacts or log.cleaner_checkpoint is not None
                    self._begin(partition, log, folder.future_logs[where], anew=may_be_cleaned)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def move(self, where: TopicPartition, path: str) -> None:
        """Begin to move a replica; ApiError with what AlterReplicaLogDirs answers. REPLICA_NOT_AVAILABLE for
        one that is not here: should it come, it is made in that folder.
        """
        folder = future_logs.log_dir_at(self._log_manager, path)
        if self._log_manager.is_cordoned(folder) and self._log_manager.folder_of(where) is not folder:
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned: see cordoned.log.dirs")
        partition = self._replicas.get(where)
        if partition is None:
            self._wanted[where] = folder.path
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        log = partition.local_log()
        growing_in = future_logs.future_log_dir(self._log_manager, where)
        if growing_in is folder:
            return
        if growing_in is not None:
            self.give_up(where)
        if self._log_manager.folder_of(where) is not folder:
            self._begin(partition, log, future_logs.create_future_log(self._log_manager, log, folder))

    def wanted_directory(self, where: TopicPartition) -> bytes | None:
        """The id of the folder that a replica which is made now was asked to be in, once."""
        path = self._wanted.pop(where, None)
        for folder in self._log_manager.live_log_dirs():
            if folder.path == path and folder.meta is not None:
                return folder.meta.directory_id
        return None

    def give_up(self, where: TopicPartition) -> None:
        """The replica is gone, or shall go elsewhere."""
        self._moves.pop(where, None)
        future_logs.abandon_future_log(self._log_manager, where)

    def _begin(self, partition: Partition, log: UnifiedLog, copy: UnifiedLog, *, anew: bool = False) -> None:
        move = self._moves[partition.topic_partition] = _Move(partition, log, copy)
        if anew:
            move.generation = UNKNOWN
        self._go_on(0.0)

    def _go_on(self, delay_s: float) -> None:
        if self._timer is None and self._moves and not self._stopped:
            self._timer = self._loop.call_later(delay_s, self._step_all)

    def _step_all(self) -> None:
        self._timer = None
        copied = False
        for where, move in list(self._moves.items()):
            try:
                copied |= self._step(move)
            except ApiError as error:
                logger.warning("%s is not moved: %s", where, error)
                self.give_up(where)
        self._go_on(0.0 if copied else PAUSE_S)

    def _step(self, move: _Move) -> bool:
        """Copy a piece, wait for a sync, or finish; False where there is only waiting to be done."""
        log, copy = move.log, move.copy
        if self._replicas.get(log.topic_partition) is not move.partition or move.partition.log is not log:
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, "the replica is not here any more")
        failure = log.failure or copy.failure
        if failure is not None:
            raise failure
        if log.generation != move.generation or copy.log_end_offset < log.local_start_offset:
            now_ms = self._log_manager.clock.now_ms()
            copy.truncate_fully_and_start_at(log.local_start_offset, now_ms=now_ms)
            move.generation, move.synced_to = log.generation, None
        if copy.log_end_offset < log.log_end_offset:
            if self._throttler.is_used_up(self._log_manager.clock.monotonic_ms()):
                return False
            self._copy_piece(move)
            return True
        if move.synced_to is None or (copy.recovery_point >= move.synced_to and self._owes_much(move)):
            move.synced_to, move.unsynced_bytes = copy.log_end_offset, 0
            self._request_flush(copy)
            return False
        if copy.recovery_point < move.synced_to:
            return False
        self._finish(move)
        return True

    @staticmethod
    def _owes_much(move: _Move) -> bool:
        """Whether so much came during the last sync that another one should go first."""
        return move.unsynced_bytes > TAIL_BYTES

    def _copy_piece(self, move: _Move) -> None:
        chunk = move.log.read(move.copy.log_end_offset, max_bytes=PIECE_BYTES).chunk
        try:
            data = chunk if isinstance(chunk, bytes) else chunk.read()
        except OSError as error:
            raise fail_log(move.log, error) from error
        before = move.copy.log_end_offset
        move.copy.append_as_follower(data, now_ms=self._log_manager.clock.now_ms())
        if move.copy.log_end_offset == before:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"nothing can be copied from offset {before} on")
        self._throttler.take(len(data))
        move.unsynced_bytes += len(data)

    def _finish(self, move: _Move) -> None:
        """Change places, in one turn of the loop."""
        where = move.log.topic_partition
        try:
            moved = future_logs.replace_current_with_future_log(self._log_manager, where)
        except ApiError:
            move.partition.log = self._log_manager.get(
                where
            )  # the one or the other, in a folder that is offline
            raise
        del self._moves[where]
        move.partition.log = moved
        logger.info("%s lies in %s now", where, moved.folder)
        self._on_moved(move.partition)
        move.partition.on_advance(where)
