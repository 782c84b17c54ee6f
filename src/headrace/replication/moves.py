"""Moves replicas between this node's own folders (KIP-113): AlterReplicaLogDirs.

A move copies the log piece by piece into a copy beside it (`log.log_moves`), a bounded piece each turn of the
loop and at most `replica.alter.log.dirs.io.max.bytes.per.second`, while the log is written and read as ever.
When the copy has caught up it is synced in a thread. Once it is caught up and synced but for a little, the
two change places between two turns of the loop: nobody sees a moment without a log.

A log that is cut back while it is copied makes the copy begin anew. Moves that a stop interrupts go on after
the next start. A log is not compacted while it is copied (`cleaning`): a key whose value was copied would be
back if its delete marker was not there any more when the copy comes to it. Where compaction may have been at
work without the copy, because that was in a folder that was offline, it begins anew.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log import log_moves
from headrace.log.faults import fail
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.replication.partition import Partition
from headrace.replication.replicas import Replicas
from headrace.replication.throttles import Allowance

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
"""Copied in one turn: a few milliseconds in which nobody else is served."""

TAIL_BYTES: Final = 4 << 20
"""What may be left to sync when a copy takes its log's place."""

PAUSE_S: Final = 0.05
"""While a sync or an allowance is waited for."""

UNKNOWN: Final = -1
"""The generation of a log of which a copy was made by an earlier process."""


class _Move:
    __slots__ = ("copy", "generation", "log", "partition", "synced_to", "unsynced_bytes")

    def __init__(self, partition: Partition, log: PartitionLog, copy: PartitionLog) -> None:
        self.partition = partition
        self.log = log
        self.copy = copy
        self.generation = log.generation
        self.synced_to: int | None = None
        self.unsynced_bytes = 0


class ReplicaMoves:
    """The moves under way. `on_moved` is told of a replica that lies elsewhere now."""

    def __init__(
        self,
        store: LogStore,
        replicas: Replicas,
        *,
        loop: asyncio.AbstractEventLoop,
        request_flush: Callable[[PartitionLog], None],
        bytes_per_second: Callable[[], int],
        on_moved: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._loop = loop
        self._request_flush = request_flush
        self._allowance = Allowance(bytes_per_second)
        self._on_moved = on_moved
        self._moves: dict[TopicPartition, _Move] = {}
        self._wanted: dict[TopicPartition, str] = {}
        self._timer: asyncio.Handle | None = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._moves)

    def resume(self) -> None:
        """Go on with what an earlier process had begun."""
        for folder in self._store.online_folders():
            for where in list(folder.future_logs):
                partition = self._replicas.get(where)
                if partition is None or partition.log is None:
                    log_moves.abandon_copy(self._store, where)
                elif where not in self._moves:
                    log = partition.log
                    may_be_cleaned = log.config.compacts or log.cleaned_to is not None
                    self._begin(partition, log, folder.future_logs[where], anew=may_be_cleaned)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def move(self, where: TopicPartition, path: str) -> None:
        """Begin to move a replica; ApiError with what AlterReplicaLogDirs answers. REPLICA_NOT_AVAILABLE for
        one that is not here: should it come, it is made in that folder.
        """
        folder = log_moves.folder_at(self._store, path)
        partition = self._replicas.get(where)
        if partition is None:
            self._wanted[where] = folder.path
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        log = partition.local_log()
        growing_in = log_moves.home_of_copy(self._store, where)
        if growing_in is folder:
            return
        if growing_in is not None:
            self.give_up(where)
        if self._store.folder_of(where) is not folder:
            self._begin(partition, log, log_moves.begin_copy(self._store, log, folder))

    def wanted_directory(self, where: TopicPartition) -> bytes | None:
        """The id of the folder that a replica which is made now was asked to be in, once."""
        path = self._wanted.pop(where, None)
        for folder in self._store.online_folders():
            if folder.path == path and folder.meta is not None:
                return folder.meta.directory_id
        return None

    def give_up(self, where: TopicPartition) -> None:
        """The replica is gone, or shall go elsewhere."""
        self._moves.pop(where, None)
        log_moves.abandon_copy(self._store, where)

    def _begin(
        self, partition: Partition, log: PartitionLog, copy: PartitionLog, *, anew: bool = False
    ) -> None:
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
            now_ms = self._store.clock.now_ms()
            copy.truncate_fully_and_start_at(log.local_start_offset, now_ms=now_ms)
            move.generation, move.synced_to = log.generation, None
        if copy.log_end_offset < log.log_end_offset:
            if self._allowance.is_used_up(self._store.clock.monotonic_ms()):
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
            raise fail(move.log, error) from error
        before = move.copy.log_end_offset
        move.copy.append_as_follower(data, now_ms=self._store.clock.now_ms())
        if move.copy.log_end_offset == before:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"nothing can be copied from offset {before} on")
        self._allowance.take(len(data))
        move.unsynced_bytes += len(data)

    def _finish(self, move: _Move) -> None:
        """Change places, in one turn of the loop."""
        where = move.log.topic_partition
        try:
            moved = log_moves.complete_copy(self._store, where)
        except ApiError:
            move.partition.log = self._store.get(where)  # the one or the other, in a folder that is offline
            raise
        del self._moves[where]
        move.partition.log = moved
        logger.info("%s lies in %s now", where, moved.folder)
        self._on_moved(move.partition)
        move.partition.on_advance(where)
