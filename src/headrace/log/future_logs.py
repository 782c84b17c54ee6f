"""Future logs: a log on its way from one of a node's log directories to another (KIP-113).

The future log grows in a folder named `TOPIC-PARTITION.UNIQUE-future`, while the log in use goes on as ever.
Once it has everything, the two change places: the old folder is marked as deleted, then, once that is
durable, the new one gets the real name. A crash in between leaves a future log that is whole and the only
one: `recover_abandoned_future_logs` takes it at the next start. So it does where a disk fails in between.
Copying itself is the work of `replication.drivers.replica_alter_log_dirs_manager`.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.log.file_names import FUTURE_FOLDER, LOG_STARTS, RECOVERY_POINTS, marked_folder
from headrace.log.log_directory import LogDirectory, unique_part
from headrace.log.log_loader import open_log
from headrace.log.log_manager import LogManager
from headrace.log.unified_log import UnifiedLog

_MOVED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log was moved to another folder: ask again")
_ABANDONED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the copy of the log was given up")


def log_dir_at(log_manager: LogManager, path: str) -> LogDirectory:
    """A folder by its path; LOG_DIR_NOT_FOUND, or KAFKA_STORAGE_ERROR where it is offline."""
    for folder in log_manager.log_dirs:
        if folder.path == (path.rstrip("/") or "/"):
            if not folder.online:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline: {folder.failure}")
            return folder
    known = ", ".join(folder.path for folder in log_manager.log_dirs)
    raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of this broker's log.dirs: {known}")


def future_log_dir(log_manager: LogManager, partition: TopicPartition) -> LogDirectory | None:
    """The folder that a copy of the partition's log grows in."""
    return next((folder for folder in log_manager.live_log_dirs() if partition in folder.future_logs), None)


def create_future_log(log_manager: LogManager, log: UnifiedLog, folder: LogDirectory) -> UnifiedLog:
    """An empty copy that starts where what lies here of the log starts."""
    partition, now_ms = log.topic_partition, log_manager.clock.now_ms()
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
        raise _failed(log_manager, folder, error) from error
    folder.future_logs[partition] = copy
    return copy


def abandon_future_log(log_manager: LogManager, partition: TopicPartition) -> None:
    """Give a copy up, and have its files removed."""
    folder = future_log_dir(log_manager, partition)
    if folder is not None:
        copy = folder.future_logs.pop(partition)
        copy.close_handlers(_ABANDONED)
        folder.storage.removals.schedule(copy.folder, log_manager.clock.now_ms())


def replace_current_with_future_log(log_manager: LogManager, partition: TopicPartition) -> UnifiedLog:
    """Put a copy that has everything in its log's place. Blocks for what is not synced yet, so sync first."""
    old_folder, new_folder = log_manager.folder_of(partition), future_log_dir(log_manager, partition)
    assert old_folder is not None
    assert new_folder is not None
    log, copy = old_folder.logs[partition], new_folder.future_logs[partition]
    assert copy.log_end_offset == log.log_end_offset, f"{partition}: the copy is not whole"
    copy.leader_epoch_cache.take_over(log.leader_epoch_cache)
    copy.maybe_increment_high_watermark(log.high_watermark)
    if log.log_start_offset <= copy.high_watermark:
        copy.maybe_increment_log_start_offset(log.log_start_offset)
    if log.log_start_offset < log.segments.first.base_offset:
        copy.log_start_offset = log.log_start_offset
    try:
        _seal(copy)
    except OSError as error:
        raise _failed(log_manager, new_folder, error) from error
    try:
        old_folder.delete_log(partition, now_ms=log_manager.clock.now_ms())
        # Else a power cut may leave two logs, and nobody could tell which one is stale.
        old_folder.disk.sync_folder(old_folder.path)
    except OSError as error:
        # Which name the log will have is not known: the copy must stay, and counts at the next start.
        new_folder.future_logs.pop(partition).close_handlers(_ABANDONED)
        log_manager.place(log, old_folder)
        raise _failed(log_manager, old_folder, error) from error
    return _give_name(log_manager, new_folder, copy)


def _failed(log_manager: LogManager, folder: LogDirectory, error: OSError) -> ApiError:
    log_manager.handle_log_dir_failure(folder, error)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{folder.path}: {error}")


def recover_abandoned_future_logs(log_manager: LogManager) -> None:
    """After a start: copies whose logs were marked as deleted are the logs. Only where all folders are there:
    a log that is offline is not gone.
    """
    if len(log_manager.live_log_dirs()) < len(log_manager.log_dirs):
        return
    for folder in log_manager.live_log_dirs():
        for partition in list(folder.future_logs):
            if log_manager.folder_of(partition) is None:
                copy = folder.future_logs[partition]
                try:
                    _seal(copy)
                    _give_name(log_manager, folder, copy)
                except OSError as error:
                    log_manager.handle_log_dir_failure(folder, error)
                except ApiError:
                    assert not folder.online, "only a failed disk keeps a copy from its name"
                if not folder.online:
                    break


def _seal(copy: UnifiedLog) -> None:
    flush = copy.close()
    if flush is not None:
        flush.sync()
        copy.finish_flush(flush, now_ms=copy.last_flush_ms)


def _give_name(log_manager: LogManager, folder: LogDirectory, copy: UnifiedLog) -> UnifiedLog:
    """The copy under its partition's own name."""
    partition, path = copy.topic_partition, f"{folder.path}/{copy.topic_partition}"
    try:
        folder.disk.rename(copy.folder, path)
        folder.disk.sync_folder(folder.path)
        copy.close_handlers(_MOVED)
        log = open_log(
            folder.storage,
            path,
            partition,
            copy.config,
            now_ms=log_manager.clock.now_ms(),
            topic_id=copy.topic_id,
            clean=True,
            recovery_point=copy.log_end_offset,
            log_start_offset=copy.log_start_offset,
            starts_elsewhere=copy.config.remote_storage_enable,
        )
    except OSError as error:
        log_manager.place(
            folder.future_logs.pop(partition), folder
        )  # it is the log, in a folder that is offline
        raise _failed(log_manager, folder, error) from error
    log.maybe_increment_high_watermark(copy.high_watermark)
    del folder.future_logs[partition]
    log_manager.place(log, folder)
    try:
        for write in log_manager.begin_checkpoint((RECOVERY_POINTS, LOG_STARTS)):
            if write.folder is folder:
                write.write()
    except OSError as error:
        raise _failed(log_manager, folder, error) from error
    return log
