"""All logs of a node in several directories."""

import random

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.log.log_manager import LogManager
from headrace.log.storage import remove_paths
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.topic import TopicConfig
from headrace.testing.clock import VirtualClock
from headrace.testing.disk import VirtualDisk
from tests.log.building import NOW_MS, append, batch_of, offsets_of, read_all, sequenced

TOPIC_ID = TopicId(b"0123456789abcdef")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Clock:
    """Wall time that a test sets."""

    def __init__(self):
        self.ms = NOW_MS

    def now_ms(self):
        return self.ms

    def monotonic_ms(self):
        return self.ms


class Node:
    """Opens and closes one store as a node would."""

    def __init__(self, disk, *paths):
        self.disk = disk
        self.paths = paths
        self.clock = Clock()
        self.failed = []

    def store(self, **settings):
        properties = {"log.dirs": ",".join(self.paths), "node.id": "1", "process.roles": "broker"}
        config = BrokerConfig(properties | settings, check=False)
        return LogManager(
            self.disk, config, self.clock, random.Random(7), on_log_dir_failure=self.failed.append
        )

    def start(self, config=None, **settings):
        store = self.store(**settings)
        store.lock()
        ids = iter(range(1, 100))
        store.identify("cluster", 1, lambda: next(ids).to_bytes(16, "big"))
        store.load_logs(lambda topic: config or TopicConfig())
        return store


@pytest.fixture
def node(disk, root):
    return Node(disk, f"{root}/one", f"{root}/two")


def test_a_new_partition_goes_where_the_fewest_are(node):
    store = node.start()
    for number in range(5):
        store.create(TopicPartition("t", number), TOPIC_ID, TopicConfig())
    assert [len(folder.logs) for folder in store.log_dirs] == [3, 2]
    store.close()


def test_a_partition_can_be_sent_to_a_directory(node):
    store = node.start()
    second = store.log_dirs[1]
    for number in range(3):
        store.create(
            TopicPartition("t", number), TOPIC_ID, TopicConfig(), directory_id=second.meta.directory_id
        )
    assert [len(folder.logs) for folder in store.log_dirs] == [0, 3]
    store.close()


def test_cordoned_directories_get_no_new_partitions(node):
    store = node.start(**{"cordoned.log.dirs": node.paths[0]})
    store.create(A0, TOPIC_ID, TopicConfig())
    assert store.folder_of(A0).path == node.paths[1]
    store.close()
    store = node.start(**{"cordoned.log.dirs": "*"})
    assert store.get(A0) is not None
    with pytest.raises(ApiError):
        store.create(A1, TOPIC_ID, TopicConfig())
    store.close()


def test_a_clean_stop_and_a_start(node):
    store = node.start()
    assert store.previous_broker_epoch == -1
    for partition in (A0, A1, B0):
        log = store.create(partition, TOPIC_ID, TopicConfig())
        append(log, batch_of(5))
        log.maybe_increment_high_watermark(4)
    store.get(A0).maybe_increment_log_start_offset(2)
    store.close(broker_epoch=42)
    for path in node.paths:
        assert node.disk.read_file(f"{path}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    store = node.start()
    assert store.previous_broker_epoch == 42
    assert not node.disk.exists(f"{node.paths[0]}/.kafka_cleanshutdown")
    log = store.get(A0)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 4, 5)
    assert (log.recovery_point, log.topic_id) == (5, TOPIC_ID)
    assert len(list(store.logs())) == 3
    assert store.get(TopicPartition("c", 0)) is None
    store.close()


def test_checkpoints_are_kafkas(node):
    node.paths = node.paths[:1]
    store = node.start()
    store.log_dirs[0].mark_running(42)
    for partition in (A1, A0):
        append(store.create(partition, TOPIC_ID, TopicConfig()), batch_of(5))
    store.get(A0).maybe_increment_high_watermark(3)
    store.get(A0).maybe_increment_log_start_offset(2)
    for write in store.begin_checkpoint():
        write.write()
    (path,) = node.paths
    assert decode_offsets(node.disk.read_file(f"{path}/recovery-point-offset-checkpoint")) == decode_offsets(
        b"0\n2\na 0 0\na 1 0\n"
    )
    assert decode_offsets(node.disk.read_file(f"{path}/replication-offset-checkpoint")) == decode_offsets(
        b"0\n2\na 0 3\na 1 0\n"
    )
    assert decode_offsets(node.disk.read_file(f"{path}/log-start-offset-checkpoint")) == decode_offsets(
        b"0\n1\na 0 2\n"
    )
    store.unlock()
    again = node.start()
    assert (again.get(A0).log_start_offset, again.get(A0).high_watermark) == (2, 3)
    again.close()


def test_a_late_checkpoint_does_not_bring_back_an_earlier_truth(node):
    node.paths = node.paths[:1]
    store = node.start()
    log = store.create(A0, TOPIC_ID, TopicConfig())
    append(log, batch_of(5))
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    (late,) = store.begin_checkpoint()
    log.truncate_to(0, now_ms=NOW_MS)
    late.write()
    data = node.disk.read_file(f"{node.paths[0]}/recovery-point-offset-checkpoint")
    assert decode_offsets(data) == {A0: 0}
    for write in store.begin_checkpoint():
        write.write()
    store.close()


