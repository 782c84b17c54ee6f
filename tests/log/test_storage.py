"""Bounds on what is open, and removals that wait."""

from headrace.log.storage import Pool, Removals, remove_paths


class Held:
    def __init__(self):
        self.touched = False
        self.is_held = True

    def release(self):
        self.is_held = False


def test_a_pool_releases_who_was_not_used_lately():
    pool = Pool(3)
    first, second, third, fourth = members = [Held() for _ in range(4)]
    for member in members[:3]:
        pool.admit(member)
    first.touched = True
    pool.admit(fourth)
    assert [member.is_held for member in members] == [True, False, True, True]
    assert not first.touched
    pool.admit(second)
    assert sum(member.is_held for member in (first, third, fourth)) == 2


def test_a_pool_keeps_its_bound_when_all_are_busy():
    pool = Pool(2)
    for _ in range(50):
        member = Held()
        member.touched = True
        pool.admit(member)
        assert member.is_held
    assert len(pool) == 2


def test_a_pool_weighs():
    pool = Pool(100)
    small = [Held() for _ in range(5)]
    for member in small:
        pool.admit(member, 20)
    large = Held()
    pool.admit(large, 70)
    assert large.is_held
    assert sum(member.is_held for member in small) == 1
    assert pool.held == 90


def test_removals_come_in_time():
    removals = Removals()
    for path, due_ms in (("/b", 20), ("/a", 10), ("/c", 30)):
        removals.schedule(path, due_ms)
    assert removals.take_due(9) == []
    assert removals.take_due(20) == ["/a", "/b"]
    assert removals.take_due(20) == []
    assert len(removals) == 1


def test_removing_files_folders_and_what_is_gone(disk, root):
    disk.make_folder(f"{root}/folder/inner")
    disk.replace_file(f"{root}/folder/inner/file", b"x")
    disk.replace_file(f"{root}/file", b"x")
    remove_paths(disk, [f"{root}/folder", f"{root}/file", f"{root}/gone"])
    assert disk.list(root) == []
