"""One suite for both disks: what holds for the system's must hold for the one in memory."""

import errno
import random

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.testing.disk import VirtualDisk


@pytest.fixture(params=["virtual", "system"])
def place(request, tmp_path):
    """(disk, an existing folder on it)."""
    if request.param == "system":
        return SystemDisk(), str(tmp_path)
    disk = VirtualDisk()
    disk.make_folder("/data")
    return disk, "/data"


def code_of(action, *args, **kwargs):
    """The error number an action fails with."""
    with pytest.raises(OSError) as raised:  # noqa: PT011 - its number is what the callers check
        action(*args, **kwargs)
    return raised.value.errno


def test_write_read_and_size(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    assert file.size() == 0
    assert file.read(0, 10) == b""
    assert file.write(0, [b"hello ", bytearray(b"wor"), memoryview(b"ld")]) == 11
    assert file.read(0, 100) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.read(50, 3) == b""
    assert file.size() == disk.size(f"{folder}/a") == 11
    assert file.path == f"{folder}/a"


def test_writes_overwrite_extend_and_leave_zeros_in_gaps(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"0123456789"])
    file.write(3, [b"abc"])
    file.write(12, [b"end"])
    assert file.read(0, 100) == b"012abc6789\0\0end"
    file.write(14, [b"DING"])
    assert file.read(0, 100) == b"012abc6789\0\0enDING"


def test_read_into(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"0123456789"])
    buffer = bytearray(4)
    assert file.read_into(2, buffer) == 4
    assert buffer == b"2345"
    assert file.read_into(8, memoryview(buffer)) == 2
    assert buffer == b"8945"


def test_truncate_shortens_and_lengthens(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"0123456789"])
    file.truncate(4)
    assert file.read(0, 100) == b"0123"
    file.truncate(6)
    assert file.read(0, 100) == b"0123\0\0"


def test_preallocate_keeps_what_is_there(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"0123"])
    file.preallocate(4096)
    assert file.read(0, 4) == b"0123"
    file.preallocate(2)
    assert file.read(0, 4) == b"0123"


def test_open_never_cuts_and_misses_what_is_missing(place):
    disk, folder = place
    disk.open(f"{folder}/a", create=True).write(0, [b"kept"])
    assert disk.open(f"{folder}/a", create=True).read(0, 10) == b"kept"
    assert code_of(disk.open, f"{folder}/none") == errno.ENOENT
    assert code_of(disk.open, f"{folder}/none/a", create=True) == errno.ENOENT
    assert code_of(disk.open, f"{folder}/a/b", create=True) in (errno.ENOTDIR, errno.ENOENT)
    assert code_of(disk.open, folder) == errno.EISDIR


def test_a_read_only_file_refuses_writes(place):
    disk, folder = place
    disk.open(f"{folder}/a", create=True).write(0, [b"kept"])
    file = disk.open(f"{folder}/a", writable=False)
    assert code_of(file.write, 0, [b"x"]) == errno.EBADF
    assert code_of(file.truncate, 0) in (errno.EBADF, errno.EINVAL)
    assert file.read(0, 10) == b"kept"


def test_a_closed_file_refuses_everything(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.close()
    file.close()
    assert code_of(file.read, 0, 1) == errno.EBADF
    assert code_of(file.write, 0, [b"x"]) == errno.EBADF
    assert code_of(file.size) == errno.EBADF


def test_two_handles_see_one_file(place):
    disk, folder = place
    writer = disk.open(f"{folder}/a", create=True)
    reader = disk.open(f"{folder}/a", writable=False)
    writer.write(0, [b"seen"])
    assert reader.read(0, 10) == b"seen"


def test_an_open_file_outlives_its_name(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"still here"])
    disk.rename(f"{folder}/a", f"{folder}/b")
    assert file.read(0, 100) == b"still here"
    file.write(0, [b"S"])
    assert disk.read_file(f"{folder}/b") == b"Still here"
    disk.remove(f"{folder}/b")
    assert file.read(0, 100) == b"Still here"
    file.write(10, [b"!"])
    assert file.size() == 11
    assert not disk.exists(f"{folder}/b")


