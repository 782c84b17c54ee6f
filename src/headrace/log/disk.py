"""The only door to files.

Everything above reads and writes through a `Disk`, so that a simulator can stand in its place: lose what was
not synced, tear the last write, flip bits, run full. Paths are plain strings. Errors are OSError, as the
system gives them.

Blocking calls that may take long (`sync`, `remove_tree` of much data) are made from a thread by the caller's
driver: both release the GIL. Everything else is a page-cache operation and is called on the event loop.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.base.chunks import Buffer


class File(Protocol):
    """An open file. Positions are absolute: there is no cursor."""

    path: str
    on_fault: Callable[[OSError], None]
    """Hears why a reply could not be sent from this file: what the disk said, or that it ended early."""

    def fileno(self) -> int:
        """The descriptor, for sendfile. A simulated file has none and raises OSError."""
        ...

    def size(self) -> int:
        """Bytes in the file now."""
        ...

    def read(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from `position`; fewer only at the end of the file."""
        ...

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        """The same into a buffer; returns how many bytes were read."""
        ...

    def write(self, position: int, chunks: Sequence[Buffer]) -> int:
        """Write all chunks at `position`, one after the other. Returns the bytes written; a short write
        raises OSError."""
        ...

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None:
        """Reserve room so that later writes up to `size` cannot fail for space."""
        ...

    def sync(self) -> None:
        """Make what was written durable (fdatasync). Blocks: call it from a thread."""
        ...

    def begin_sync(self, position: int, count: int) -> None:
        """Have the system begin to bring these bytes to the disk: a later `sync` has less to wait for."""
        ...

    def modified_ms(self) -> int:
        """When the file was last written, by the wall clock."""
        ...

    def set_modified_ms(self, modified_ms: int) -> None:
        """Say that it was then."""
        ...

    def sync_file_system(self) -> bool:
        """Make everything durable that was written to the file system this file lies on: thousands of files
        at the price of a few. OSError where anything could not be written since this file was opened, False
        where the system has no such call. Blocks: call it from a thread.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system as the log needs it."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open a file; `create` makes it where it is missing, and never cuts what is there."""
        ...

    def map(self, path: str) -> memoryview:
        """A read-only view of a whole file that is complete and will not change in place."""
        ...

    def read_file(self, path: str) -> bytes:
        """A whole small file."""
        ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Atomic and durable: write PATH.tmp, sync it, rename it over PATH, sync the folder."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, by the wall clock."""
        ...

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None:
        """Make the folder and its parents; a folder that exists is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic on one file system. Durable once the folder is synced."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; one that is missing is fine."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; one that is missing is fine. Blocks: call it from a thread."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder that is empty; OSError where it is not."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make renames and new names in this folder durable. Blocks."""
        ...

    def lock(self, path: str) -> File:
        """Hold PATH exclusively until the returned file is closed; raises OSError where another process has
        it."""
        ...

    def boot_id(self) -> str:
        """What changes when the system starts anew, and loses what was not synced; "" where nobody knows."""
        ...

    def usage(self, path: str) -> tuple[int, int]:
        """(total bytes, usable bytes) of the file system that holds PATH."""
        ...
