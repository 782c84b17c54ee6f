"""Closing few logs and many."""

import pytest

from headrace.base.ids import TopicPartition
from headrace.log.closing import TOGETHER_FROM
from headrace.settings.topic import TopicConfig
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import append, batch_of, offsets_of, read_all
from tests.log.test_log_store import TOPIC_ID, Node

MANY = [TopicPartition("many", number) for number in range(TOGETHER_FROM)]
FEW = MANY[:3]


def filled(disk, partitions):
    node = Node(disk, "/one")
    store = node.start()
    for number, partition in enumerate(partitions):
        log = store.create(partition, TOPIC_ID, TopicConfig())
        log.epochs.assign(4, 0)
        for _ in range(number % 3):
            append(log, batch_of(2), leader_epoch=4)
    return node, store


@pytest.mark.parametrize("partitions", [FEW, MANY])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_closed_outlives_a_power_cut(partitions, seed):
    disk = VirtualDisk(clock=VirtualClock())
    disk.rng.seed(seed)
    node, store = filled(disk, partitions)
    store.close(7)
    node.disk = disk.crash(Crash.POWER_CUT)
    store = node.start()
    assert store.folders[0].was_clean
    for number, partition in enumerate(partitions):
        log = store.get(partition)
        assert log.log_end_offset == log.recovery_point == 2 * (number % 3)
        assert offsets_of(read_all(log)) == list(range(2 * (number % 3)))
        assert log.epochs.latest == (4 if number % 3 else -1), "an epoch without records is none"
        assert log.topic_id == TOPIC_ID


def test_a_failed_sync_of_many_is_no_clean_stop():
    disk = VirtualDisk(clock=VirtualClock())
    _, store = filled(disk, MANY)
    disk.faults.concerns = lambda path: path.startswith("/one/many-7/")
    disk.faults.sync_error_rate = 1.0
    store.close(7)
    assert not disk.exists("/one/.kafka_cleanshutdown")


def test_a_system_that_cannot_sync_everything_syncs_one_by_one(monkeypatch):
    disk = VirtualDisk(clock=VirtualClock())
    node, store = filled(disk, MANY)
    monkeypatch.setattr(store.folders[0], "sync_file_system", lambda: False)
    store.close(7)
    node.disk = disk.crash(Crash.POWER_CUT)
    store = node.start()
    assert store.folders[0].was_clean
    assert [store.get(partition).log_end_offset for partition in MANY[:3]] == [0, 2, 4]


def test_a_log_that_nobody_wrote_to_is_closed_without_a_write(disk, root):
    """Also after it was opened again: only its epochs are new."""
    node = Node(disk, f"{root}/one")
    store = node.start()
    append(store.create(FEW[0], TOPIC_ID, TopicConfig()), batch_of(2))
    store.create(FEW[1], TOPIC_ID, TopicConfig())
    store.close(7)
    folders = [f"{root}/one/{partition}" for partition in FEW[:2]]
    assert disk.list(folders[1]) == [f"{0:020}.log", "partition.metadata"], "indexes come with batches"
    before = {path: disk.modified_ms(path) for path in _files(disk, folders)}
    assert f"{folders[0]}/{0:020}.index" in before
    store = node.start()
    store.get(FEW[0]).epochs.assign(5, 2)
    store.close(8)
    after = {path: disk.modified_ms(path) for path in _files(disk, folders)}
    assert {path for path, ms in after.items() if before.get(path) != ms} <= {
        f"{folders[0]}/leader-epoch-checkpoint"
    }


def _files(disk, folders):
    return [f"{folder}/{name}" for folder in folders for name in disk.list(folder)]


def test_a_log_that_was_killed_is_opened_without_a_write():
    """Its epochs are on disk and its indexes are not: they are made in memory, not synced one by one."""
    disk = VirtualDisk(clock=VirtualClock())
    node, store = filled(disk, FEW)
    for log in store.logs():
        flush = log.begin_flush()
        flush.sync()
        log.finish_flush(flush, now_ms=0)
    folders = [f"/one/{partition}" for partition in FEW]
    before = _files(disk, folders)
    assert f"{folders[1]}/leader-epoch-checkpoint" in before
    append(store.get(FEW[1]), batch_of(1), leader_epoch=4)
    node.disk = disk.crash(Crash.KILL)
    store = node.start()
    assert _files(node.disk, folders) == before
    log = store.get(FEW[1])
    assert (log.log_end_offset, log.epochs.entries()) == (3, [(4, 0)])
