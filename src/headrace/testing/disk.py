"""A disk in memory that keeps exactly what a real one promises to keep.

`VirtualDisk` implements `log.disk.Disk`: a tree of names (`file_tree`) over cached and durable bytes
(`file_content`), with faults injected on the way (`disk_faults`). It passes the same suite as the system's
disk.

A disk object belongs to one process. `crash` ends it and returns the disk as the next process finds it:
after KILL with all that was written, because the page cache outlives a process; after POWER_CUT with what
was synced and whatever the seed lets survive of the rest. The old object then refuses everything, so that
`finally` blocks of a dead process cannot write.
"""

import builtins
import errno
import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from headrace.base.chunks import Buffer, ignore_fault
from headrace.base.clock import Clock
from headrace.testing.clock import VirtualClock
from headrace.testing.disk_faults import DiskFaults, Operation, ProcessEndedError
from headrace.testing.file_content import FileContent
from headrace.testing.file_tree import FileTree, Folder, fault

# Room for a test's logs, and a bound on what a simulation holds in memory.
CAPACITY_BYTES: Final = 64 * 1024 * 1024


class Crash(Enum):
    """How a process ended."""

    KILL = "kill -9"
    POWER_CUT = "power cut"


class VirtualFile:
    """An open file; implements `log.disk.File`."""

    __slots__ = ("_disk", "_is_lock", "_is_open", "_writable", "content", "on_fault", "path")

    def __init__(
        self, disk: "VirtualDisk", path: str, content: FileContent, *, writable: bool, is_lock: bool = False
    ) -> None:
        self.path = path
        self.on_fault: Callable[[OSError], None] = ignore_fault
        self.content = content
        self._disk = disk
        self._writable = writable
        self._is_open = True
        self._is_lock = is_lock

    def __repr__(self) -> str:
        return f"VirtualFile({self.path!r})"

    def fileno(self) -> int:
        raise fault(errno.ENOTSUP, self.path)

    def size(self) -> int:
        self._check_open()
        return len(self.content.data)

    def read(self, position: int, count: int) -> bytes:
        self._check_open()
        return self._disk.read_content(self.path, self.content, position, count)

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        data = self.read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, position: int, chunks: Sequence[Buffer]) -> int:
        self._check_writable()
        return self._disk.write_content(self.path, self.content, position, chunks)

    def truncate(self, size: int) -> None:
        self._check_writable()
        self._disk.truncate_content(self.path, self.content, size)

    def preallocate(self, size: int) -> None:
        self._check_writable()
        self._disk.reserve_content(self.path, self.content, size)

    def sync(self) -> None:
        self._check_open()
        self._disk.sync_content(self.path, self.content)

    def begin_sync(self, position: int, count: int) -> None:
        self._check_open()

    def modified_ms(self) -> int:
        self._check_open()
        return self.content.modified_ms

    def set_modified_ms(self, modified_ms: int) -> None:
        self._check_open()
        self._disk.date_content(self.path, self.content, modified_ms)

    def sync_file_system(self) -> bool:
        self._check_open()
        self._disk.sync_everything()
        return True

    def close(self) -> None:
        if self._is_open and self._is_lock:
            self._disk.tree.locked.discard(self.path)
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise fault(errno.EBADF, self.path)

    def _check_writable(self) -> None:
        if not (self._is_open and self._writable):
            raise fault(errno.EBADF, self.path)


