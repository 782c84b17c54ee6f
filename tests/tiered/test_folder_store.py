"""The folder store, on the system's disk and on the simulator's; and what only a folder can do wrong."""

import random
from pathlib import Path

import pytest

from headrace.base.ids import TopicId, TopicPartition
from headrace.log.disk import Disk
from headrace.log.system_disk import SystemDisk
from headrace.testing.disk import Crash, VirtualDisk
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
    begun,
)
from headrace.tiered.segment_metadata import TopicIdPartition, partition_prefix
from headrace.tiered.stores.folder import FolderStore
from tests.tiered.store_suite import StoreSuite


class TestOnTheSystemsDisk(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> RemoteStorageManager:
        (tmp_path / "remote").mkdir()
        return FolderStore(SystemDisk(), f"{tmp_path}/remote/")


class TestOnAVirtualDisk(StoreSuite):
    @pytest.fixture
    def store(self) -> RemoteStorageManager:
        return FolderStore(disk_with("/remote"), "/remote")


def disk_with(folder: str, seed: int = 0) -> VirtualDisk:
    disk = VirtualDisk(rng=random.Random(seed))
    disk.make_folder(folder)
    disk.sync_folder("")
    return disk


def test_folders_go_with_their_last_object() -> None:
    disk = disk_with("/remote")
    store = FolderStore(disk, "/remote")
    store.put_bytes("t-id/0/a.log", b"x")
    store.put_bytes("t-id/1/a.log", b"x")
    store.delete(["t-id/0/a.log"])
    assert disk.list("/remote/t-id") == ["1"]
    store.delete(["t-id/1/a.log"])
    assert disk.list("/remote") == []


def test_what_a_killed_writer_left_is_not_listed_and_goes_with_the_object() -> None:
    disk = disk_with("/remote")
    disk.make_folder("/remote/t/0")
    disk.open("/remote/t/0/a.log~", create=True).write(0, [b"half of it, and longer than the whole"])
    store = FolderStore(disk, "/remote")
    assert list(store.list("")) == []
    with pytest.raises(RemoteResourceNotFoundError):
        store.read("t/0/a.log", 0, 10)
    assert begun(store, "") == begun(store, "t/0/a") == ["t/0/a.log"]
    store.put_bytes("t/0/a.log", b"whole")
    assert store.read("t/0/a.log", 0, 100) == b"whole"
    disk.open("/remote/t/0/a.log~", create=True)
    disk.open("/remote/t/0/b.log~", create=True)
    assert list(store.list("")) == [("t/0/a.log", 5)]
    assert begun(store, "") == ["t/0/a.log", "t/0/b.log"]
    store.delete(["t/0/a.log", "t/0/b.log"])
    assert disk.list("/remote") == []


@pytest.mark.parametrize("seed", range(20))
def test_what_was_put_outlives_a_power_cut_and_what_was_deleted_stays_away(seed: int) -> None:
    disk = disk_with("/remote", seed)
    store = FolderStore(disk, "/remote")
    for name in ("t/0/a.log", "t/0/b.log", "u/0/a.log"):
        store.put_bytes(name, name.encode())
    store.delete(["t/0/a.log", "u/0/a.log"])
    after = FolderStore(disk.crash(Crash.POWER_CUT), "/remote")
    assert list(after.list("")) == [("t/0/b.log", 9)]
    assert after.read("t/0/b.log", 0, 100) == b"t/0/b.log"


@pytest.mark.parametrize("disk", [SystemDisk(), VirtualDisk()], ids=["system", "virtual"])
def test_a_share_that_is_not_mounted_is_no_empty_store(disk: Disk, tmp_path: Path) -> None:
    root = f"{tmp_path}/share/remote"
    store = FolderStore(disk, root)
    for action in (
        lambda: store.put_bytes("t/0/a.log", b"x"),
        lambda: store.read("t/0/a.log", 0, 1),
        lambda: store.delete(["t/0/a.log"]),
        lambda: list(store.list("")),
    ):
        with pytest.raises(RemoteStorageError, match="is not there: make it, or mount the share") as raised:
            action()
        assert not isinstance(raised.value, RemoteResourceNotFoundError)
    assert not disk.exists(root)


def test_a_full_disk_is_told_with_the_objects_name() -> None:
    disk = disk_with("/remote")
    store = FolderStore(disk, "/remote")
    disk.tree.capacity_bytes = 10
    with pytest.raises(RemoteStorageError, match=r"t/0/a\.log in /remote: .*No space left"):
        store.put_bytes("t/0/a.log", bytes(100))
    assert list(store.list("")) == []


def test_a_long_topic_name_still_makes_a_folder(tmp_path: Path) -> None:
    partition = TopicIdPartition(TopicId(bytes(range(16))), TopicPartition("x" * 249, 0))
    name = f"{partition_prefix(partition)}00-a.log"
    store = FolderStore(SystemDisk(), str(tmp_path))
    store.put_bytes(name, b"x")
    assert list(store.list("")) == [(name, 1)]