def test_map_and_read_file(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    assert bytes(disk.map(f"{folder}/a")) == b""
    file.write(0, [b"mapped"])
    view = disk.map(f"{folder}/a")
    assert bytes(view) == b"mapped"
    assert view.readonly
    disk.remove(f"{folder}/a")
    assert bytes(view[2:4]) == b"pp"
    assert code_of(disk.map, f"{folder}/a") == errno.ENOENT
    assert code_of(disk.read_file, f"{folder}/a") == errno.ENOENT


def test_replace_file(place):
    disk, folder = place
    disk.replace_file(f"{folder}/a", b"one, and long")
    disk.replace_file(f"{folder}/a", b"two")
    assert disk.read_file(f"{folder}/a") == b"two"
    assert disk.list(folder) == ["a"]
    assert code_of(disk.replace_file, f"{folder}/none/a", b"") == errno.ENOENT


def test_a_left_over_temporary_file_does_not_show_through(place):
    disk, folder = place
    disk.open(f"{folder}/a.tmp", create=True).write(0, [b"a long left-over of a crash"])
    disk.replace_file(f"{folder}/a", b"new")
    assert disk.read_file(f"{folder}/a") == b"new"


def test_folders(place):
    disk, folder = place
    disk.make_folder(f"{folder}/x/y/z")
    disk.make_folder(f"{folder}/x/y/z")
    assert disk.is_folder(f"{folder}/x/y")
    assert not disk.is_folder(f"{folder}/none")
    disk.open(f"{folder}/x/b", create=True)
    disk.open(f"{folder}/x/a", create=True)
    assert not disk.is_folder(f"{folder}/x/a")
    assert disk.list(f"{folder}/x") == ["a", "b", "y"]
    assert code_of(disk.list, f"{folder}/none") == errno.ENOENT
    assert code_of(disk.list, f"{folder}/x/a") == errno.ENOTDIR
    assert code_of(disk.size, f"{folder}/none") == errno.ENOENT
    assert code_of(disk.modified_ms, f"{folder}/none") == errno.ENOENT


def test_rename(place):
    disk, folder = place
    disk.open(f"{folder}/a", create=True).write(0, [b"a"])
    disk.open(f"{folder}/b", create=True).write(0, [b"b"])
    disk.rename(f"{folder}/a", f"{folder}/b")
    assert disk.list(folder) == ["b"]
    assert disk.read_file(f"{folder}/b") == b"a"
    disk.rename(f"{folder}/b", f"{folder}/b")
    assert disk.read_file(f"{folder}/b") == b"a"
    assert code_of(disk.rename, f"{folder}/none", f"{folder}/c") == errno.ENOENT


def test_rename_of_folders(place):
    disk, folder = place
    disk.make_folder(f"{folder}/old/deep")
    disk.open(f"{folder}/old/deep/a", create=True).write(0, [b"a"])
    disk.rename(f"{folder}/old", f"{folder}/new")
    assert disk.read_file(f"{folder}/new/deep/a") == b"a"
    disk.make_folder(f"{folder}/full/inner")
    assert code_of(disk.rename, f"{folder}/new", f"{folder}/full") in (errno.ENOTEMPTY, errno.EEXIST)
    disk.make_folder(f"{folder}/empty")
    disk.rename(f"{folder}/new", f"{folder}/empty")
    assert disk.list(folder) == ["empty", "full"]
    disk.open(f"{folder}/file", create=True)
    assert code_of(disk.rename, f"{folder}/empty", f"{folder}/file") == errno.ENOTDIR
    assert code_of(disk.rename, f"{folder}/file", f"{folder}/empty") == errno.EISDIR


def test_remove(place):
    disk, folder = place
    disk.open(f"{folder}/a", create=True)
    disk.remove(f"{folder}/a")
    disk.remove(f"{folder}/a")
    assert disk.list(folder) == []
    disk.make_folder(f"{folder}/x")
    assert code_of(disk.remove, f"{folder}/x") in (errno.EISDIR, errno.EPERM)


def test_remove_tree(place):
    disk, folder = place
    disk.make_folder(f"{folder}/x/y")
    disk.open(f"{folder}/x/y/a", create=True)
    disk.open(f"{folder}/x/b", create=True)
    disk.remove_tree(f"{folder}/x")
    disk.remove_tree(f"{folder}/x")
    assert disk.list(folder) == []
    disk.open(f"{folder}/a", create=True)
    assert code_of(disk.remove_tree, f"{folder}/a") == errno.ENOTDIR


def test_remove_folder_takes_an_empty_one_only(place):
    disk, folder = place
    disk.make_folder(f"{folder}/a/b")
    assert code_of(disk.remove_folder, f"{folder}/a") == errno.ENOTEMPTY
    disk.remove_folder(f"{folder}/a/b")
    assert disk.list(f"{folder}/a") == []
    assert code_of(disk.remove_folder, f"{folder}/a/b") == errno.ENOENT
    disk.open(f"{folder}/file", create=True)
    assert code_of(disk.remove_folder, f"{folder}/file") == errno.ENOTDIR


def test_sync(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"a"])
    file.sync()
    disk.sync_folder(folder)
    assert code_of(disk.sync_folder, f"{folder}/none") == errno.ENOENT
    file.close()
    assert code_of(file.sync_file_system) == errno.EBADF


