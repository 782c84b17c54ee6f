"""One entry of `log.dirs`: its identity, its lock, its checkpoints and the logs in it.

A folder that fails goes offline with the logs in it, and the node goes on with the others. Offline is for
good: only a restart brings a folder back, because what a failed disk still holds must be recovered first.
"""

import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.checkpoints import NO_BROKER_EPOCH, decode_clean_shutdown, decode_offsets, encode_offsets
from headrace.log.disk import Disk, File
from headrace.log.faults import DISK_FULL
from headrace.log.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    CLUSTER_METADATA,
    DELETE_FOLDER,
    FUTURE_FOLDER,
    HIGH_WATERMARKS,
    LOCK,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    STRAY_FOLDER,
    marked_folder,
    parse_partition_folder,
)
from headrace.log.log_loader import open_log, tell_lost_end
from headrace.log.log_recovery import OnProgress, RecoveryProgress
from headrace.log.meta_properties import MetaProperties, decode_meta_properties
from headrace.log.missing_records import FETCHED_AGAIN
from headrace.log.storage import Storage
from headrace.log.unified_log import UnifiedLog
from headrace.settings.topic import TopicConfig

logger = logging.getLogger(__name__)

# Of a new partition: its folder, its files and some of the cluster's metadata, each in blocks of 4 KiB.
ROOM_BYTES: Final = 16 << 10
# For checkpoints and the vote, without which a node cannot go on.
ROOM_KEPT_BYTES: Final = 128 << 10

ConfigOf = Callable[[str], TopicConfig]

_GONE: Final = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition was deleted")


