"""Folders and names of a simulated disk, as they are now and as they would be after a power cut.

A folder has its entries as every process sees them, and the entries that are on the platter. Creating,
renaming and removing change the first at once and are queued, in order, for the second; `sync_folder` lets
the queued changes of that folder through. At a power cut the seed lets a prefix of each folder's queue
survive: a file system keeps the order of changes to one folder and the atomicity of a rename, and promises
nothing else.

So a file that was synced itself is still lost if its name was not: the strict reading of POSIX.
"""

import errno
import os
import random
from collections.abc import Iterator
from typing import Final, TypeAlias

from headrace.testing.file_content import FileContent

# As with file content: in the end, a kernel writes names back by itself.
UNSYNCED_NAMES_MAX: Final = 4096


class Folder:
    """Names now, and names on the platter."""

    __slots__ = ("durable", "entries", "modified_ms")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.modified_ms = 0


Node: TypeAlias = Folder | FileContent

# One atomic change of names: each (folder, name, what it now means; None for nothing).
_NameChange: TypeAlias = list[tuple[Folder, str, Node | None]]


def fault(code: int, path: str) -> OSError:
    """The OSError subclass that the system would raise for `code`."""
    return OSError(code, os.strerror(code), path)


class FileTree:
    """All folders and files of one disk; survives the processes that use it."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.root = Folder()
        self.used_bytes = 0
        self.locked: set[str] = set()
        self._unsynced: list[_NameChange] = []

    # --- looking ---

    def find(self, path: str) -> Node | None:
        node: Node = self.root
        for name in _names(path):
            if not isinstance(node, Folder) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def missing(self, path: str) -> OSError:
        """Why there is nothing at `path`: no such name, or a file where a folder should be."""
        names = _names(path)
        above = (self.find("/".join(names[:depth])) for depth in range(len(names)))
        is_under_file = any(isinstance(node, FileContent) for node in above)
        return fault(errno.ENOTDIR if is_under_file else errno.ENOENT, path)

    def node(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise self.missing(path)
        return node

    def file(self, path: str) -> FileContent:
        node = self.node(path)
        if isinstance(node, Folder):
            raise fault(errno.EISDIR, path)
        return node

    def folder(self, path: str) -> Folder:
        node = self.node(path)
        if not isinstance(node, Folder):
            raise fault(errno.ENOTDIR, path)
        return node

    def walk(self) -> Iterator[tuple[str, FileContent]]:
        """Every file with its path, in order of the paths."""
        yield from _walk("", self.root)

    @property
    def free_bytes(self) -> int:
        return max(0, self.capacity_bytes - self.used_bytes)

    # --- changing ---

    def create(self, path: str, now_ms: int) -> FileContent:
        content = FileContent(modified_ms=now_ms)
        parent, name = self._parent(path)
        self._change([(parent, name, content)])
        return content

    def make_folder(self, path: str) -> None:
        if isinstance(self.find(path), FileContent):
            raise fault(errno.EEXIST, path)
        folder = self.root
        for name in _names(path):
            node = folder.entries.get(name)
            if node is None:
                node = Folder()
                self._change([(folder, name, node)])
            if not isinstance(node, Folder):
                raise fault(errno.ENOTDIR, path)
            folder = node

    def remove(self, path: str) -> None:
        node = self.node(path)
        if isinstance(node, Folder) and node.entries:
            raise fault(errno.ENOTEMPTY, path)
        parent, name = self._parent(path)
        self._change([(parent, name, None)])

    def rename(self, old: str, new: str) -> None:
        from_folder, from_name = self._parent(old)
        to_folder, to_name = self._parent(new)
        node = self.node(old)
        before = to_folder.entries.get(to_name)
        if before is node:
            return
        if _names(new)[: len(_names(old))] == _names(old):
            raise fault(errno.EINVAL if isinstance(node, Folder) else errno.ENOTDIR, new)
        if _names(old)[: len(_names(new))] == _names(new):
            raise fault(errno.ENOTEMPTY, new)
        if isinstance(node, Folder) and isinstance(before, FileContent):
            raise fault(errno.ENOTDIR, new)
        if isinstance(before, Folder):
            if isinstance(node, FileContent):
                raise fault(errno.EISDIR, new)
            if before.entries:
                raise fault(errno.ENOTEMPTY, new)
        self._change([(from_folder, from_name, None), (to_folder, to_name, node)])

    def _parent(self, path: str) -> tuple[Folder, str]:
        names = _names(path)
        if not names:
            raise fault(errno.EINVAL, path)
        return self.folder("/".join(names[:-1])), names[-1]

    def _change(self, change: _NameChange) -> None:
        moved = [node for _, _, node in change]
        for folder, name, node in change:
            before = folder.entries.get(name)
            if isinstance(before, FileContent) and before not in moved:
                before.linked = False
                self.used_bytes -= len(before.data)
            _assign(folder.entries, name, node)
        self._unsynced.append(change)
        if len(self._unsynced) > UNSYNCED_NAMES_MAX:
            self._commit(self._unsynced[: UNSYNCED_NAMES_MAX // 2])

    # --- durability ---

    def sync_folder(self, path: str) -> None:
        """Let this folder's queued changes through, and those of other folders that a rename ties to them."""
        wanted = {id(self.folder(path))}
        chosen: list[_NameChange] = []
        for change in reversed(self._unsynced):
            if any(id(folder) in wanted for folder, _, _ in change):
                wanted.update(id(folder) for folder, _, _ in change)
                chosen.append(change)
        self._commit(chosen[::-1])

    def sync_names(self) -> None:
        """Let all queued changes through."""
        self._commit(self._unsynced)

    def _commit(self, changes: list[_NameChange]) -> None:
        for change in changes:
            for folder, name, node in change:
                _assign(folder.durable, name, node)
        done = {id(change) for change in changes}
        self._unsynced = [change for change in self._unsynced if id(change) not in done]

    def cut_power(self, rng: random.Random) -> None:
        """Become what is on the platter."""
        self._commit(self._survivors(rng))
        self._unsynced.clear()
        self.locked.clear()
        self._take_durable(self.root)
        for _, content in self.walk():
            content.cut_power(rng)
            content.linked = True
        self.recount()

    def _survivors(self, rng: random.Random) -> list[_NameChange]:
        luck = rng.choice([0.0, 0.5, 0.9, 1.0])
        stopped: set[int] = set()
        survivors = []
        for change in self._unsynced:
            folders = {id(folder) for folder, _, _ in change}
            if folders & stopped or rng.random() >= luck:
                stopped |= folders
            else:
                survivors.append(change)
        return survivors

    def _take_durable(self, folder: Folder) -> None:
        folder.entries = dict(folder.durable)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._take_durable(node)

    def recount(self) -> None:
        self.used_bytes = sum(len(content.data) for _, content in self.walk())


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _assign(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _walk(path: str, folder: Folder) -> Iterator[tuple[str, FileContent]]:
    for name in sorted(folder.entries):
        node = folder.entries[name]
        if isinstance(node, Folder):
            yield from _walk(f"{path}/{name}", node)
        else:
            yield f"{path}/{name}", node
