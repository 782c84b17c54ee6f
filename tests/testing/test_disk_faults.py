"""What the simulated disk loses, keeps and damages: the promises that only it can be asked about."""

import errno
import random

import pytest

from headrace.testing.disk import Crash, VirtualDisk
from headrace.testing.disk_faults import ProcessEndedError
from headrace.testing.file_content import UNSYNCED_CHANGES_MAX


def disk_with_file(seed=0, **options):
    """A disk with /data/a that is known to be there after any crash."""
    disk = VirtualDisk(rng=random.Random(seed), **options)
    disk.make_folder("/data")
    disk.sync_folder("/")
    file = disk.open("/data/a", create=True)
    disk.sync_folder("/data")
    return disk, file


def after_power_cut(seed, prepare):
    disk, file = disk_with_file(seed)
    prepare(disk, file)
    return disk.crash(Crash.POWER_CUT)


SEEDS = range(300)


def test_kill_keeps_the_page_cache():
    disk, file = disk_with_file()
    file.write(0, [b"never synced"])
    disk.open("/data/b", create=True)
    after = disk.crash(Crash.KILL)
    assert after.read_file("/data/a") == b"never synced"
    assert after.list("/data") == ["a", "b"]


def test_what_a_kill_kept_a_power_cut_may_still_take():
    def lengths(seed):
        disk, file = disk_with_file(seed)
        file.write(0, [b"never synced"])
        return len(disk.crash(Crash.KILL).crash(Crash.POWER_CUT).read_file("/data/a"))

    assert {0, 12} <= {lengths(seed) for seed in SEEDS}


def test_a_power_cut_keeps_what_was_synced():
    def prepare(disk, file):
        file.write(0, [b"s" * 3000])
        file.sync()
        file.write(3000, [b"u" * 3000])

    contents = {after_power_cut(seed, prepare).read_file("/data/a") for seed in SEEDS}
    assert all(content.startswith(b"s" * 3000) for content in contents)
    lengths = {len(content) for content in contents}
    assert {3000, 6000} <= lengths
    assert len(lengths) > 20, "the tail may end at any byte"
    assert any(content.endswith(b"\0") for content in contents), "a torn tail may read as zeros"


def test_a_later_write_may_survive_without_an_earlier_one():
    def prepare(disk, file):
        file.write(0, [b"1" * 100])
        file.write(100, [b"2" * 100])

    contents = {after_power_cut(seed, prepare).read_file("/data/a") for seed in SEEDS}
    assert bytes(100) + b"2" * 100 in contents
    assert b"1" * 100 in contents


def test_an_unsynced_overwrite_leaves_old_or_new_bytes():
    def prepare(disk, file):
        file.write(0, [b"o" * 1000])
        file.sync()
        file.write(0, [b"n" * 1000])

    for seed in SEEDS:
        content = after_power_cut(seed, prepare).read_file("/data/a")
        assert len(content) == 1000
        assert set(content) <= set(b"on\0")


def test_an_unsynced_truncation_may_be_undone():
    def prepare(disk, file):
        file.write(0, [b"0123456789"])
        file.sync()
        file.truncate(4)

    contents = {after_power_cut(seed, prepare).read_file("/data/a") for seed in SEEDS}
    assert contents == {b"0123456789", b"0123"}


def test_names_last_once_their_folder_is_synced():
    def prepare(disk, file):
        for name in "bcd":
            new = disk.open(f"/data/{name}", create=True)
            new.write(0, [b"synced"])
            new.sync()
            if name == "b":
                disk.sync_folder("/data")

    listings = {tuple(after_power_cut(seed, prepare).list("/data")) for seed in SEEDS}
    assert listings == {("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")}, "a prefix, in order"


def test_a_rename_happens_wholly_or_not_at_all():
    def prepare(disk, file):
        file.write(0, [b"old"])
        file.sync()
        new = disk.open("/data/a.new", create=True)
        new.write(0, [b"new"])
        new.sync()
        disk.sync_folder("/data")
        disk.rename("/data/a.new", "/data/a")

    seen = set()
    for seed in SEEDS:
        disk = after_power_cut(seed, prepare)
        seen.add((tuple(disk.list("/data")), disk.read_file("/data/a")))
    assert seen == {(("a",), b"new"), (("a", "a.new"), b"old")}


def test_a_rename_between_folders_never_doubles_nor_loses():
    def prepare(disk, file):
        file.sync()
        disk.make_folder("/other")
        disk.sync_folder("/")
        disk.rename("/data/a", "/other/a")
        if disk.rng.random() < 0.5:
            disk.sync_folder("/other")

    for seed in SEEDS:
        disk = after_power_cut(seed, prepare)
        assert len(disk.files()) == 1


def test_a_removed_file_may_come_back_as_it_was():
    def prepare(disk, file):
        file.write(0, [b"kept"])
        file.sync()
        disk.remove("/data/a")

    seen = {tuple(after_power_cut(seed, prepare).files()) for seed in SEEDS}
    assert seen == {(), ("/data/a",)}