class LogDirectory:
    """A log directory; `failure` says why it is offline."""

    def __init__(self, path: str, storage: Storage) -> None:
        self.path = path
        self.storage = storage
        self.meta: MetaProperties | None = None
        self.failure: OSError | None = None
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.future_logs: dict[TopicPartition, UnifiedLog] = {}
        self.strays: list[str] = []
        self._deleted: list[str] = []
        self._has_lost_records = False
        self.is_open = False
        self.was_clean = False
        self.cleaner_checkpoint_is_stale = False
        self.checkpoints_are_ahead = False
        self.previous_broker_epoch = NO_BROKER_EPOCH
        self._lock: File | None = None
        self._begun = 0
        self._written: dict[str, int] = {}
        self._writing = Lock()

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    @property
    def disk(self) -> Disk:
        return self.storage.disk

    @property
    def online(self) -> bool:
        return self.failure is None

    # -- identity --------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Take the folder for this process, and read who it belongs to."""
        self.disk.make_folder(self.path)
        self._lock = self.disk.lock(f"{self.path}/{LOCK}")
        try:
            self.meta = decode_meta_properties(self.disk.read_file(f"{self.path}/{META_PROPERTIES}"))
        except FileNotFoundError:
            if self._has_run():
                raise InvalidBytesError(
                    f"{self.path}/{META_PROPERTIES} is missing, though a node has run here. It says which "
                    "cluster and node the folder belongs to. Bring it back from a copy, or write it with the "
                    "cluster.id and node.id of the other folders and a directory.id of its own"
                ) from None
            self.meta = None
        except InvalidBytesError as error:
            raise InvalidBytesError(
                f"{self.path}/{META_PROPERTIES} is damaged: {error}. It says which cluster and node the "
                "folder belongs to. Bring it back from a copy, or write it with the cluster.id and node.id "
                "of the other folders and a directory.id of its own"
            ) from error

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def sync_file_system(self) -> bool:
        """Make everything durable that was written below this folder since it was locked; see `File`."""
        return self._lock is not None and self._lock.sync_file_system()

    def write_meta(self, meta: MetaProperties) -> None:
        """Give the folder its identity; durable at once."""
        self.disk.replace_file(f"{self.path}/{META_PROPERTIES}", meta.encode())
        self.disk.sync_folder(self.path.rpartition("/")[0] or ("/" if self.path[0] == "/" else "."))
        self.meta = meta

    # -- opening ---------------------------------------------------------------------------------------------

    def open_logs(self, config_of: ConfigOf, *, now_ms: int, on_progress: OnProgress | None) -> None:
        """Open every partition's log in the folder. OSError where the disk fails."""
        self._take_clean_shutdown()
        survived = surviving_epoch(self.disk, self.path)
        self.storage.sync_may_have_failed = not self.was_clean and not is_marked(self.disk, self.path)

        def note(progress: RecoveryProgress) -> None:
            self._has_lost_records |= progress.bytes_lost > 0
            if on_progress is not None:
                on_progress(progress)

        if not self.was_clean:
            # Partitions that the last process made may be here by the page cache's grace only.
            self.disk.sync_folder(self.path)
        starts = self._load_offsets(LOG_STARTS)
        # Only this file tells where a log starts that begins in the remote store. Without it, that must be
        # found out there: somewhere from 0 on.
        may_start_anywhere = starts is None
        starts = starts or {}
        points = self._load_offsets(RECOVERY_POINTS) or {}
        watermarks = self._load_offsets(HIGH_WATERMARKS) or {}
        cleaned = self._load_offsets(CLEANER_OFFSETS) or {}
        for name in self.disk.list(self.path):
            path = f"{self.path}/{name}"
            if not self.disk.is_folder(path):
                continue
            parsed = parse_partition_folder(name)
            if name.endswith(DELETE_FOLDER):
                self.storage.removals.schedule(path, now_ms + TopicConfig().file_delete_delay_ms)
                self._deleted.append(path)
            elif name.endswith(STRAY_FOLDER):
                self.strays.append(path)
            elif parsed is not None and parsed.topic_partition != CLUSTER_METADATA:
                partition = parsed.topic_partition
                config = config_of(partition.topic)
                log = open_log(
                    self.storage,
                    path,
                    partition,
                    config,
                    now_ms=now_ms,
                    clean=self.was_clean,
                    recovery_point=points.get(partition, 0),
                    log_start_offset=starts.get(partition, 0),
                    starts_elsewhere=config.remote_storage_enable
                    and (partition in starts or may_start_anywhere),
                    cleaner_checkpoint=None if parsed.state else cleaned.get(partition),
                    on_progress=note,
                )
                known_to = watermarks.get(partition, 0)
                if not self.was_clean and survived == NO_BROKER_EPOCH:
                    # A power cut may have brought back what was truncated, in the place of what came after:
                    # others have the same only up to the recovery point, which goes back with every cut.
                    known_to = min(known_to, points.get(partition, 0))
                tell_lost_end(log, known_to, "its high watermark was")
                log.maybe_increment_high_watermark(known_to)
                self._has_lost_records |= log.lost_records
                logs = self.future_logs if parsed.state == FUTURE_FOLDER else self.logs
                logs[partition] = log
        self._tell_gone(points)
        self.checkpoints_are_ahead = any(
            tp not in self.logs or self.logs[tp].recovery_point < point for tp, point in points.items()
        )
        self._note_stale_cleaner_checkpoint(cleaned)
        if self._has_lost_records:
            # Who lacks what it had must not count as in sync, whatever way the last process ended.
            self.previous_broker_epoch = NO_BROKER_EPOCH
        elif not self.was_clean:
            self.previous_broker_epoch = survived
        self.is_open = True

    def _note_stale_cleaner_checkpoint(self, cleaned: dict[TopicPartition, int]) -> None:
        """What says more than the logs have must be gone from the file before they grow past it again."""
        self.cleaner_checkpoint_is_stale = any(
            tp not in self.logs or self.logs[tp].cleaner_checkpoint != offset
            for tp, offset in cleaned.items()
        )

    def _tell_gone(self, points: dict[TopicPartition, int]) -> None:
        """Say which logs had records, by their recovery points, and are not here any more."""
        known = {*self.logs, *self.future_logs}
        for partition, point in points.items():
            was_moved = any(f"/{partition}." in path for path in (*self.strays, *self._deleted))
            if point and partition not in known and not was_moved:
                self._has_lost_records = True
                logger.warning(
                    "%s/%s is gone: the log had at least %d offsets. %s",
                    self.path,
                    partition,
                    point,
                    FETCHED_AGAIN,
                )

    def _take_clean_shutdown(self) -> None:
        """The mark of a clean stop holds for one start: a crash while opening is a crash."""
        path = f"{self.path}/{CLEAN_SHUTDOWN}"
        try:
            self.previous_broker_epoch = decode_clean_shutdown(self.disk.read_file(path))
        except FileNotFoundError:
            return
        self.was_clean = True
        self.disk.remove(path)
        self.disk.sync_folder(self.path)

    def mark_running(self, broker_epoch: int) -> None:
        """Should this process be killed, the next one can prove that nothing is missing. Blocks."""
        mark(self.disk, self.path, broker_epoch)

    def _load_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """A checkpoint; without one that can be read, None, and opening looks further back."""
        path = f"{self.path}/{name}"
        try:
            return decode_offsets(self.disk.read_file(path))
        except FileNotFoundError:
            # Every process writes them before it has its first partition.
            if name in CHECKPOINTS and self._has_partitions():
                logger.warning("%s is missing, though there are partitions: %s", path, WITHOUT[name])
        except InvalidBytesError as error:
            logger.warning("%s is damaged (%s): %s", path, error, WITHOUT[name])
        return None

    def _has_run(self) -> bool:
        """Whether there is more than what formatting leaves when it does not come to its end."""
        return self._has_partitions() or self.disk.exists(f"{self.path}/{RECOVERY_POINTS}")

    def _has_partitions(self) -> bool:
        parsed = map(parse_partition_folder, self.disk.list(self.path))
        return any(each is not None and each.topic_partition != CLUSTER_METADATA for each in parsed)

    def next_write(self) -> int:
        """The number of a checkpoint write that begins now, on the loop."""
        self._begun += 1
        return self._begun

    def write_checkpoint(self, name: str, data: bytes, number: int) -> None:
        """Blocks, for the sync and for a write that another thread is at. One that began before what is there
        by now is left out: it must not bring back what was true earlier."""
        with self._writing:
            if number > self._written.get(name, 0):
                self.disk.replace_file(f"{self.path}/{name}", data)
                self._written[name] = number

    # -- logs ------------------------------------------------------------------------------------------------

    def create_log(
        self, partition: TopicPartition, topic_id: TopicId, config: TopicConfig, *, now_ms: int
    ) -> UnifiedLog:
        """Make the folder and the first segment of a new partition."""
        path = f"{self.path}/{partition}"
        log = open_log(self.storage, path, partition, config, now_ms=now_ms, topic_id=topic_id)
        self.logs[partition] = log
        return log

    def remove_unmade(self, partition: TopicPartition) -> None:
        """Take away what is there of a log that there was no room for."""
        with contextlib.suppress(OSError):
            self.disk.remove_tree(f"{self.path}/{partition}")

    def room(self) -> int:
        """How many new partitions the disk has room for."""
        try:
            _, free_bytes = self.disk.usage(self.path)
        except OSError:
            return 0
        return max(free_bytes - ROOM_KEPT_BYTES, 0) // ROOM_BYTES

    def delete_log(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Rename the partition's folder at once, and have it removed after `file.delete.delay.ms`."""
        log = self.logs.pop(partition)
        path = self._rename_away(log, DELETE_FOLDER)
        self.storage.removals.schedule(path, now_ms + log.config.file_delete_delay_ms)

    def mark_stray(self, partition: TopicPartition) -> None:
        """Set aside a log that the cluster does not place here, for an operator to look at."""
        log = self.logs.pop(partition)
        self.strays.append(self._rename_away(log, STRAY_FOLDER))

    def _rename_away(self, log: UnifiedLog, state: str) -> str:
        path = f"{self.path}/{marked_folder(log.topic_partition, unique_part(self.storage.rng), state)}"
        self.disk.rename(log.folder, path)
        log.close_handlers(_GONE)
        if log.cleaner_checkpoint is not None:
            self.storage.on_cleaner_checkpoint_back(log)
        return path

    def fail(self, error: OSError) -> None:
        """Take the folder and its logs offline."""
        self.failure = error
        if error.errno not in DISK_FULL:
            unmark(self.disk, self.path)
        refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} is offline: {error}")
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.close_handlers(refusal)


