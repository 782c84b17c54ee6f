"""The misbehaving store: without faults it is a store like others, and each fault does what it says."""

import random
from collections.abc import Callable

import pytest

from headrace.testing.disk import VirtualDisk
from headrace.testing.remote_store import FaultyStore, StoreFaults
from headrace.tiered.remote_storage import (
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)
from headrace.tiered.stores.folder import FolderStore
from tests.tiered.store_suite import StoreSuite


def faulty(seed: int = 0, **rates: float) -> FaultyStore:
    disk = VirtualDisk()
    disk.make_folder("/remote")
    return FaultyStore(FolderStore(disk, "/remote"), random.Random(seed), StoreFaults(**rates))


def size_after_failed_put(store: FaultyStore) -> int | None:
    with pytest.raises(RemoteStorageError, match=r"t/0/a\.log"):
        store.put_bytes("t/0/a.log", bytes(100))
    store.faults = StoreFaults()
    try:
        return len(store.read("t/0/a.log", 0, 1000))
    except RemoteResourceNotFoundError:
        return None


class TestWithoutFaults(StoreSuite):
    @pytest.fixture
    def store(self) -> RemoteStorageManager:
        return faulty()


def test_a_failed_put_may_have_done_nothing_half_or_all() -> None:
    assert size_after_failed_put(faulty(fails=1)) is None
    assert size_after_failed_put(faulty(denies=1)) == 100
    assert len({size_after_failed_put(faulty(seed, halves=1)) for seed in range(9)} - {0, 100, None}) > 0


def test_a_late_object_appears_some_calls_after_its_put_failed() -> None:
    store = faulty(delays=1)
    assert size_after_failed_put(store) is None
    for _ in range(10):
        list(store.list(""))
    assert list(store.list("")) == [("t/0/a.log", 100)]


def test_a_late_object_stays_away_once_it_is_deleted() -> None:
    store = faulty(delays=1)
    assert size_after_failed_put(store) is None
    store.delete(["t/0/a.log"])
    for _ in range(20):
        assert list(store.list("")) == []


def test_a_failed_delete_may_have_removed_some() -> None:
    left = set()
    for seed in range(20):
        store = faulty(seed)
        for name in ("a", "b", "c"):
            store.put_bytes(name, b"x")
        store.faults.halves = 1
        with pytest.raises(RemoteStorageError):
            store.delete(["a", "b", "c"])
        left.add(len(list(store.list(""))))
    assert left == {0, 1, 2, 3}


def test_a_lost_object_was_put_all_the_same() -> None:
    store = faulty(loses=1)
    store.put_bytes("a", b"x")
    with pytest.raises(RemoteResourceNotFoundError):
        store.read("a", 0, 1)
    store.faults = StoreFaults()
    store.put_bytes("b", b"x")
    store.lose("b")
    assert list(store.list("")) == []


def test_an_old_listing_shows_what_was() -> None:
    store = faulty(lists_behind=0.5)
    seen = set()
    for number in range(40):
        store.put_bytes(f"{number:03}", b"")
        seen.add(len(list(store.list(""))) - number)
    assert max(seen) == 1
    assert min(seen) < 0


def test_while_the_store_is_away_everything_fails() -> None:
    store = faulty()
    store.put_bytes("a", b"x")
    store.is_away = True
    calls: list[Callable[[], object]] = [
        lambda: store.put_bytes("b", b""),
        lambda: store.read("a", 0, 1),
        lambda: store.delete(["a"]),
        lambda: store.list(""),
    ]
    for call in calls:
        with pytest.raises(RemoteStorageError):
            call()
    store.is_away = False
    assert list(store.list("")) == [("a", 1)]


def test_a_slow_call_waits_first() -> None:
    waited: list[float] = []
    disk = VirtualDisk()
    disk.make_folder("/remote")
    store = FaultyStore(
        FolderStore(disk, "/remote"), random.Random(1), StoreFaults(slows=1, slow_s=5), wait=waited.append
    )
    store.put_bytes("a", b"x")
    assert store.read("a", 0, 1) == b"x"
    assert len(waited) == 2
    assert all(0 <= each <= 5 for each in waited)


def test_a_seed_gives_the_same_run_again() -> None:
    def run(seed: int) -> list[str]:
        told: list[str] = []
        store = faulty(seed, fails=0.2, denies=0.2, halves=0.2, delays=0.2)
        for number in range(50):
            try:
                store.put_bytes(f"{number % 7}", bytes(50))
                told.append("put")
            except RemoteStorageError as failure:
                told.append(str(failure))
        store.faults = StoreFaults()
        return [*told, *map(str, store.list(""))]

    assert run(1) == run(1)
    assert run(1) != run(2)
