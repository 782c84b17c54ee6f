"""A store in a folder: a disk of this machine, or a share that all brokers have mounted.

An object is a file. It is written beside its place under a name that no object can have (NAME~), synced and
renamed, so that what has an object's name is whole. What a writer that was killed left beside it is no object
and not listed; removing the object removes it too, and `begun` finds it. The store's own folder is never
made: where a share is not mounted that must be an error, and not an empty store on another disk.

Folders inside come with their first object and go with their last. Two writers may meet there, also from
different machines: whoever finds the folder gone makes it again.
"""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headrace.log.disk import Disk, File
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    checked_name,
    pieces,
)

_UNFINISHED: Final = "~"
# How often a writer makes its folder anew that others keep removing while it is empty.
_FOLDER_TRIES: Final = 10


class FolderStore:
    """Implements `RemoteStorageManager` with files under `root`, a folder that is there."""

    # Reading from a file and checking what was read is work for a core, a quarter of a millisecond for each
    # megabyte. Threads that do more of it in one go keep the event loop and its clients from that core.
    window_bytes_max = 2 << 20

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root.rstrip("/")

    def __repr__(self) -> str:
        return f"FolderStore({self._root!r})"

    def put(self, name: str, source: File, size: int) -> None:
        self._write(name, pieces(name, source, size))

    def put_bytes(self, name: str, data: bytes) -> None:
        self._write(name, iter([data]))

    def read(self, name: str, start: int, end: int) -> bytes:
        path = self._path(name)
        with self._doing(name):
            file = self._disk.open(path, writable=False)
            try:
                return file.read(start, max(0, end - start))
            finally:
                file.close()

    def read_into(self, name: str, start: int, buffer: memoryview) -> int:
        """As `read`, into memory that is there."""
        path = self._path(name)
        with self._doing(name):
            file = self._disk.open(path, writable=False)
            try:
                return file.read_into(start, buffer)
            finally:
                file.close()

    def delete(self, names: list[str]) -> None:
        for name in names:
            path = self._path(name)
            with self._doing(name):
                self._disk.remove(path + _UNFINISHED)
                self._disk.remove(path)
        if not self._is_there():
            raise self._not_there(", ".join(names))  # and so each of them seemed to be missing
        for folder in sorted({name.rpartition("/")[0] for name in names}):
            with self._doing(folder):
                self._forget_names(folder)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        yield from ((name, size) for name, size in self._found(prefix) if not name.endswith(_UNFINISHED))

    def begun(self, prefix: str) -> Iterator[str]:
        """See `store.begun`."""
        yield from dict.fromkeys(name.removesuffix(_UNFINISHED) for name, _ in self._found(prefix))

    def close(self) -> None:
        """A folder holds nothing open."""

    # --- writing ---

    def _write(self, name: str, data: Iterator[bytes]) -> None:
        path = self._path(name)
        with self._doing(name):
            file = self._create(path + _UNFINISHED)
        try:
            position = 0
            for piece in data:  # outside of `_doing`: reading the source is not the store's business
                with self._doing(name):
                    position += file.write(position, [piece])
            with self._doing(name):
                file.truncate(position)  # what an earlier, larger try left
                file.sync()
        finally:
            file.close()
        with self._doing(name):
            self._disk.rename(path + _UNFINISHED, path)
            self._sync_names(name)

    def _create(self, path: str) -> File:
        """A new file, and its folder, which others may remove as empty at any moment."""
        for _ in range(_FOLDER_TRIES):
            with suppress(FileNotFoundError):
                return self._disk.open(path, create=True)
            if not self._is_there():
                break
            self._disk.make_folder(path.rpartition("/")[0])
        return self._disk.open(path, create=True)

    def _sync_names(self, name: str) -> None:
        """Make a new name durable, and those of the folders above it."""
        while name:
            name = name.rpartition("/")[0]
            self._disk.sync_folder(f"{self._root}/{name}")

    # --- removing ---

    def _forget_names(self, folder: str) -> None:
        """Make removals durable; a folder that is empty goes too, and those above it."""
        with suppress(FileNotFoundError):
            self._disk.sync_folder(f"{self._root}/{folder}")
        while folder:
            try:
                self._disk.remove_folder(f"{self._root}/{folder}")
            except OSError:  # something is in it, or somebody else was quicker
                return
            folder = folder.rpartition("/")[0]
            with suppress(FileNotFoundError):
                self._disk.sync_folder(f"{self._root}/{folder}")

    # --- listing ---

    def _found(self, prefix: str) -> builtins.list[tuple[str, int]]:
        with self._doing(prefix):
            return [*self._walk("", prefix)]

    def _walk(self, folder: str, prefix: str) -> Iterator[tuple[str, int]]:
        """The objects in a folder, whose name ends with "/", and what is to become one, by the order of their
        whole names: those in `a/` come behind `a-b/` and `a.log`.
        """
        for name in sorted(self._children(folder)):
            if name.endswith("/"):
                if name.startswith(prefix) or prefix.startswith(name):
                    yield from self._walk(name, prefix)
            elif name.startswith(prefix):
                with suppress(FileNotFoundError):  # removed since its folder was read
                    yield name, self._disk.size(f"{self._root}/{name}")

    def _children(self, folder: str) -> Iterator[str]:
        try:
            children = self._disk.list(f"{self._root}/{folder}")
        except FileNotFoundError:
            if not folder:
                raise
            return
        for child in children:
            if self._disk.is_folder(f"{self._root}/{folder}{child}"):
                yield f"{folder}{child}/"
            else:
                yield folder + child

    # --- names and faults ---

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"

    @contextmanager
    def _doing(self, name: str) -> Iterator[None]:
        """The disk's errors as the store's."""
        try:
            yield
        except OSError as error:
            if not self._is_there():
                raise self._not_there(name) from error
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise RemoteResourceNotFoundError(f"{name} is not in {self._root}") from error
            raise RemoteStorageError(f"{name} in {self._root}: {error}") from error

    def _is_there(self) -> bool:
        try:
            return self._disk.is_folder(self._root or "/")
        except OSError:
            return True  # unknown: the error at hand says more

    def _not_there(self, name: str) -> RemoteStorageError:
        return RemoteStorageError(
            f"{name}: the remote store's folder {self._root} is not there: make it, or mount the share"
        )