def unique_part(rng: Random) -> str:
    """32 hexadecimal digits, as of a UUID."""
    return f"{rng.getrandbits(128):032x}"


# -- checkpoints ---------------------------------------------------------------------------------------------

CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)

WITHOUT: Final = {
    RECOVERY_POINTS: "logs that were not closed are checked from their start",
    LOG_STARTS: "logs begin with their first segment, and records deleted by DeleteRecords may be back",
    HIGH_WATERMARKS: "high watermarks begin at the logs' starts, until replicas have told how far they are",
    CLEANER_OFFSETS: "compaction begins anew",
}
"""What it means that a checkpoint cannot be read."""


@dataclass(frozen=True, slots=True)
class CheckpointWrite:
    """Checkpoints of one log directory as they were when the write began."""

    folder: LogDirectory
    number: int
    files: tuple[tuple[str, bytes], ...]

    def write(self) -> None:
        """Blocks: call it from a thread. OSError means that the folder must go offline.

        A full disk is no failure: the checkpoint stays as it was, and tells less than it could.
        """
        for name, data in self.files:
            try:
                self.folder.write_checkpoint(name, data, self.number)
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise


def write_checkpoint(folder: LogDirectory, name: str) -> None:
    folder.write_checkpoint(name, checkpoint_of(folder, name), folder.next_write())


