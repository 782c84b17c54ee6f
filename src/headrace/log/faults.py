"""What a log does when its disk refuses.

A full disk stays a disk: the write is cut off again and refused, and reading goes on. Any other failure, or
one where the cut fails too, means that the directory cannot be trusted: the log fails for good, and its owner
takes the directory offline.
"""

import errno
from typing import TYPE_CHECKING, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError

if TYPE_CHECKING:
    from headrace.log.unified_log import UnifiedLog

OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
# A process that may open no more files is as one whose disk is full: nothing was written, and it passes.
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT}) | OUT_OF_DESCRIPTORS


def undo_write(log: "UnifiedLog", error: OSError, *, created: tuple[str, ...] = ()) -> ApiError:
    """Cut off what a failed write left in the active segment, remove files it created; what to tell the
    caller."""
    segment = log.segments.active
    try:
        segment.file.truncate(segment.size)
        for path in created:
            log.storage.disk.remove(path)
    except OSError as worse:
        return fail_log(log, worse)
    if error.errno in DISK_FULL:
        log.storage.on_full(log)
        reason = error.strerror if error.errno in OUT_OF_DESCRIPTORS else "the disk is full"
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.folder}: {reason}")
    return fail_log(log, error)


def tell_damage(log: "UnifiedLog", error: InvalidBytesError) -> ApiError:
    """Bytes of the log are not those that were written: say it, and what to tell who reads."""
    text = f"{log.folder}: {error}"
    log.storage.damage_log.write(
        "%s: a reader is told CORRUPT_MESSAGE: %s. It can go on behind the damaged batch; another replica "
        "may have a good copy of it.",
        log.topic_partition,
        error,
    )
    return ApiError(ErrorCode.CORRUPT_MESSAGE, text)


def fail_log(log: "UnifiedLog", error: OSError) -> ApiError:
    """From now on the log refuses everything."""
    log.failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.folder}: {error}")
    log.storage.on_failure(log.folder, error)
    return log.failure
