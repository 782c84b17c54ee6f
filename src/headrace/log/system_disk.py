"""Files of the operating system behind the `Disk` protocol.

A file closes when nobody refers to it any more. Whoever deletes, rolls or evicts a segment drops its
reference and never calls `close`, so a reply that still holds a `FileSlice` of it can be sent to its end: on
POSIX an unlinked file lives as long as its descriptor. `close` is for files that were never shared.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Final

from headrace.base.chunks import Buffer, ignore_fault

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync
# Linux has these; they are not in `os`.
_libc: Final = ctypes.CDLL(None, use_errno=True)
_syncfs: Final = getattr(_libc, "syncfs", None)
_sync_file_range: Final = getattr(_libc, "sync_file_range", None)
_START_WRITING: Final = 2  # SYNC_FILE_RANGE_WRITE: it waits for nothing, and takes no error away
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class SystemFile:
    """A descriptor and the path it was opened with."""

    __slots__ = ("_fd", "on_fault", "path")

    def __init__(self, path: str, flags: int) -> None:
        self._fd = -1
        self.path = path
        self.on_fault: Callable[[OSError], None] = ignore_fault
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __repr__(self) -> str:
        return f"SystemFile({self.path!r})"

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, position: int, count: int) -> bytes:
        data = os.pread(self._fd, count, position)
        if len(data) == count or not data:
            return data
        parts = [data]  # the kernel gives at most 2 GiB at once
        got = len(data)
        while got < count and (data := os.pread(self._fd, count - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        got = count = os.preadv(self._fd, (buffer,), position)
        while count and got < len(buffer):  # the kernel gives at most 2 GiB at once
            count = os.preadv(self._fd, (memoryview(buffer)[got:],), position + got)
            got += count
        return got

    def write(self, position: int, chunks: Sequence[Buffer]) -> int:
        if len(chunks) == 1:
            size = len(chunks[0])
            written = os.pwrite(self._fd, chunks[0], position)
        else:
            size = sum(map(len, chunks))
            written = os.pwritev(self._fd, chunks, position)
        if written != size:
            self._write_rest(position, written, b"".join(chunks))
        return size

    def _write_rest(self, position: int, written: int, data: bytes) -> None:
        """A short write mostly means a disk that ran full: trying the rest tells why."""
        while written < len(data):
            count = os.pwrite(self._fd, memoryview(data)[written:], position + written)
            if not count:
                raise OSError(errno.EIO, f"nothing could be written at byte {position + written}", self.path)
            written += count

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def preallocate(self, size: int) -> None:
        # The call refuses to reserve nothing.
        if size > 0 and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._fd, 0, size)

    def sync(self) -> None:
        try:
            _sync_data(self._fd)
        except OSError as error:
            raise _sync_failure(error.errno, self.path) from error

    def begin_sync(self, position: int, count: int) -> None:
        if _sync_file_range is not None:
            _sync_file_range(self._fd, position, count, _START_WRITING)

    def modified_ms(self) -> int:
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def set_modified_ms(self, modified_ms: int) -> None:
        os.utime(self._fd, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_file_system(self) -> bool:
        if _syncfs is None:
            return False
        if _syncfs(self._fd):
            raise _sync_failure(ctypes.get_errno(), self.path)
        return True

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # there is nobody left to tell
                os.close(fd)


class SystemDisk:
    """The machine's file systems."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SystemFile:
        flags = os.O_RDWR if writable else os.O_RDONLY
        return SystemFile(path, flags | os.O_CREAT if create else flags)

    def map(self, path: str) -> memoryview:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.fstat(fd).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            _sync_all(file.fileno(), path)
        os.replace(temporary, path)
        self.sync_folder(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folder(self, path: str) -> None:
        try:
            os.mkdir(path)  # mostly the parent is there: `makedirs` would look first
        except OSError:
            os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync_all(fd, path)
        finally:
            os.close(fd)

    def boot_id(self) -> str:
        try:
            with open(BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""  # no Linux: only a clean stop proves that nothing is missing

    def lock(self, path: str) -> SystemFile:
        """Both kinds of lock: a POSIX one keeps Apache Kafka out, flock another user in this process."""
        file = SystemFile(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return file

    def usage(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail


def _sync_all(fd: int, path: str) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise _sync_failure(error.errno, path) from error


def _sync_failure(number: int | None, path: str) -> OSError:
    """A write that finds no room has done nothing; a sync that finds none has dropped what was written, and
    is a failure like any other. Some file systems look for room that late."""
    number = errno.EIO if number is None or number in (errno.ENOSPC, errno.EDQUOT) else number
    return OSError(number, os.strerror(number), path)
