"""One entry of `log.dirs`: its identity, its lock, its checkpoints and the logs in it.

A folder that fails goes offline with the logs in it, and the node goes on with the others. Offline is for
good: only a restart brings a folder back, because what a failed disk still holds must be recovered first.
"""

from collections.abc import Callable
from random import Random
from threading import Lock
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.checkpoints import NO_BROKER_EPOCH, decode_clean_shutdown, decode_offsets
from headrace.log.disk import Disk, File
from headrace.log.faults import FULL
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
from headrace.log.meta_properties import MetaProperties, decode_meta_properties
from headrace.log.partition_log import PartitionLog
from headrace.log.recovery import OnProgress, RecoveryProgress, open_log
from headrace.log.running_mark import is_marked, mark, surviving_epoch, unmark
from headrace.log.storage import Storage
from headrace.settings.topic import TopicConfig

ConfigOf = Callable[[str], TopicConfig]

_GONE: Final = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition was deleted")


class LogFolder:
    """A log directory; `failure` says why it is offline."""

    def __init__(self, path: str, storage: Storage) -> None:
        self.path = path
        self.storage = storage
        self.meta: MetaProperties | None = None
        self.failure: OSError | None = None
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        self.strays: list[str] = []
        self.is_open = False
        self.was_clean = False
        self.cleaned_is_stale = False
        self.previous_broker_epoch = NO_BROKER_EPOCH
        self._lock: File | None = None
        self._begun = 0
        self._written: dict[str, int] = {}
        self._writing = Lock()

    def __repr__(self) -> str:
        return f"LogFolder({self.path!r})"

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
            self.meta = None

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
        lost_bytes = 0

        def note(progress: RecoveryProgress) -> None:
            nonlocal lost_bytes
            lost_bytes += progress.bytes_lost
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
                    cleaned_to=None if parsed.state else cleaned.get(partition),
                    on_progress=note,
                )
                known_to = watermarks.get(partition, 0)
                if not self.was_clean and survived == NO_BROKER_EPOCH:
                    # A power cut may have brought back what was truncated, in the place of what came after:
                    # others have the same only up to the recovery point, which goes back with every cut.
                    known_to = min(known_to, points.get(partition, 0))
                log.advance_high_watermark(known_to)
                logs = self.future_logs if parsed.state == FUTURE_FOLDER else self.logs
                logs[partition] = log
        # What says more than the logs have must be gone from the file before they have grown past it again.
        self.cleaned_is_stale = any(
            tp not in self.logs or self.logs[tp].cleaned_to != offset for tp, offset in cleaned.items()
        )
        if not self.was_clean and not lost_bytes:
            self.previous_broker_epoch = survived
        self.is_open = True

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
        try:
            return decode_offsets(self.disk.read_file(f"{self.path}/{name}"))
        except (FileNotFoundError, InvalidBytesError):
            return None

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
    ) -> PartitionLog:
        """Make the folder and the first segment of a new partition."""
        path = f"{self.path}/{partition}"
        log = open_log(self.storage, path, partition, config, now_ms=now_ms, topic_id=topic_id)
        self.logs[partition] = log
        return log

    def delete_log(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Rename the partition's folder at once, and have it removed after `file.delete.delay.ms`."""
        log = self.logs.pop(partition)
        path = self._rename_away(log, DELETE_FOLDER)
        self.storage.removals.schedule(path, now_ms + log.config.file_delete_delay_ms)

    def mark_stray(self, partition: TopicPartition) -> None:
        """Set aside a log that the cluster does not place here, for an operator to look at."""
        log = self.logs.pop(partition)
        self.strays.append(self._rename_away(log, STRAY_FOLDER))

    def _rename_away(self, log: PartitionLog, state: str) -> str:
        path = f"{self.path}/{marked_folder(log.topic_partition, unique_part(self.storage.rng), state)}"
        self.disk.rename(log.folder, path)
        log.let_go(_GONE)
        if log.cleaned_to is not None:
            self.storage.on_cleaned_back(log)
        return path

    def fail(self, error: OSError) -> None:
        """Take the folder and its logs offline."""
        self.failure = error
        if error.errno not in FULL:
            unmark(self.disk, self.path)
        refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} is offline: {error}")
        for log in (*self.logs.values(), *self.future_logs.values()):
            log.let_go(refusal)


def unique_part(rng: Random) -> str:
    """32 hexadecimal digits, as of a UUID."""
    return f"{rng.getrandbits(128):032x}"
