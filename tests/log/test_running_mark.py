"""What proves after a kill that nothing is missing, and what takes the proof away."""

import errno

import pytest

from headrace.log.log_directory import RUNNING
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import Crash, VirtualDisk
from tests.log.building import append, batch_of
from tests.log.test_log_manager import A0, TOPIC_ID, Node

EPOCH = 42


@pytest.fixture
def node():
    return Node(VirtualDisk(), "/one", "/two")


def run(node):
    """A process that took some records under its epoch."""
    store = node.start()
    log = store.create(A0, TOPIC_ID, TopicConfig())
    for folder in store.log_dirs:
        folder.mark_running(EPOCH)
    append(log, batch_of(5))
    return store


def test_after_a_kill_everything_is_there(node):
    run(node)
    node.disk = node.disk.crash(Crash.KILL)
    store = node.start()
    assert store.previous_broker_epoch == EPOCH
    assert store.get(A0).log_end_offset == 5


def test_after_a_power_cut_nothing_is_proven(node):
    run(node)
    node.disk = node.disk.crash(Crash.POWER_CUT)
    assert node.start().previous_broker_epoch == -1


@pytest.mark.parametrize(("how", "known_to"), [(Crash.KILL, 4), (Crash.POWER_CUT, 2)])
def test_what_others_have_is_known_up_to_the_recovery_point_after_a_power_cut(node, how, known_to):
    """Behind it there may be batches that were cut from the log before."""
    store = run(node)
    log = store.get(A0)
    log.truncate_to(0, now_ms=0)
    append(log, batch_of(2))
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=0)
    append(log, batch_of(3))
    log.maybe_increment_high_watermark(4)
    for write in store.begin_checkpoint():
        write.write()
    log.segments.active.file.sync()  # as the system may do by itself
    node.disk = node.disk.crash(how)
    log = node.start().get(A0)
    assert (log.high_watermark, log.log_end_offset) == (known_to, 5)


def test_a_log_that_had_to_be_cut_proves_nothing(node):
    store = run(node)
    path = store.get(A0).segments.active.path
    node.disk = node.disk.crash(Crash.KILL)
    node.disk.flip_bit(path, 70)
    store = node.start()
    assert store.get(A0).log_end_offset == 0
    assert store.previous_broker_epoch == -1


@pytest.mark.parametrize("bytes_written", [1, 60, 61, 100])
def test_a_batch_whose_write_did_not_come_to_its_end_is_no_loss(node, bytes_written):
    """Nobody was told that it is there."""
    file = run(node).get(A0).segments.active.file
    batch = batch_of(5, base_offset=5)
    assert bytes_written < len(batch)
    file.write(file.size(), [batch[:bytes_written]])
    node.disk = node.disk.crash(Crash.KILL)
    store = node.start()
    assert store.get(A0).log_end_offset == 5
    assert store.previous_broker_epoch == EPOCH


def test_what_is_whole_and_wrong_behind_the_last_good_batch_is_a_loss(node):
    log = run(node).get(A0)
    append(log, batch_of(5))
    position = log.segments.active.file.size() - 1
    node.disk = node.disk.crash(Crash.KILL)
    node.disk.flip_bit(log.segments.active.path, position)
    store = node.start()
    assert store.get(A0).log_end_offset == 5
    assert store.previous_broker_epoch == -1


def test_a_folder_whose_disk_failed_proves_nothing(node):
    store = run(node)
    store.handle_log_dir_failure(store.log_dirs[0], OSError(errno.EIO, "broken"))
    node.disk = node.disk.crash(Crash.KILL)
    assert node.start().previous_broker_epoch == -1


def test_all_folders_must_say_the_same(node):
    store = run(node)
    store.log_dirs[1].mark_running(EPOCH + 1)
    node.disk = node.disk.crash(Crash.KILL)
    assert node.start().previous_broker_epoch == -1


def test_a_mark_that_cannot_be_read_proves_nothing(node):
    store = run(node)
    node.disk.replace_file(f"{store.log_dirs[0].path}/{RUNNING}", b"{")
    node.disk = node.disk.crash(Crash.KILL)
    assert node.start().previous_broker_epoch == -1


def test_a_clean_stop_counts_more(node):
    run(node).close(broker_epoch=EPOCH + 7)
    assert node.start().previous_broker_epoch == EPOCH + 7


@pytest.mark.parametrize("how", ["killed", "stopped", "failed"])
def test_a_sync_may_have_failed_where_nothing_says_otherwise(node, how):
    """What its process wrote is then written once more: see `recovery`."""
    store = run(node)
    if how == "failed":
        store.handle_log_dir_failure(store.log_dirs[0], OSError(errno.EIO, "a sync"))
    elif how == "stopped":
        store.close(EPOCH)
    node.disk = node.disk.crash(Crash.KILL)
    flags = [folder.storage.sync_may_have_failed for folder in node.start().log_dirs]
    assert flags == [how == "failed", False]


def test_a_folder_whose_disk_is_full_when_it_closes_lost_nothing(node):
    store = run(node)
    node.disk.faults.is_full = True
    store.close(broker_epoch=EPOCH)
    node.disk = node.disk.crash(Crash.KILL)
    assert node.start().previous_broker_epoch == EPOCH