def test_lock(place):
    disk, folder = place
    held = disk.lock(f"{folder}/.lock")
    assert code_of(disk.lock, f"{folder}/.lock") == errno.EAGAIN
    held.close()
    disk.lock(f"{folder}/.lock").close()
    assert disk.list(folder) == [".lock"]


def test_usage_and_time(place):
    disk, folder = place
    total, usable = disk.usage(folder)
    assert 0 < usable <= total
    disk.open(f"{folder}/a", create=True)
    assert disk.modified_ms(f"{folder}/a") > 1_600_000_000_000


def test_a_file_is_as_old_as_it_is_said_to_be_until_it_is_written(place):
    disk, folder = place
    file = disk.open(f"{folder}/a", create=True)
    file.write(0, [b"a"])
    file.set_modified_ms(1_500_000_000_123)
    file.sync()
    disk.rename(f"{folder}/a", f"{folder}/b")
    assert file.modified_ms() == disk.modified_ms(f"{folder}/b") == 1_500_000_000_123
    file.write(1, [b"b"])
    assert file.modified_ms() > 1_600_000_000_000
    reader = disk.open(f"{folder}/b", writable=False)
    assert reader.modified_ms() == file.modified_ms()
    file.close()
    assert code_of(file.modified_ms) == errno.EBADF


def random_step(rng, disk, folder, files):
    """One operation of any kind; returns what came of it."""
    path, other = (f"{folder}/{rng.choice('abx')}{rng.choice(['', '/p', '/q'])}" for _ in range(2))
    position, count, byte = rng.randrange(60), rng.randrange(30), rng.randrange(256)
    kind = rng.randrange(15)
    try:
        match kind:
            case 0 | 1:
                files.append(disk.open(path, create=rng.random() < 0.8))
            case 2 | 3 | 4:
                return rng.choice(files).write(position, [bytes([byte]) * count, b"x"]) if files else None
            case 5 | 6:
                return rng.choice(files).read(position, count) if files else None
            case 7:
                return rng.choice(files).truncate(position) if files else None
            case 8:
                return disk.rename(path, other)
            case 9:
                return disk.remove(path)
            case 10:
                return disk.remove_tree(path)
            case 11:
                return disk.make_folder(path)
            case 12:
                return disk.list(path), disk.is_folder(other)
            case 13:
                return disk.read_file(path), disk.size(path)
            case 14:
                return disk.replace_file(path, bytes([byte]) * count)
    except OSError as error:
        return errno.errorcode[error.errno]


@pytest.mark.parametrize("seed", range(60))
def test_both_disks_answer_alike(seed, tmp_path):
    """The same random operations on both."""
    virtual = VirtualDisk()
    virtual.make_folder("/data")
    rngs = random.Random(seed), random.Random(seed)
    open_files = [], []
    for step in range(150):
        answers = [
            random_step(rng, disk, folder, files)
            for rng, disk, folder, files in zip(
                rngs, (virtual, SystemDisk()), ("/data", str(tmp_path)), open_files, strict=True
            )
        ]
        assert answers[0] == answers[1], f"step {step}"
