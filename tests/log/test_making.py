"""Folders that are made before their logs are created."""

import pytest

from headrace.base.ids import TopicId, TopicPartition
from headrace.log.making import NewLog
from headrace.settings.topic import TopicConfig
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import append, batch_of, offsets_of, read_all
from tests.log.test_log_store import TOPIC_ID, Node

PARTITIONS = [TopicPartition("t", number) for number in range(6)]
OTHER_ID = TopicId(b"another topic id")


def make(store, partitions, **fields):
    making = store.begin_making([NewLog(each, TOPIC_ID, TopicConfig(), **fields) for each in partitions])
    making.run()
    store.finish_making(making)
    return making


def test_a_log_whose_files_were_made_is_the_same_as_any_other(disk, root):
    node = Node(disk, f"{root}/one", f"{root}/two")
    store = node.start()
    make(store, PARTITIONS[:4])
    logs = [store.create(partition, TOPIC_ID, TopicConfig()) for partition in PARTITIONS]
    assert [len(folder.logs) for folder in store.folders] == [3, 3], "places were chosen as ever"
    made, other = logs[0], logs[-1]
    assert disk.list(made.folder) == disk.list(other.folder)
    assert (made.owed.files.keys(), len(made.owed.folders)) == ({f"{made.folder}/partition.metadata"}, 2)
    for log in logs:
        append(log, batch_of(2))
        assert offsets_of(read_all(log)) == [0, 1]
    store.drop_unused()
    store.close(7)
    store = node.start()
    assert all(store.get(each).topic_id == TOPIC_ID for each in PARTITIONS)
    assert all(store.get(each).log_end_offset == 2 for each in PARTITIONS)


def test_a_log_goes_where_it_was_sent(disk, root):
    node = Node(disk, f"{root}/one", f"{root}/two")
    store = node.start()
    second = store.folders[1]
    make(store, PARTITIONS, directory_id=second.meta.directory_id)
    assert all(disk.exists(second.path_of(each)) for each in PARTITIONS)


def test_what_was_made_in_vain_goes_and_is_not_taken_for_another_topics(disk, root):
    node = Node(disk, f"{root}/one")
    store = node.start()
    make(store, PARTITIONS[:2])
    store.create(PARTITIONS[0], TOPIC_ID, TopicConfig())
    store.drop_unused()
    folder = store.folders[0]
    assert not disk.exists(folder.path_of(PARTITIONS[1]))
    assert len(store.take_removals()) == 1
    assert store.create(PARTITIONS[1], OTHER_ID, TopicConfig()).topic_id == OTHER_ID
    store.drop_unused()
    assert disk.exists(folder.path_of(PARTITIONS[0]))


@pytest.mark.parametrize("fault", ["name_error_rate", "write_error_rate"])
def test_a_disk_that_fails_meanwhile_is_told_of_by_the_next_log(fault):
    disk = VirtualDisk(clock=VirtualClock())
    node = Node(disk, "/one", "/two")
    store = node.start()
    disk.faults.concerns = lambda path: path.startswith("/one/t-")
    setattr(disk.faults, fault, 1.0)
    making = make(store, PARTITIONS)
    assert len(making.made) < len(PARTITIONS)
    assert node.failed == [], "a thread says nothing"
    disk.faults.clear()
    for partition in PARTITIONS:
        assert store.create(partition, TOPIC_ID, TopicConfig()).topic_id == TOPIC_ID


def test_what_a_killed_process_had_made_is_there_when_it_comes_back():
    disk = VirtualDisk(clock=VirtualClock())
    node = Node(disk, "/one")
    make(node.start(), PARTITIONS)
    node.disk = disk.crash(Crash.KILL)
    store = node.start()
    assert [store.get(each).topic_id for each in PARTITIONS] == [TOPIC_ID] * 6


def test_no_folder_takes_what_none_would_take(disk, root):
    store = Node(disk, f"{root}/one").start(**{"cordoned.log.dirs": "*"})
    assert make(store, PARTITIONS).wanted == []
