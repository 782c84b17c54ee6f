"""What a log does when its disk refuses.

A full disk stays a disk: the write is cut off again and refused, and reading goes on. Any other failure, or
one where the cut fails too, means that the directory cannot be trusted: the log fails for good, and its owner
takes the directory offline.
"""

import errno
from typing import TYPE_CHECKING, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def undo_write(log: "PartitionLog", error: OSError, *, created: tuple[str, ...] = ()) -> ApiError:
    """Cut off what a failed write left in the active segment, remove files it created; what to tell the
    caller."""
    segment = log.segments.active
    try:
        segment.file.truncate(segment.size)
        for path in created:
            log.storage.disk.remove(path)
    except OSError as worse:
        return fail(log, worse)
    if error.errno in FULL:
        log.storage.on_full(log)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {log.folder} is full")
    return fail(log, error)


def fail(log: "PartitionLog", error: OSError) -> ApiError:
    """From now on the log refuses everything."""
    log.failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.folder}: {error}")
    log.storage.on_failure(log.folder, error)
    return log.failure
