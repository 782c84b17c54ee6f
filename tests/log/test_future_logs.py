"""A copy takes its log's place, whatever happens to the disk meanwhile: there is always one whole log."""

import random

import pytest

from headrace.base.errors import ApiError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.future_logs import (
    create_future_log,
    future_log_dir,
    recover_abandoned_future_logs,
    replace_current_with_future_log,
)
from headrace.log.log_manager import LogManager
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import NOW_MS, append, batch_of, offsets_of, read_all

T = TopicPartition("t", 0)
COUNT = 5


def start(disk: VirtualDisk) -> LogManager:
    config = BrokerConfig({"log.dirs": "/one,/two", "node.id": "1"}, check=False)
    store = LogManager(disk, config, VirtualClock(), random.Random(7))
    store.lock()
    ids = iter(range(1, 100))
    store.identify("cluster", 1, lambda: next(ids).to_bytes(16, "big"))
    store.load_logs(lambda topic: TopicConfig())
    recover_abandoned_future_logs(store)
    return store


def with_copy(disk: VirtualDisk) -> LogManager:
    """A log in the one folder, synced, and a copy of it in the other that is whole."""
    store = start(disk)
    disk.sync_folder("/")
    log = store.create(T, TopicId(bytes(16)), TopicConfig())
    for _ in range(COUNT):
        append(log, batch_of())
    flush = log.begin_flush()
    assert flush is not None
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert store.folder_of(T) is store.log_dirs[0]
    copy = create_future_log(store, log, store.log_dirs[1])
    chunk = log.read(0, max_bytes=1 << 20).chunk
    copy.append_as_follower(chunk if isinstance(chunk, bytes) else chunk.read(), now_ms=NOW_MS)
    return store


def check(store: LogManager) -> None:
    assert len(store.live_log_dirs()) == 2
    log = store.get(T)
    assert log is not None
    assert offsets_of(read_all(log)) == list(range(COUNT))


@pytest.mark.parametrize("how", Crash)
@pytest.mark.parametrize("seed", range(8))
def test_a_crash_leaves_one_log(seed: int, how: Crash) -> None:
    disk = VirtualDisk(rng=random.Random(seed))
    store = with_copy(disk)
    replace_current_with_future_log(store, T)
    assert store.folder_of(T) is store.log_dirs[1]
    check(store)
    check(start(disk.crash(how)))


@pytest.mark.parametrize("how", Crash)
@pytest.mark.parametrize("seed", range(40))
def test_a_disk_that_fails_meanwhile_leaves_one_log(seed: int, how: Crash) -> None:
    rng = random.Random(seed)
    disk = VirtualDisk(rng=rng)
    store = with_copy(disk)
    failing = store.log_dirs[seed % 2]
    faults = disk.faults
    faults.concerns = lambda path: path.startswith(failing.path)
    faults.name_error_rate = faults.sync_error_rate = faults.write_error_rate = 0.2
    try:
        replace_current_with_future_log(store, T)
    except ApiError:
        assert [folder.path for folder in store.log_dirs if not folder.online] == [failing.path]
        home = store.folder_of(T)
        assert home is not None
        assert store.get(T) is home.logs[T]
        # Where both are there, the one that counts is offline, and nobody goes on with the other.
        assert not home.online or future_log_dir(store, T) is None
    faults.clear()
    check(start(disk.crash(how)))