def test_a_crash_is_recovered_and_broken_checkpoints_do_no_harm(node):
    store = node.start()
    append(store.create(A0, TOPIC_ID, TopicConfig()), batch_of(5))
    store.unlock()
    for path in node.paths:
        for name in ("recovery-point", "replication", "log-start"):
            node.disk.replace_file(f"{path}/{name}-offset-checkpoint", b"\xffgarbage")
    store = node.start()
    assert offsets_of(read_all(store.get(A0))) == [0, 1, 2, 3, 4]
    assert store.previous_broker_epoch == -1
    store.close()


def test_directories_know_whose_they_are(node):
    node.start().close()
    held = node.start()
    ids = [folder.meta.directory_id for folder in held.log_dirs]
    assert ids == [(1).to_bytes(16, "big"), (2).to_bytes(16, "big")]
    store = node.store()
    store.unlock()
    other = node.store()
    with pytest.raises(BlockingIOError, match="in use"):
        other.lock()


def test_another_nodes_directory_is_refused(node):
    node.start().close()
    store = node.store()
    store.lock()
    with pytest.raises(InvalidBytesError, match="node 1 of cluster cluster"):
        store.identify("cluster", 2, lambda: b"")
    with pytest.raises(InvalidBytesError, match="not to node 1 of cluster elsewhere"):
        store.identify("elsewhere", 1, lambda: b"")
    store.unlock()
    node.disk.replace_file(f"{node.paths[1]}/meta.properties", b"version=0\nbroker.id=1\n")
    with pytest.raises(InvalidBytesError, match=node.paths[1]):
        node.store().lock()


def test_deleting_renames_at_once_and_removes_later(node):
    store = node.start()
    log = store.create(A0, TOPIC_ID, TopicConfig(file_delete_delay_ms=1000))
    append(log, batch_of(5))
    chunk = log.read(0, max_bytes=1000).chunk
    store.delete(A0)
    store.delete(A0)
    assert store.get(A0) is None
    with pytest.raises(ApiError) as raised:
        append(log, batch_of())
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (name,) = [name for name in node.disk.list(node.paths[0]) if name.startswith("a-0")]
    assert name.startswith("a-0.")
    assert name.endswith("-delete")
    again = store.create(A0, TopicId(b"another topic id"), TopicConfig())
    append(again, batch_of(2))
    assert store.take_removals() == []
    node.clock.ms += 1000
    for removal in store.take_removals():
        removal.run()
    assert not node.disk.exists(f"{node.paths[0]}/{name}")
    assert len(chunk.read()) > 0
    assert store.get(A0).log_end_offset == 2
    store.close()


def test_deletions_are_finished_after_a_restart(node):
    store = node.start()
    store.create(A0, TOPIC_ID, TopicConfig())
    store.delete(A0)
    store.close()
    store = node.start()
    assert store.get(A0) is None
    node.clock.ms += 60_000
    for removal in store.take_removals():
        remove_paths(node.disk, removal.paths)
    assert [n for n in node.disk.list(node.paths[0]) if n.startswith("a-0")] == []
    store.close()


def test_what_lies_about_in_a_log_directory(node):
    store = node.start()
    append(store.create(A0, TOPIC_ID, TopicConfig()), batch_of(3))
    append(store.create(B0, TOPIC_ID, TopicConfig()), batch_of(4))
    store.mark_stray(A0)
    assert store.get(A0) is None
    store.close()
    first, second = node.paths
    node.disk.make_folder(f"{first}/lost+found")
    node.disk.make_folder(f"{first}/__cluster_metadata-0")
    node.disk.rename(f"{second}/b-0", f"{second}/b-0.{'a' * 32}-future")
    store = node.start()
    assert list(store.logs()) == []
    assert [path.rpartition("-")[2] for path in store.log_dirs[0].strays] == ["stray"]
    assert store.log_dirs[1].future_logs[B0].log_end_offset == 4
    assert node.disk.list(f"{first}/__cluster_metadata-0") == []
    store.close()


def test_one_partition_in_two_directories_is_refused(node):
    store = node.start()
    store.create(A0, TOPIC_ID, TopicConfig())
    store.close()
    node.disk.make_folder(f"{node.paths[1]}/a-0")
    with pytest.raises(InvalidBytesError, match="remove the one that is stale"):
        node.start()


def test_regular_work(node):
    store = node.start()
    log = store.create(A0, TOPIC_ID, TopicConfig(segment_ms=1000, retention_ms=5000, flush_ms=100))
    assert [each for each, _ in store.take_flushes()] == []
    append(log, sequenced(7, 0, 0), now_ms=node.clock.ms)
    node.clock.ms += 99
    assert store.take_flushes() == []
    node.clock.ms += 1
    ((flushed, flush),) = store.take_flushes()
    flush.sync()
    flushed.finish_flush(flush, now_ms=node.clock.ms)
    assert log.recovery_point == 1
    log.roll(node.clock.ms)
    assert list(store.to_flush) == [log]
    assert len(store.take_flushes()) == 1
    log.maybe_increment_high_watermark(1)
    node.clock.ms += 10_000
    assert store.delete_old_segments() == 1
    assert len(log.producer_state_manager) == 1
    node.clock.ms += 86_400_000
    store.expire_producers()
    assert len(log.producer_state_manager) == 0
    store.close()


