"""What every remote store must do: one suite, which each store's test module runs by deriving from it."""

import errno
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
    begun,
)

BIG = 11 * 1024 * 1024 + 4711
"""More than one part of a multipart upload, and not a round number."""


class FailingFile:
    """A file of a disk that fails behind the first 9 MiB."""

    def __init__(self, path: str) -> None:
        self._file = SystemDisk().open(path, writable=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, position: int, count: int) -> bytes:
        if position + count > 9 << 20:
            raise OSError(errno.EIO, "the disk fails")
        return self._file.read(position, count)


class StoreSuite:
    """Derived classes give the fixture `store`: an empty one."""

    def test_what_was_put_is_read_whole_and_in_ranges(self, store: RemoteStorageManager) -> None:
        store.put_bytes("t-id/0/00-a.index", b"0123456789")
        assert store.read("t-id/0/00-a.index", 0, 10) == b"0123456789"
        assert store.read("t-id/0/00-a.index", 3, 7) == b"3456"
        assert store.read("t-id/0/00-a.index", 9, 10) == b"9"

    def test_a_range_that_ends_behind_the_object_gives_what_there_is(
        self, store: RemoteStorageManager
    ) -> None:
        store.put_bytes("t/0/a.log", b"0123456789")
        assert store.read("t/0/a.log", 8, 4096) == b"89"
        assert store.read("t/0/a.log", 10, 20) == b""
        assert store.read("t/0/a.log", 100, 200) == b""
        assert store.read("t/0/a.log", 5, 5) == b""

    def test_an_empty_object(self, store: RemoteStorageManager) -> None:
        store.put_bytes("t/0/a.txnindex", b"")
        assert store.read("t/0/a.txnindex", 0, 100) == b""
        assert list(store.list("t/")) == [("t/0/a.txnindex", 0)]

    @pytest.mark.parametrize("size", [0, 1, 1 << 20, BIG])
    def test_a_file_is_put_as_far_as_it_is_asked_for(
        self, store: RemoteStorageManager, tmp_path: Path, size: int
    ) -> None:
        data = random.Random(size).randbytes(size)
        path = tmp_path / "segment.log"
        path.write_bytes(data + b"what a writer appends meanwhile")
        source = SystemDisk().open(str(path), writable=False)
        store.put("t/0/a.log", source, size)
        assert store.read("t/0/a.log", 0, size + 100) == data
        middle = size // 2
        assert store.read("t/0/a.log", middle, middle + 1000) == data[middle : middle + 1000]
        assert list(store.list("")) == [("t/0/a.log", size)]

    def test_a_file_that_ends_too_early_is_no_object(
        self, store: RemoteStorageManager, tmp_path: Path
    ) -> None:
        path = tmp_path / "segment.log"
        path.write_bytes(bytes(6 << 20))
        source = SystemDisk().open(str(path), writable=False)
        with pytest.raises(RemoteStorageError, match=r"t/0/a\.log.*ends at byte 6291456 of 20000000"):
            store.put("t/0/a.log", source, 20_000_000)
        with pytest.raises(RemoteResourceNotFoundError):
            store.read("t/0/a.log", 0, 10)
        assert list(store.list("")) == []

    def test_what_a_put_left_that_was_cut_short_is_no_object_and_goes_when_it_is_deleted(
        self, store: RemoteStorageManager, tmp_path: Path
    ) -> None:
        path = tmp_path / "segment.log"
        path.write_bytes(bytes(BIG))
        with pytest.raises((OSError, RemoteStorageError)):
            store.put("t/0/a.log", FailingFile(str(path)), BIG)
        store.put_bytes("t/0/b.log", b"x")
        assert list(store.list("")) == [("t/0/b.log", 1)]
        with pytest.raises(RemoteResourceNotFoundError):
            store.read("t/0/a.log", 0, 10)
        assert begun(store, "t/0/") in (["t/0/b.log"], ["t/0/a.log", "t/0/b.log"])
        assert begun(store, "t/0/b") == ["t/0/b.log"]
        store.delete(["t/0/a.log"])
        assert begun(store, "") == ["t/0/b.log"]

    def test_putting_again_is_fine(self, store: RemoteStorageManager) -> None:
        store.put_bytes("t/0/a.log", b"the same bytes")
        store.put_bytes("t/0/a.log", b"the same bytes")
        assert store.read("t/0/a.log", 0, 100) == b"the same bytes"

    def test_a_missing_object_says_its_name(self, store: RemoteStorageManager) -> None:
        with pytest.raises(RemoteResourceNotFoundError, match=re.escape("t/0/a.log")):
            store.read("t/0/a.log", 0, 10)

    def test_what_was_deleted_is_gone(self, store: RemoteStorageManager) -> None:
        for name in ("t/0/a.log", "t/0/a.index", "t/1/a.log"):
            store.put_bytes(name, b"x")
        store.delete(["t/0/a.log", "t/0/a.index", "t/0/a.snapshot", "never/was/there"])
        assert list(store.list("")) == [("t/1/a.log", 1)]
        with pytest.raises(RemoteResourceNotFoundError):
            store.read("t/0/a.log", 0, 10)
        store.delete([])
        store.delete(["t/0/a.log"])
        store.put_bytes("t/0/a.log", b"again")
        assert store.read("t/0/a.log", 0, 10) == b"again"

    def test_names_are_listed_in_order_by_prefix(self, store: RemoteStorageManager) -> None:
        names = ["a.log", "a-b/1", "a-b/10", "a-b/2", "a/1", "ab/1", "a/b/c/d", "b"]
        for size, name in enumerate(names):
            store.put_bytes(name, bytes(size))
        sizes = {name: size for size, name in enumerate(names)}
        for prefix in ("", "a", "a/", "a-b/1", "a/b/c", "b", "nothing"):
            expected = [(name, sizes[name]) for name in sorted(names) if name.startswith(prefix)]
            assert list(store.list(prefix)) == expected, prefix

    @pytest.mark.parametrize(
        "name", ["", "/etc/passwd", "../outside", "a/../../b", "a//b", "a/", ".", "a/./b", "a b", "a~", "a\n"]
    )
    def test_names_that_lead_elsewhere_are_refused(self, store: RemoteStorageManager, name: str) -> None:
        for action in (
            lambda: store.put_bytes(name, b"x"),
            lambda: store.read(name, 0, 1),
            lambda: store.delete([name]),
        ):
            with pytest.raises(RemoteStorageError, match="cannot be an object's name"):
                action()

    def test_several_threads_at_once(self, store: RemoteStorageManager) -> None:
        """They share folders, and the last object of a folder may leave while another arrives."""
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for turn in range(6):
                    name = f"t/{turn % 3}/{number}.log"
                    store.put_bytes(name, name.encode())
                    assert store.read(name, 0, 100) == name.encode()
                    store.delete([name])
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert list(store.list("")) == []
