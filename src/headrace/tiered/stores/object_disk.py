"""Objects of a store as files to read, for code that knows files: dumping, and reading segments directly.

A path is an object's name. What reads a file in small steps gets them out of a larger piece that was fetched
at once; what reads it in large ones gets just what it asks for. A store's failures are the disk's: an object
that is missing is a file that is not found, anything else an input or output error that says why. Nothing can
be written.
"""

import builtins
import errno
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from headrace.base.chunks import Buffer, ignore_fault
from headrace.log.disk import File
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
    read_whole,
)

# A request takes as long as some hundred kilobytes do.
PIECE_BYTES: Final = 256 << 10


class ObjectFile:
    """Implements `log.disk.File` for reading; the size is that of when it was opened."""

    def __init__(self, store: RemoteStorageManager, name: str, size: int) -> None:
        self.path = name
        self.on_fault: Callable[[OSError], None] = ignore_fault
        self._store = store
        self._size = size
        self._piece = b""
        self._piece_start = 0

    def __repr__(self) -> str:
        return f"ObjectFile({self.path!r})"

    def size(self) -> int:
        return self._size

    def read(self, position: int, count: int) -> bytes:
        end = min(position + count, self._size)
        if position >= end:
            return b""
        if end - position >= PIECE_BYTES:
            return self.fetch(position, end)
        if not self._piece_start <= position <= end <= self._piece_start + len(self._piece):
            self._piece = self.fetch(position, min(position + PIECE_BYTES, self._size))
            self._piece_start = position
        at = position - self._piece_start
        return self._piece[at : at + end - position]

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        data = self.read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def fetch(self, position: int, end: int) -> bytes:
        """All bytes of a range that lies within the object."""
        try:
            data = self._store.read(self.path, position, end)
        except RemoteStorageError as error:
            raise _os_error(error, self.path) from error
        if len(data) != end - position:
            raise OSError(
                errno.EIO,
                f"the store gave {len(data)} bytes for {position} to {end} of {self._size}",
                self.path,
            )
        return data

    def close(self) -> None:
        self._piece = b""

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "an object has no descriptor", self.path)

    def write(self, position: int, chunks: Sequence[Buffer]) -> int:
        _refuse(self.path)

    def truncate(self, size: int) -> None:
        _refuse(self.path)

    def preallocate(self, size: int) -> None:
        _refuse(self.path)

    def sync(self) -> None:
        _refuse(self.path)

    def begin_sync(self, position: int, count: int) -> None:
        _refuse(self.path)

    def modified_ms(self) -> int:
        raise OSError(errno.ENOTSUP, "a store does not tell when an object was written", self.path)

    def set_modified_ms(self, modified_ms: int) -> None:
        _refuse(self.path)

    def sync_file_system(self) -> bool:
        _refuse(self.path)


class ObjectDisk:
    """Implements `log.disk.Disk` for reading."""

    def __init__(self, store: RemoteStorageManager) -> None:
        self._store = store

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        if create or writable:
            _refuse(path)
        return ObjectFile(self._store, path, self.size(path))

    def map(self, path: str) -> memoryview:
        return memoryview(self.read_file(path))

    def read_file(self, path: str) -> bytes:
        try:
            return read_whole(self._store, path)
        except RemoteStorageError as error:
            raise _os_error(error, path) from error

    def exists(self, path: str) -> bool:
        return any(name == path for name, _ in self._listed(path))

    def size(self, path: str) -> int:
        for name, size in self._listed(path):
            if name == path:
                return size
        raise FileNotFoundError(errno.ENOENT, "there is no such object", path)

    def modified_ms(self, path: str) -> int:
        raise OSError(errno.ENOTSUP, "a store does not tell when an object was written", path)

    def list(self, path: str) -> builtins.list[str]:
        prefix = f"{path.rstrip('/')}/" if path else ""
        return sorted({name[len(prefix) :].partition("/")[0] for name, _ in self._listed(prefix)})

    def is_folder(self, path: str) -> bool:
        return bool(self._listed(f"{path.rstrip('/')}/"))

    def _listed(self, prefix: str) -> builtins.list[tuple[str, int]]:
        try:
            return [*self._store.list(prefix)]
        except RemoteStorageError as error:
            raise _os_error(error, prefix) from error

    def make_folder(self, path: str) -> None:
        _refuse(path)

    def replace_file(self, path: str, data: bytes) -> None:
        _refuse(path)

    def rename(self, old: str, new: str) -> None:
        _refuse(old)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        _refuse(path)

    def remove_folder(self, path: str) -> None:
        _refuse(path)

    def sync_folder(self, path: str) -> None:
        _refuse(path)

    def boot_id(self) -> str:
        return ""

    def lock(self, path: str) -> File:
        _refuse(path)

    def usage(self, path: str) -> tuple[int, int]:
        raise OSError(errno.ENOTSUP, "a store does not tell how much it can hold", path)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "objects of a store are only read here", path)


def _os_error(error: RemoteStorageError, path: str) -> OSError:
    if isinstance(error, RemoteResourceNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object", path)
    return OSError(errno.EIO, str(error), path)