class VirtualDisk:
    """Implements `log.disk.Disk` in memory."""

    def __init__(
        self,
        *,
        rng: random.Random | None = None,
        clock: Clock | None = None,
        capacity_bytes: int = CAPACITY_BYTES,
        note: Callable[[str], None] = lambda _: None,
        note_detail: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.rng = rng or random.Random(0)
        self.clock = clock or VirtualClock()
        self.faults = DiskFaults(self.rng)
        self.tree = FileTree(capacity_bytes)
        self.ended = False
        self.boots = 1
        self._note = note
        self._note_detail = note_detail

    # --- the Disk protocol ---

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> VirtualFile:
        self._check("name", path)
        node = self.tree.find(path)
        if node is None and create:
            self._check_name_fits(path)
            self._change(f"create {path}")
            return VirtualFile(self, path, self.tree.create(path, self.clock.now_ms()), writable=writable)
        return VirtualFile(self, path, self.tree.file(path), writable=writable)

    def map(self, path: str) -> memoryview:
        return memoryview(self.read_file(path))

    def read_file(self, path: str) -> bytes:
        content = self.tree.file(path)
        return self.read_content(path, content, 0, len(content.data))

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write(0, [data])
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_folder(path.rpartition("/")[0])

    def exists(self, path: str) -> bool:
        self._check("name", path)
        return self.tree.find(path) is not None

    def size(self, path: str) -> int:
        self._check("name", path)
        return len(self.tree.file(path).data)

    def modified_ms(self, path: str) -> int:
        self._check("name", path)
        return self.tree.node(path).modified_ms

    def list(self, path: str) -> builtins.list[str]:
        self._check("name", path)
        return sorted(self.tree.folder(path).entries)

    def is_folder(self, path: str) -> bool:
        self._check("name", path)
        return isinstance(self.tree.find(path), Folder)

    def make_folder(self, path: str) -> None:
        self._check("name", path)
        if not isinstance(self.tree.find(path), Folder):
            self._check_name_fits(path)
            self._change(f"make folder {path}")
            self.tree.make_folder(path)

    def rename(self, old: str, new: str) -> None:
        self._check("name", old)
        self._change(f"rename {old} {new}")
        self.tree.rename(old, new)

    def remove(self, path: str) -> None:
        self._check("name", path)
        try:
            self.tree.file(path)
        except FileNotFoundError:
            return
        self._change(f"remove {path}")
        self.tree.remove(path)

    def remove_folder(self, path: str) -> None:
        self._check("name", path)
        self.tree.folder(path)
        self._change(f"remove folder {path}")
        self.tree.remove(path)

    def remove_tree(self, path: str) -> None:
        self._check("name", path)
        try:
            folder = self.tree.folder(path)
        except FileNotFoundError:
            return
        self._remove_all(path, folder)

    def _remove_all(self, path: str, folder: Folder) -> None:
        for name, node in sorted(folder.entries.items()):
            if isinstance(node, Folder):
                self._remove_all(f"{path}/{name}", node)
            else:
                self.remove(f"{path}/{name}")
        self._change(f"remove {path}")
        self.tree.remove(path)

    def sync_folder(self, path: str) -> None:
        self._check("sync", path)
        self._change(f"sync folder {path}")
        self.tree.sync_folder(path)

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def lock(self, path: str) -> VirtualFile:
        if path in self.tree.locked:
            raise fault(errno.EAGAIN, path)
        file = self.open(path, create=True)
        self.tree.locked.add(path)
        return VirtualFile(self, path, file.content, writable=True, is_lock=True)

    def usage(self, path: str) -> tuple[int, int]:
        self._check("name", path)
        return self.tree.capacity_bytes, 0 if self.faults.is_full else self.tree.free_bytes

    # --- what open files do ---

    def read_content(self, path: str, content: FileContent, position: int, count: int) -> bytes:
        self._check("read", path)
        return self.faults.flip(path, bytes(content.data[position : position + count]))

    def write_content(self, path: str, content: FileContent, position: int, chunks: Sequence[Buffer]) -> int:
        data = b"".join(chunks)
        stop = self._stop_is_due(f"write {path} {position}+{len(data)}")
        try:
            self._check("write", path)
            fits = self._bytes_that_fit(content, position, len(data))
            if fits < len(data):
                raise fault(errno.ENOSPC, path)
        except OSError as error:
            # The system may have taken part of it before it failed.
            if not (self.ended or self.faults.is_gone):
                part = self.rng.randint(0, fits if error.errno == errno.ENOSPC else len(data) // 2)
                self._put(content, position, data[:part])
            raise
        if stop:
            self._put(content, position, data[: self.rng.randint(0, len(data))])
            self.faults.stop()
        self._put(content, position, data)
        return len(data)

    def date_content(self, path: str, content: FileContent, modified_ms: int) -> None:
        self._check("name", path)
        content.modified_ms = modified_ms

    def truncate_content(self, path: str, content: FileContent, size: int) -> None:
        self._check("write", path)
        self._change(f"truncate {path} {size}")
        self._resize(content, size)

    def reserve_content(self, path: str, content: FileContent, size: int) -> None:
        self._check("write", path)
        if self._bytes_that_fit(content, 0, size) < size:
            raise fault(errno.ENOSPC, path)
        if size > len(content.data):
            self._resize(content, size)

    def sync_content(self, path: str, content: FileContent) -> None:
        stop = self._stop_is_due(f"sync {path}")
        try:
            self._check("sync", path)
        except OSError:
            content.fail_sync()
            raise
        if stop:
            self.faults.stop()
        content.sync()

    def sync_everything(self) -> None:
        for path, content in list(self.tree.walk()):
            self.sync_content(path, content)
        self._change("sync all names")
        self.tree.sync_names()

    # --- what the tester does ---

    def crash(self, how: Crash) -> "VirtualDisk":
        """End the process that uses this disk; returns the disk for the next one."""
        after = VirtualDisk(rng=self.rng, clock=self.clock, note=self._note, note_detail=self._note_detail)
        after.tree, self.tree = self.tree, FileTree(0)
        after.tree.locked.clear()
        self.ended = True
        after.boots = self.boots
        if how is Crash.POWER_CUT:
            after.boots += 1
            after.tree.cut_power(self.rng)
        self._note(f"{how.value}: {len(list(after.tree.walk()))} files left")
        return after

    def files(self) -> builtins.list[str]:
        """The paths of all files."""
        return [path for path, _ in self.tree.walk()]

    def flip_bit(self, path: str, position: int | None = None) -> None:
        """Damage the file at rest, at a byte that the seed chooses unless it is told."""
        data = self.tree.file(path).data
        if position is None and data:
            position = self.rng.randrange(len(data))
        if position is not None:
            data[position] ^= 1 << self.rng.randrange(8)
            self._note(f"bit flipped in byte {position} of {path}")

    def lose(self, path: str) -> None:
        """A file or folder is gone, durably, without anybody having removed it."""
        self.faults, faults = DiskFaults(self.rng), self.faults
        if self.is_folder(path):
            self.remove_tree(path)
        else:
            self.remove(path)
        self.tree.sync_folder(path.rstrip("/").rpartition("/")[0])
        self.faults = faults

    # --- how all of it is guarded ---

    def _check(self, operation: Operation, path: str) -> None:
        if self.ended:
            raise ProcessEndedError
        self.faults.check(operation, path)

    def _check_name_fits(self, path: str) -> None:
        if self.faults.refuses_names:
            raise fault(errno.ENOSPC, path)

    def _stop_is_due(self, what: str) -> bool:
        if self.ended:
            raise ProcessEndedError
        self._note_detail(what)
        return self.faults.stop_is_due()

    def _change(self, what: str) -> None:
        """Before a change of names: the process may end here, with the change not made."""
        if self._stop_is_due(what):
            self.faults.stop()

    def _bytes_that_fit(self, content: FileContent, position: int, count: int) -> int:
        limit = len(content.data) + (0 if self.faults.is_full else self.tree.free_bytes)
        return min(count, max(0, limit - position))

    def _put(self, content: FileContent, position: int, data: bytes) -> None:
        if data:
            before = len(content.data)
            content.write(position, [data])
            self._changed(content, before)

    def _resize(self, content: FileContent, size: int) -> None:
        before = len(content.data)
        content.truncate(size)
        self._changed(content, before)

    def _changed(self, content: FileContent, before_bytes: int) -> None:
        content.modified_ms = self.clock.now_ms()
        if content.linked:
            self.tree.used_bytes += len(content.data) - before_bytes
