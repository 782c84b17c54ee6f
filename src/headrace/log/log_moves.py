"""A log on its way from one of a node's folders to another (KIP-113).

The copy grows in a folder named `TOPIC-PARTITION.UNIQUE-future`, while the log in use goes on as ever. Once
it has everything, the two change places: the old folder is marked as deleted, then, once that is durable, the
new one gets the real name. A crash in between leaves a copy that is whole and nobody else's:
`adopt_abandoned` takes it at the next start. So it does where a disk fails in between. Copying itself is
`replication.moves`'s.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log.file_names import FUTURE_FOLDER, LOG_STARTS, RECOVERY_POINTS, marked_folder
from headrace.log.log_folder import LogFolder, unique_part
from headrace.log.log_store import LogStore
from headrace.log.partition_log import PartitionLog
from headrace.log.recovery import open_log

_MOVED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log was moved to another folder: ask again")
_ABANDONED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the copy of the log was given up")


def folder_at(store: LogStore, path: str) -> LogFolder:
    """A folder by its path; LOG_DIR_NOT_FOUND, or KAFKA_STORAGE_ERROR where it is offline."""
    for folder in store.folders:
        if folder.path == (path.rstrip("/") or "/"):
            if not folder.online:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline: {folder.failure}")
            return folder
    known = ", ".join(folder.path for folder in store.folders)
    raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of this broker's log.dirs: {known}")


def home_of_copy(store: LogStore, partition: TopicPartition) -> LogFolder | None:
    """The folder that a copy of the partition's log grows in."""
    return next((folder for folder in store.online_folders() if partition in folder.future_logs), None)


def begin_copy(store: LogStore, log: PartitionLog, folder: LogFolder) -> PartitionLog:
    """An empty copy that starts where what lies here of the log starts."""
    partition, now_ms = log.topic_partition, store.clock.now_ms()
    name = marked_folder(partition, unique_part(folder.storage.rng), FUTURE_FOLDER)
    try:
        copy = open_log(
            folder.storage,
            f"{folder.path}/{name}",
            partition,
            log.config,
            now_ms=now_ms,
            topic_id=log.topic_id,
            log_start_offset=log.local_start_offset,
        )
    except OSError as error:
        raise _failed(store, folder, error) from error
    folder.future_logs[partition] = copy
    return copy


def abandon_copy(store: LogStore, partition: TopicPartition) -> None:
    """Give a copy up, and have its files removed."""
    folder = home_of_copy(store, partition)
    if folder is not None:
        copy = folder.future_logs.pop(partition)
        copy.let_go(_ABANDONED)
        folder.storage.removals.schedule(copy.folder, store.clock.now_ms())


def complete_copy(store: LogStore, partition: TopicPartition) -> PartitionLog:
    """Put a copy that has everything in its log's place. Blocks for what is not synced yet, so sync first."""
    old_folder, new_folder = store.folder_of(partition), home_of_copy(store, partition)
    assert old_folder is not None
    assert new_folder is not None
    log, copy = old_folder.logs[partition], new_folder.future_logs[partition]
    assert copy.log_end_offset == log.log_end_offset, f"{partition}: the copy is not whole"
    copy.epochs.take_over(log.epochs)
    copy.advance_high_watermark(log.high_watermark)
    if log.log_start_offset <= copy.high_watermark:
        copy.advance_log_start(log.log_start_offset)
    if log.log_start_offset < log.segments.first.base_offset:
        copy.log_start_offset = log.log_start_offset
    try:
        _seal(copy)
    except OSError as error:
        raise _failed(store, new_folder, error) from error
    try:
        old_folder.delete_log(partition, now_ms=store.clock.now_ms())
        # Else a power cut may leave two logs, and nobody could tell which one is stale.
        old_folder.disk.sync_folder(old_folder.path)
    except OSError as error:
        # Which name the log will have is not known: the copy must stay, and counts at the next start.
        new_folder.future_logs.pop(partition).let_go(_ABANDONED)
        store.place(log, old_folder)
        raise _failed(store, old_folder, error) from error
    return _give_name(store, new_folder, copy)


def _failed(store: LogStore, folder: LogFolder, error: OSError) -> ApiError:
    store.fail_folder(folder, error)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{folder.path}: {error}")


def adopt_abandoned(store: LogStore) -> None:
    """After a start: copies whose logs were marked as deleted are the logs. Only where all folders are there:
    a log that is offline is not gone.
    """
    if len(store.online_folders()) < len(store.folders):
        return
    for folder in store.online_folders():
        for partition in list(folder.future_logs):
            if store.folder_of(partition) is None:
                copy = folder.future_logs[partition]
                try:
                    _seal(copy)
                    _give_name(store, folder, copy)
                except OSError as error:
                    store.fail_folder(folder, error)
                except ApiError:
                    assert not folder.online, "only a failed disk keeps a copy from its name"
                if not folder.online:
                    break


def _seal(copy: PartitionLog) -> None:
    flush = copy.close()
    if flush is not None:
        flush.sync()
        copy.finish_flush(flush, now_ms=copy.last_flush_ms)


def _give_name(store: LogStore, folder: LogFolder, copy: PartitionLog) -> PartitionLog:
    """The copy under its partition's own name."""
    partition, path = copy.topic_partition, f"{folder.path}/{copy.topic_partition}"
    try:
        folder.disk.rename(copy.folder, path)
        folder.disk.sync_folder(folder.path)
        copy.let_go(_MOVED)
        log = open_log(
            folder.storage,
            path,
            partition,
            copy.config,
            now_ms=store.clock.now_ms(),
            topic_id=copy.topic_id,
            clean=True,
            recovery_point=copy.log_end_offset,
            log_start_offset=copy.log_start_offset,
            starts_elsewhere=copy.config.remote_storage_enable,
        )
    except OSError as error:
        store.place(folder.future_logs.pop(partition), folder)  # it is the log, in a folder that is offline
        raise _failed(store, folder, error) from error
    log.advance_high_watermark(copy.high_watermark)
    del folder.future_logs[partition]
    store.place(log, folder)
    try:
        for write in store.begin_checkpoint((RECOVERY_POINTS, LOG_STARTS)):
            if write.folder is folder:
                write.write()
    except OSError as error:
        raise _failed(store, folder, error) from error
    return log