def test_replace_file_is_old_or_new_wherever_the_power_is_cut():
    seen = set()
    for operations in range(8):
        for seed in range(40):
            disk, _file = disk_with_file(seed)
            disk.replace_file("/data/c", b"old")
            disk.faults.stop_after(operations, lambda: None)
            try:
                disk.replace_file("/data/c", b"new and longer")
                finished = True
            except ProcessEndedError:
                finished = False
            content = disk.crash(Crash.POWER_CUT).read_file("/data/c")
            assert content == b"new and longer" or (content == b"old" and not finished)
            seen.add(content)
    assert len(seen) == 2


def test_a_dead_process_reaches_nothing():
    disk, file = disk_with_file()
    after = disk.crash(Crash.KILL)
    for action in (
        lambda: file.write(0, [b"from the grave"]),
        lambda: file.read(0, 1),
        lambda: file.sync(),
        lambda: disk.open("/data/x", create=True),
        lambda: disk.remove("/data/a"),
        lambda: disk.lock("/data/.lock"),
    ):
        with pytest.raises(ProcessEndedError):
            action()
    assert after.files() == ["/data/a"]


def test_locks_die_with_their_process():
    disk, _ = disk_with_file()
    disk.lock("/data/.lock")
    disk.crash(Crash.KILL).lock("/data/.lock")


def test_a_full_disk_takes_part_of_a_write_and_says_so():
    disk, file = disk_with_file(capacity_bytes=1000)
    file.write(0, [b"x" * 900])
    with pytest.raises(OSError, match="No space left") as raised:
        file.write(900, [b"y" * 200])
    assert raised.value.errno == errno.ENOSPC
    assert 900 <= file.size() <= 1000
    file.truncate(0)
    file.write(0, [b"z" * 1000])
    assert disk.usage("/data") == (1000, 0)
    disk.remove("/data/a")
    assert disk.usage("/data") == (1000, 1000)


def test_room_that_was_reserved_is_there_when_the_disk_is_full():
    disk, file = disk_with_file(capacity_bytes=1000)
    file.preallocate(600)
    disk.faults.is_full = True
    file.write(0, [b"x" * 600])
    with pytest.raises(OSError, match="No space left"):
        file.write(600, [b"y"])


def test_a_failed_sync_cannot_be_made_good_by_a_later_one():
    lost = 0
    for seed in SEEDS:
        disk, file = disk_with_file(seed)
        file.write(0, [b"first"])
        disk.faults.sync_error_rate = 1.0
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        disk.faults.clear()
        file.write(5, [b"second"])
        file.sync()
        content = disk.crash(Crash.POWER_CUT).read_file("/data/a")
        assert content[5:] == b"second"
        lost += content[:5] != b"first"
    assert lost > len(SEEDS) // 4


def test_read_errors_and_flipped_reads_concern_only_chosen_files():
    disk, file = disk_with_file()
    other = disk.open("/data/b", create=True)
    for each in (file, other):
        each.write(0, [b"0" * 100])
    disk.faults.concerns = lambda path: path.endswith("a")
    disk.faults.flipped_read_rate = 1.0
    assert file.read(0, 100) != b"0" * 100
    assert other.read(0, 100) == b"0" * 100
    disk.faults.read_error_rate = 1.0
    with pytest.raises(OSError, match="Input/output error"):
        file.read(0, 1)
    other.read(0, 1)


def test_damage_at_rest_lasts():
    disk, file = disk_with_file()
    file.write(0, [bytes(100)])
    file.sync()
    disk.flip_bit("/data/a")
    damaged = file.read(0, 100)
    assert sum(byte.bit_count() for byte in damaged) == 1
    assert disk.crash(Crash.POWER_CUT).read_file("/data/a") == damaged


def test_lost_files_are_gone_for_good():
    disk, _ = disk_with_file()
    disk.lose("/data")
    assert disk.crash(Crash.POWER_CUT).files() == []


def test_a_disk_that_is_gone_fails_everything():
    disk, file = disk_with_file()
    disk.faults.is_gone = True
    for action in (lambda: file.read(0, 1), lambda: disk.list("/data"), lambda: file.write(0, [b"x"])):
        with pytest.raises(OSError, match="Input/output error"):
            action()


def test_the_memory_of_unsynced_changes_is_bounded():
    disk, file = disk_with_file()
    for position in range(UNSYNCED_CHANGES_MAX * 3):
        file.write(position, [b"x"])
    assert file.content.unsynced_changes <= UNSYNCED_CHANGES_MAX
    assert disk.crash(Crash.POWER_CUT).read_file("/data/a").startswith(b"x" * UNSYNCED_CHANGES_MAX)


def test_random_histories_keep_every_synced_byte():
    """Appends, overwrites of what is unsynced, truncations and syncs: the synced state is always a floor."""
    for seed in SEEDS:
        rng = random.Random(seed)
        disk, file = disk_with_file(seed)
        synced = b""
        for _ in range(rng.randrange(1, 30)):
            action = rng.random()
            if action < 0.6:
                file.write(file.size(), [bytes([rng.randrange(1, 256)]) * rng.randrange(1, 2000)])
            elif action < 0.7 and file.size() > len(synced):
                file.truncate(rng.randrange(len(synced), file.size()))
            elif action < 0.85:
                file.sync()
                synced = file.read(0, file.size())
        assert disk.crash(Crash.POWER_CUT).read_file("/data/a").startswith(synced)
