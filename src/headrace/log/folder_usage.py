"""What lies in a log directory, and how much room there is."""

from dataclasses import dataclass

from headrace.base.error_codes import ErrorCode
from headrace.log.log_folder import LogFolder
from headrace.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class FolderUsage:
    """What DescribeLogDirs tells of a folder; sizes are -1 where it is offline."""

    path: str
    directory_id: bytes
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    logs: tuple[PartitionLog, ...]
    future_logs: tuple[PartitionLog, ...]


def usage_of(folder: LogFolder) -> FolderUsage:
    directory_id = folder.meta.directory_id if folder.meta is not None else bytes(16)
    total_bytes = usable_bytes = -1
    error = ErrorCode.NONE if folder.online else ErrorCode.KAFKA_STORAGE_ERROR
    if folder.online:
        total_bytes, usable_bytes = folder.disk.usage(folder.path)
    return FolderUsage(
        folder.path,
        directory_id,
        error,
        total_bytes,
        usable_bytes,
        tuple(folder.logs.values()),
        tuple(folder.future_logs.values()),
    )
