"""Objects as files: read in pieces, refused where something would be written, failures told as a disk's."""

import pytest

from headrace.testing.disk import VirtualDisk
from headrace.tiered.stores.folder import FolderStore
from headrace.tiered.stores.object_disk import PIECE_BYTES, ObjectDisk

DATA = bytes(range(256)) * 5000


class CountingStore(FolderStore):
    """Notes the ranges that are read."""

    ranges: tuple[tuple[int, int], ...] = ()

    def read(self, name: str, start: int, end: int) -> bytes:
        self.ranges = (*self.ranges, (start, end))
        return super().read(name, start, end)


@pytest.fixture
def store() -> CountingStore:
    disk = VirtualDisk()
    disk.make_folder("/remote")
    made = CountingStore(disk, "/remote")
    made.put_bytes("t/0/a.log", DATA)
    made.put_bytes("t/0/a.index", b"small")
    return made


def test_names_sizes_and_contents(store: CountingStore) -> None:
    disk = ObjectDisk(store)
    assert disk.list("t/0") == ["a.index", "a.log"]
    assert disk.list("") == ["t"]
    assert disk.is_folder("t/0")
    assert not disk.is_folder("t/1")
    assert disk.exists("t/0/a.log")
    assert not disk.exists("t/0/a")
    assert disk.size("t/0/a.log") == len(DATA)
    assert disk.read_file("t/0/a.index") == b"small"
    assert bytes(disk.map("t/0/a.index")) == b"small"


def test_small_reads_come_out_of_one_piece_and_large_ones_are_fetched_as_they_are(
    store: CountingStore,
) -> None:
    file = ObjectDisk(store).open("t/0/a.log", writable=False)
    for position in range(1000, 2000, 100):
        assert file.read(position, 61) == DATA[position : position + 61]
    assert store.ranges == ((1000, 1000 + PIECE_BYTES),)
    buffer = bytearray(2 * PIECE_BYTES)
    assert file.read_into(7, buffer) == len(buffer)
    assert buffer == DATA[7 : 7 + len(buffer)]
    assert store.ranges[1:] == ((7, 7 + len(buffer)),)
    assert file.read(len(DATA) - 10, 100) == DATA[-10:]
    assert file.read(len(DATA), 100) == b""


def test_what_is_missing_and_what_is_cut(store: CountingStore) -> None:
    disk = ObjectDisk(store)
    for action in (disk.read_file, disk.size, lambda name: disk.open(name, writable=False)):
        with pytest.raises(FileNotFoundError):
            action("t/0/b.log")
    file = disk.open("t/0/a.log", writable=False)
    store.put_bytes("t/0/a.log", DATA[:100])
    with pytest.raises(OSError, match="the store gave 100 bytes"):
        file.read(0, len(DATA))
    store.delete(["t/0/a.log"])
    with pytest.raises(FileNotFoundError):
        file.read(0, len(DATA))


def test_nothing_is_written(store: CountingStore) -> None:
    disk = ObjectDisk(store)
    file = disk.open("t/0/a.log", writable=False)
    for action in (
        lambda: disk.open("t/0/a.log"),
        lambda: disk.remove("t/0/a.log"),
        lambda: disk.replace_file("t/0/a.log", b""),
        lambda: disk.rename("t/0/a.log", "b"),
        lambda: file.write(0, [b"x"]),
        lambda: file.truncate(0),
    ):
        with pytest.raises(OSError, match="only read here"):
            action()
    assert disk.read_file("t/0/a.log") == DATA
