"""All logs of a node, in all its `log.dirs`.

Opening, placing, deleting, checkpointing and closing. Work that blocks is split in two, as a log's flush is:
the part on the loop gathers what must be written or removed, and returns an object whose `write` or `sync` a
thread calls. The driver in `node` calls these at Kafka's intervals:

    take_flushes         log.flush.scheduler.interval.ms, and soon after a roll (`storage.to_flush`)
    begin_checkpoint     log.flush.offset.checkpoint.interval.ms and its siblings
    delete_old_segments  log.retention.check.interval.ms
    take_removals        a few seconds
    expire_producers     producer.id.expiration.check.interval.ms
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.checkpoints import NO_BROKER_EPOCH, encode_clean_shutdown
from headrace.log.disk import Disk
from headrace.log.faults import DISK_FULL, OUT_OF_DESCRIPTORS
from headrace.log.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from headrace.log.flush import Flush, close_logs
from headrace.log.log_directory import (
    CHECKPOINTS,
    CheckpointWrite,
    ConfigOf,
    LogDirectory,
    LogDirUsage,
    checkpoint_of,
    usage_of,
    write_checkpoint,
)
from headrace.log.log_recovery import OnProgress
from headrace.log.meta_properties import MetaProperties
from headrace.log.storage import INDEX_BYTES_MAX, OPEN_FILES_MAX, Pool, Storage, remove_paths
from headrace.log.unified_log import UnifiedLog
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.telemetry.limited_log import LimitedLog

logger = logging.getLogger(__name__)

OnLogDirFailure = Callable[[LogDirectory], None]


@dataclass(frozen=True, slots=True)
class Removal:
    """Files and folders of one log folder whose time has come."""

    folder: LogDirectory
    paths: list[str]

    def run(self) -> None:
        """Blocks: call it from a thread."""
        remove_paths(self.folder.disk, self.paths)


EVERY_LOG_DIR: Final = "*"
"""In `cordoned.log.dirs`: all of them."""


class LogManager:
    """The node's logs by partition."""

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        clock: Clock,
        rng: Random,
        *,
        on_log_dir_failure: OnLogDirFailure | None = None,
        on_disk_full: Callable[[UnifiedLog], None] = lambda log: None,
        on_missing_records: Callable[[UnifiedLog], None] = lambda log: None,
        open_files_max: int = OPEN_FILES_MAX,
        index_bytes_max: int = INDEX_BYTES_MAX,
    ) -> None:
        self.config = config
        self.clock = clock
        self._on_folder_failed = on_log_dir_failure
        self._where: dict[TopicPartition, LogDirectory] = {}
        self.open_files = files = Pool(open_files_max)
        indexes = Pool(index_bytes_max)
        self.to_flush: dict[UnifiedLog, None] = {}
        self.log_dirs = [
            LogDirectory(
                path.rstrip("/") or "/",
                Storage(
                    disk,
                    rng=rng,
                    producer_expiry_ms=config.int("producer.id.expiration.ms"),
                    files=files,
                    indexes=indexes,
                    to_flush=self.to_flush,
                    on_full=on_disk_full,
                    on_missing=on_missing_records,
                    damage_log=LimitedLog(lambda: clock.monotonic_ms() / 1000, logger, logging.WARNING),
                ),
            )
            for path in config.log_dirs
        ]
        for folder in self.log_dirs:
            folder.storage.on_failure = self._failure_of(folder)
            folder.storage.on_recovery_point_back = self._checkpoint_of(folder, RECOVERY_POINTS)
            folder.storage.on_cleaner_checkpoint_back = self._checkpoint_of(folder, CLEANER_OFFSETS)
            folder.storage.on_start_apart = self._checkpoint_of(folder, LOG_STARTS)

    def _failure_of(self, folder: LogDirectory) -> Callable[[str, OSError], None]:
        return lambda _, error: self.handle_log_dir_failure(folder, error)

    def _checkpoint_of(self, folder: LogDirectory, name: str) -> Callable[[UnifiedLog], None]:
        """Blocks, but only where a log was truncated below what was flushed. While a folder opens, not all of
        its logs are known: the checkpoint is written when they are."""

        def write(_: UnifiedLog) -> None:
            if folder.is_open:
                write_checkpoint(folder, name)

        return write

    # -- starting --------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Take all folders for this process and read their `meta.properties`.

        A folder whose disk fails goes offline; where none is left, its OSError is raised. InvalidBytesError
        for a folder whose identity cannot be read: it may be another node's.
        """
        for folder in self.log_dirs:
            try:
                folder.lock()
            except BlockingIOError as error:
                self.unlock()
                raise BlockingIOError(error.errno, f"{folder.path} is in use by another process") from None
            except OSError as error:
                self.handle_log_dir_failure(folder, error)
            except InvalidBytesError as error:
                self.unlock()
                raise InvalidBytesError(f"{folder.path}: {error}") from None
        self._require_one_online()

    def unlock(self) -> None:
        for folder in self.log_dirs:
            folder.unlock()

    def identify(self, cluster_id: str, node_id: int, directory_ids: Callable[[], bytes]) -> None:
        """Check that every folder is this node's; a folder without an identity gets one with a new id."""
        for folder in self.live_log_dirs():
            meta = folder.meta
            if meta is None:
                folder.write_meta(MetaProperties(cluster_id, node_id, directory_ids()))
            elif (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
                raise InvalidBytesError(
                    f"{folder.path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                    f"not to node {node_id} of cluster {cluster_id}"
                )

    def load_logs(
        self,
        config_of: ConfigOf,
        *,
        on_progress: OnProgress | None = None,
        is_stray: Callable[[UnifiedLog], bool] = lambda log: False,
    ) -> None:
        """Open every log in every folder, recovering where the last stop was not clean.

        A partition that is in two folders was deleted and made again while one of them was offline:
        `is_stray` tells which log the cluster does not know any more.
        """
        now_ms = self.clock.now_ms()
        for folder in self.live_log_dirs():
            try:
                folder.open_logs(config_of, now_ms=now_ms, on_progress=on_progress)
                _write_first_checkpoints(folder)
                for partition in list(folder.logs):
                    self._take_in(partition, folder, is_stray)
            except OSError as error:
                self.handle_log_dir_failure(folder, error)
        self._require_one_online()

    def _take_in(
        self, partition: TopicPartition, folder: LogDirectory, is_stray: Callable[[UnifiedLog], bool]
    ) -> None:
        """Note where a partition is; OSError where the disk fails."""
        other = self._where.setdefault(partition, folder)
        if other is folder:
            return
        if is_stray(folder.logs[partition]):
            folder.mark_stray(partition)
        elif is_stray(other.logs[partition]):
            other.mark_stray(partition)
            self._where[partition] = folder
        else:
            raise InvalidBytesError(
                f"{partition} is in {other.path} and in {folder.path}: remove the one that is stale"
            )

    def _require_one_online(self) -> None:
        failures = [folder.failure for folder in self.log_dirs if folder.failure is not None]
        if len(failures) == len(self.log_dirs):
            raise failures[0]

    @property
    def previous_broker_epoch(self) -> int:
        """The epoch under which the node stopped in order; -1 where not all folders tell the same
        (KIP-966)."""
        epochs = {folder.previous_broker_epoch for folder in self.log_dirs}
        return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    # -- logs ------------------------------------------------------------------------------------------------

    def get(self, partition: TopicPartition) -> UnifiedLog | None:
        """The partition's log, None where there is none here. A log of an offline folder raises when used."""
        folder = self._where.get(partition)
        return None if folder is None else folder.logs[partition]

    def logs(self) -> Iterable[UnifiedLog]:
        """All logs that are online."""
        for folder in self.live_log_dirs():
            yield from folder.logs.values()

    def folder_of(self, partition: TopicPartition) -> LogDirectory | None:
        return self._where.get(partition)

    def live_log_dirs(self) -> list[LogDirectory]:
        return [folder for folder in self.log_dirs if folder.online]

    def is_cordoned(self, folder: LogDirectory) -> bool:
        """Whether a folder takes no new replicas (KIP-1066)."""
        cordoned = self.config.list("cordoned.log.dirs")
        return folder.path in cordoned or EVERY_LOG_DIR in cordoned

    def cordoned_directories(self) -> list[bytes]:
        """The ids of the folders that take no new replicas, for the controller."""
        return [
            folder.meta.directory_id
            for folder in self.log_dirs
            if folder.meta is not None and self.is_cordoned(folder)
        ]

    def create(
        self,
        partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        directory_id: bytes | None = None,
    ) -> UnifiedLog:
        """A new partition's log: in the folder named by `directory_id`, or where the fewest are."""
        assert partition not in self._where, f"{partition} is here already"
        folder = self._place(directory_id)
        try:
            log = folder.create_log(partition, topic_id, config, now_ms=self.clock.now_ms())
        except OSError as error:
            if error.errno in DISK_FULL:
                folder.remove_unmade(partition)
            elif error.errno not in OUT_OF_DESCRIPTORS:
                self.handle_log_dir_failure(folder, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{folder.path}: {error}") from error
        self._where[partition] = folder
        return log

    def room(self) -> int:
        """How many new partitions there is room for, on the disk that has the most."""
        return max((folder.room() for folder in self.live_log_dirs()), default=0)

    def _place(self, directory_id: bytes | None) -> LogDirectory:
        folders = self.live_log_dirs()
        for folder in folders:
            if directory_id is not None and folder.meta and folder.meta.directory_id == directory_id:
                return folder
        free = [folder for folder in folders if not self.is_cordoned(folder)]
        if not free:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory takes new partitions")
        return min(free, key=lambda folder: len(folder.logs) + len(folder.future_logs))

    def place(self, log: UnifiedLog, folder: LogDirectory) -> None:
        """A log that was moved lies in this folder now."""
        folder.logs[log.topic_partition] = log
        self._where[log.topic_partition] = folder

    def delete(self, partition: TopicPartition) -> None:
        """Forget a partition and have its files removed later; one that is not here is fine."""
        self._take_out(partition, lambda f: f.delete_log(partition, now_ms=self.clock.now_ms()))

    def mark_stray(self, partition: TopicPartition) -> None:
        """Set aside a log that the cluster does not place here."""
        self._take_out(partition, lambda folder: folder.mark_stray(partition))

    def _take_out(self, partition: TopicPartition, act: Callable[[LogDirectory], None]) -> None:
        folder = self._where.pop(partition, None)
        if folder is None:
            return
        if not folder.online:
            del folder.logs[partition]
            return
        try:
            act(folder)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                self.handle_log_dir_failure(folder, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{folder.path}: {error}") from error

    def handle_log_dir_failure(self, folder: LogDirectory, error: OSError) -> None:
        """Take a folder offline, once."""
        if folder.online:
            folder.fail(error)
            if self._on_folder_failed is not None:
                self._on_folder_failed(folder)

    # -- regular work ----------------------------------------------------------------------------------------

    def take_flushes(self) -> list[tuple[UnifiedLog, Flush]]:
        """Flushes that are due: after a roll, by `flush.ms` or by `flush.messages`."""
        now_ms = self.clock.now_ms()
        due = [log for log in self.logs() if log in self.to_flush or log.flush_due(now_ms)]
        begun = [(log, log.begin_flush()) for log in due]
        return [(log, flush) for log, flush in begun if flush is not None]

    def begin_checkpoint(self, names: Sequence[str] = CHECKPOINTS) -> list[CheckpointWrite]:
        """The offset checkpoints of every folder, to be written by a thread."""
        writes = []
        for folder in self.live_log_dirs():
            files = tuple((name, checkpoint_of(folder, name)) for name in names)
            writes.append(CheckpointWrite(folder, folder.next_write(), files))
        return writes

    def delete_old_segments(self) -> int:
        """Drop what the topics' settings no longer keep; how many segments."""
        now_ms = self.clock.now_ms()
        return sum(log.delete_old_segments(now_ms) for log in list(self.logs()))

    def take_removals(self) -> list[Removal]:
        """Files whose delay is over, to be removed by a thread."""
        now_ms = self.clock.now_ms()
        found = [(folder, folder.storage.removals.take_due(now_ms)) for folder in self.live_log_dirs()]
        return [Removal(folder, paths) for folder, paths in found if paths]

    def expire_producers(self) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self.clock.now_ms()
        for log in self.logs():
            log.producer_state_manager.expire(now_ms, log.storage.producer_expiry_ms)

    def usage(self) -> list[LogDirUsage]:
        """What lies where."""
        return [usage_of(folder) for folder in self.log_dirs]

    # -- stopping --------------------------------------------------------------------------------------------

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Make everything durable and leave the mark of a clean stop. Blocks for the syncs."""
        for folder in self.live_log_dirs():
            try:
                _close_folder(folder, broker_epoch)
            except OSError as error:
                self.handle_log_dir_failure(folder, error)
            except ApiError:
                assert not folder.online, "only a failed disk keeps a log from closing"
        self.unlock()


def _write_first_checkpoints(folder: LogDirectory) -> None:
    """Checkpoints that tell no more than what opening the logs found. OSError where the disk fails.

    Without room for them a node starts nevertheless, unless they are to take something back.
    """
    try:
        for name in CHECKPOINTS:
            write_checkpoint(folder, name)
        if folder.cleaner_checkpoint_is_stale:
            write_checkpoint(folder, CLEANER_OFFSETS)
    except OSError as error:
        if error.errno not in DISK_FULL or folder.checkpoints_are_ahead:
            raise
        logger.warning("%s is full: checkpoints stay as they were (%s)", folder.path, error)


def _close_folder(folder: LogDirectory, broker_epoch: int) -> None:
    close_logs([*folder.logs.values(), *folder.future_logs.values()], folder.sync_file_system)
    for name in CHECKPOINTS:
        write_checkpoint(folder, name)
    folder.disk.replace_file(f"{folder.path}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(broker_epoch))