def checkpoint_of(folder: LogDirectory, name: str) -> bytes:
    """Log starts are written only where they differ from what the files say, as Kafka does, or may differ
    before the next time."""
    logs = folder.logs
    if name == RECOVERY_POINTS:
        return encode_offsets({tp: log.recovery_point for tp, log in logs.items()})
    if name == HIGH_WATERMARKS:
        return encode_offsets({tp: log.high_watermark for tp, log in logs.items()})
    if name == CLEANER_OFFSETS:
        cleaned = {tp: log.cleaner_checkpoint for tp, log in logs.items()}
        return encode_offsets({tp: offset for tp, offset in cleaned.items() if offset is not None})
    moved = {
        tp: log
        for tp, log in logs.items()
        if log.config.remote_storage_enable or log.log_start_offset > log.segments.first.base_offset
    }
    return encode_offsets({tp: log.log_start_offset for tp, log in moved.items()})


# -- usage ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogDirUsage:
    """What DescribeLogDirs tells of a folder; sizes are -1 where it is offline."""

    path: str
    directory_id: bytes
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    logs: tuple[UnifiedLog, ...]
    future_logs: tuple[UnifiedLog, ...]


def usage_of(folder: LogDirectory) -> LogDirUsage:
    directory_id = folder.meta.directory_id if folder.meta is not None else bytes(16)
    total_bytes = usable_bytes = -1
    error = ErrorCode.NONE if folder.online else ErrorCode.KAFKA_STORAGE_ERROR
    if folder.online:
        total_bytes, usable_bytes = folder.disk.usage(folder.path)
    return LogDirUsage(
        folder.path,
        directory_id,
        error,
        total_bytes,
        usable_bytes,
        tuple(folder.logs.values()),
        tuple(folder.future_logs.values()),
    )


# -- the mark of a process that runs -------------------------------------------------------------------------
# `.headrace_running` has the process's broker epoch and the system's boot id.
#
# A process that was killed loses nothing that it had written: the system's page cache has it. Only when the
# system itself went down may something be missing, and then it has another boot id. So a broker that finds
# the mark of its predecessor with the boot id of today, and cut nothing from its logs when it opened them, or
# only the beginning of a batch that it was killed over, can prove by the predecessor's epoch that all is
# there, as after a clean stop (KIP-966): nobody was told that it has such a batch. Otherwise three brokers
# that were killed one after the other would have to be taken for three that lost data, and whoever led last,
# even one whose power was cut, would be as good as any.
#
# A folder whose disk failed loses its mark: what a failed sync left in the page cache may go at any time. One
# whose disk is full keeps it: a write that found no room has taken nothing away.

RUNNING: Final = ".headrace_running"


def mark(disk: Disk, folder: str, broker_epoch: int) -> None:
    """Leave the mark in a log directory. Blocks for a sync; OSError where the disk fails."""
    boot_id = disk.boot_id()
    if boot_id:
        data = json.dumps({"version": 0, "brokerEpoch": broker_epoch, "bootId": boot_id}).encode()
        disk.replace_file(f"{folder}/{RUNNING}", data)


def surviving_epoch(disk: Disk, folder: str) -> int:
    """The epoch of a process since whose start the system has not been down; -1 where nothing proves it."""
    try:
        found = json.loads(disk.read_file(f"{folder}/{RUNNING}"))
        epoch, boot_id = found["brokerEpoch"], found["bootId"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
    return epoch if isinstance(epoch, int) and boot_id and boot_id == disk.boot_id() else NO_BROKER_EPOCH


def is_marked(disk: Disk, folder: str) -> bool:
    """Whether a process has run here that did not stop in order, and whose disk did not fail."""
    return disk.exists(f"{folder}/{RUNNING}")


def unmark(disk: Disk, folder: str) -> None:
    """Nothing is proven any more; a disk that cannot even remove a file is left as it is."""
    with contextlib.suppress(OSError):
        disk.remove(f"{folder}/{RUNNING}")
