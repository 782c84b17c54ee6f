"""Closing few logs and many."""

import pytest

from headrace.base.ids import TopicPartition
from headrace.log.flush import TOGETHER_FROM
from headrace.settings.topic import TopicConfig
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import NOW_MS, append, batch_of, offsets_of, read_all, sequenced
from tests.log.test_log_manager import TOPIC_ID, Node

MANY = [TopicPartition("many", number) for number in range(TOGETHER_FROM)]
FEW = MANY[:3]
LONG = b"v" * TopicConfig().index_interval_bytes
SHORT_FILES = [f"{0:020}.log", "partition.metadata"]


def filled(disk, partitions):
    node = Node(disk, "/one")
    store = node.start()
    for number, partition in enumerate(partitions):
        log = store.create(partition, TOPIC_ID, TopicConfig())
        log.leader_epoch_cache.assign(4, 0)
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
    assert store.log_dirs[0].was_clean
    for number, partition in enumerate(partitions):
        log = store.get(partition)
        assert log.log_end_offset == log.recovery_point == 2 * (number % 3)
        assert offsets_of(read_all(log)) == list(range(2 * (number % 3)))
        assert log.leader_epoch_cache.latest_epoch == (4 if number % 3 else -1), (
            "an epoch without records is none"
        )
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
    monkeypatch.setattr(store.log_dirs[0], "sync_file_system", lambda: False)
    store.close(7)
    node.disk = disk.crash(Crash.POWER_CUT)
    store = node.start()
    assert store.log_dirs[0].was_clean
    assert [store.get(partition).log_end_offset for partition in MANY[:3]] == [0, 2, 4]


def test_a_log_that_nobody_wrote_to_is_closed_without_a_write(disk, root):
    """Also after it was opened again: only its epochs are new."""
    node = Node(disk, f"{root}/one")
    store = node.start()
    append(store.create(FEW[0], TOPIC_ID, TopicConfig()), batch_of(2, value=LONG))
    store.create(FEW[1], TOPIC_ID, TopicConfig())
    store.close(7)
    folders = [f"{root}/one/{partition}" for partition in FEW[:2]]
    assert disk.list(folders[1]) == [f"{0:020}.log", "partition.metadata"], "indexes come with batches"
    before = {path: disk.modified_ms(path) for path in _files(disk, folders)}
    assert f"{folders[0]}/{0:020}.index" in before
    store = node.start()
    store.get(FEW[0]).leader_epoch_cache.assign(5, 2)
    store.close(8)
    after = {path: disk.modified_ms(path) for path in _files(disk, folders)}
    assert {path for path, ms in after.items() if before.get(path) != ms} <= {
        f"{folders[0]}/leader-epoch-checkpoint"
    }


def test_a_short_log_is_closed_without_indexes_and_is_none_the_worse(disk, root):
    node = Node(disk, f"{root}/one")
    store = node.start()
    log = store.create(FEW[0], TOPIC_ID, TopicConfig())
    for number in range(3):
        append(log, batch_of(2, timestamp=NOW_MS + 10 * number), leader_epoch=4)
    store.close(7)
    assert disk.list(log.folder) == SHORT_FILES
    for epoch in (8, 9):
        store = node.start()
        log = store.get(FEW[0])
        assert offsets_of(read_all(log)) == list(range(6))
        assert log.offset_for_timestamp(NOW_MS + 10).offset == 2
        assert log.offset_of_max_timestamp().offset == 5
        assert log.segments.active.max_timestamp() == (NOW_MS + 21, 5)
        assert log.leader_epoch_cache.entries() == [(4, 0)]
        store.close(epoch)
        assert disk.list(log.folder) == SHORT_FILES
    log = node.start().get(FEW[0])
    log.roll(NOW_MS)
    assert disk.size(f"{log.folder}/{0:020}.timeindex") == 12, "only the last one does without"
    assert f"{6:020}.snapshot" in disk.list(log.folder)


@pytest.mark.parametrize("why", ["it is there", "the log starts later", "a batch is damaged"])
def test_epochs_of_a_short_log_are_written_where_its_batches_do_not_tell_them(disk, root, why):
    node = Node(disk, f"{root}/one")
    store = node.start()
    log = store.create(FEW[0], TOPIC_ID, TopicConfig())
    append(log, batch_of(2), leader_epoch=4)
    if why == "it is there":
        flush = log.begin_flush()
        flush.sync()
        log.finish_flush(flush, now_ms=0)
    append(log, batch_of(2), leader_epoch=6)
    if why == "the log starts later":
        log.maybe_increment_high_watermark(4)
        log.maybe_increment_log_start_offset(1)
    elif why == "a batch is damaged":
        log.segments.active.file.write(log.segments.active.locate(2) + 8, (b"\xff" * 4,))
    store.close(7)
    assert disk.read_file(f"{log.folder}/leader-epoch-checkpoint").startswith(b"0\n2\n4 ")
    log = node.start().get(FEW[0])
    whole = why != "a batch is damaged"
    assert log.log_end_offset == (4 if whole else 2)
    assert log.leader_epoch_cache.latest_epoch == (6 if whole else 4)


def test_a_short_log_with_a_producer_keeps_what_it_said_in_a_snapshot(disk, root):
    node = Node(disk, f"{root}/one")
    store = node.start()
    log = store.create(FEW[0], TOPIC_ID, TopicConfig())
    append(log, sequenced(70, 0, 0), leader_epoch=4)
    store.close(7)
    assert disk.list(log.folder) == sorted([*SHORT_FILES, f"{1:020}.snapshot"])
    assert 70 in node.start().get(FEW[0]).producer_state_manager.producers


def test_a_short_log_that_was_damaged_since_is_cut_where_it_is(disk, root):
    node = Node(disk, f"{root}/one")
    store = node.start()
    log = store.create(FEW[0], TOPIC_ID, TopicConfig())
    for number in range(3):
        append(log, batch_of(2, timestamp=NOW_MS + 10 * number), leader_epoch=4)
    third = log.segments.active.locate(4)
    store.close(7)
    disk.open(f"{log.folder}/{0:020}.log").write(third + 8, (b"\xff" * 4,))
    log = node.start().get(FEW[0])
    assert log.log_end_offset == 4
    assert log.segments.active.max_timestamp() == (NOW_MS + 11, 3)


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
    assert (log.log_end_offset, log.leader_epoch_cache.entries()) == (3, [(4, 0)])