def test_usage(node):
    store = node.start()
    append(store.create(A0, TOPIC_ID, TopicConfig()), batch_of(5))
    first, second = store.usage()
    assert [log.topic_partition for log in first.logs] == [A0]
    assert first.logs[0].size_bytes == len(batch_of(5))
    assert first.total_bytes >= first.usable_bytes > 0
    assert (first.error, second.logs) == (ErrorCode.NONE, ())
    store.close()


# -- directories that fail: only the disk in memory can be told to ---------------------------------------


@pytest.fixture
def frail():
    disk = VirtualDisk(clock=VirtualClock())
    node = Node(disk, "/one", "/two")
    store = node.start()
    for partition in (A0, A1, B0):
        append(store.create(partition, TOPIC_ID, TopicConfig()), batch_of())
    return node, store


def test_a_failed_directory_goes_offline_and_the_node_goes_on(frail):
    node, store = frail
    node.disk.faults.concerns = lambda path: path.startswith("/one")
    node.disk.faults.write_error_rate = 1.0
    with pytest.raises(ApiError) as raised:
        append(store.get(A0), batch_of())
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [folder.path for folder in node.failed] == ["/one"]
    with pytest.raises(ApiError, match="offline"):
        append(store.get(B0), batch_of())
    append(store.get(A1), batch_of())
    assert list(store.logs()) == [store.get(A1)]
    store.create(TopicPartition("c", 0), TOPIC_ID, TopicConfig())
    assert store.folder_of(TopicPartition("c", 0)).path == "/two"
    first, second = store.usage()
    assert (first.error, first.usable_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert second.error is ErrorCode.NONE
    store.delete(A0)
    store.close(5)
    assert not node.disk.exists("/one/.kafka_cleanshutdown")
    node.disk.faults.clear()
    store = node.start()
    assert store.previous_broker_epoch == -1
    assert offsets_of(read_all(store.get(A1))) == [0, 1]
    assert offsets_of(read_all(store.get(B0))) == [0]


def test_a_directory_that_cannot_be_opened_is_offline_from_the_start(frail):
    node, store = frail
    store.close()
    node.disk.faults.concerns = lambda path: path.startswith("/two")
    node.disk.faults.read_error_rate = 1.0
    store = node.start()
    assert [folder.path for folder in store.live_log_dirs()] == ["/one"]
    assert offsets_of(read_all(store.get(A0))) == [0]
    assert store.get(A1) is None


def test_without_any_directory_there_is_no_node(frail):
    node, store = frail
    store.close()
    node.disk.faults.read_error_rate = 1.0
    with pytest.raises(OSError, match="rror"):
        node.start()


def test_a_failed_sync_takes_the_directory_offline(frail):
    node, store = frail
    log = store.get(A0)
    flush = log.begin_flush()
    node.disk.faults.sync_error_rate = 1.0
    with pytest.raises(OSError, match="rror") as raised:
        flush.sync()
    log.abandon_flush(flush, raised.value)
    assert [folder.path for folder in node.failed] == ["/one"]
    assert store.get(A0).recovery_point == 0


def test_checkpoints_wait_for_room_on_a_full_disk(frail):
    node, store = frail
    node.disk.faults.is_full = True
    for write in store.begin_checkpoint():
        write.write()
    assert node.failed == []
    node.disk.faults.is_full = False
    for write in store.begin_checkpoint():
        write.write()
    assert decode_offsets(node.disk.read_file("/one/replication-offset-checkpoint")) == decode_offsets(
        b"0\n2\na 0 0\nb 0 0\n"
    )


def test_a_failed_close_is_no_clean_stop(frail):
    node, store = frail
    node.disk.faults.concerns = lambda path: path.startswith("/one/a-0")
    node.disk.faults.sync_error_rate = 1.0
    store.close(5)
    assert not node.disk.exists("/one/.kafka_cleanshutdown")
    assert node.disk.exists("/two/.kafka_cleanshutdown")


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"],
)
def test_a_checkpoint_that_is_gone_after_a_kill_is_told(node, caplog, name):
    store = node.start()
    store.create(A0, TOPIC_ID, TopicConfig())
    path = store.log_dirs[0].path
    store.unlock()
    node.start().unlock()
    assert name not in caplog.text, "the first process wrote all of them before it had a partition"
    node.disk.remove(f"{path}/{name}")
    node.start().unlock()
    assert f"{path}/{name} is missing" in caplog.text


def test_a_folder_that_was_used_is_not_taken_for_a_new_one(node):
    store = node.start()
    store.create(A0, TOPIC_ID, TopicConfig())
    path = store.log_dirs[0].path
    store.unlock()
    node.disk.remove(f"{path}/meta.properties")
    with pytest.raises(InvalidBytesError, match=r"meta\.properties is missing.*Bring it back"):
        node.start()
