"""The table of partitions: it follows the metadata log, and never makes a log where one may be lost."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicPartition
from headrace.metadata.directory_id import UNASSIGNED
from headrace.replication.partition import Partition
from headrace.testing.disk import Crash, VirtualDisk
from headrace.wire.schemas.metadata_records import PartitionChangeRecord, RemoveTopicRecord
from tests.replication.building import NODE, OTHER, Bench, append, new_topic, topic_id


def opened(*folders: str, disk: VirtualDisk | None = None, **settings: str) -> Bench:
    bench = Bench(*folders, disk=disk, **settings)
    bench.open()
    return bench


def stop(bench: Bench) -> VirtualDisk:
    bench.store.close(broker_epoch=7)
    return bench.disk


# --- topics -----------------------------------------------------------------------------------------------


def test_a_new_topic_has_its_partitions_here() -> None:
    bench = opened()
    bench.create("t", 1, count=3)
    assert len(bench.replicas) == 3
    assert [str(each.topic_partition) for each in bench.replicas] == ["t-0", "t-1", "t-2"]
    assert all(each.is_leader for each in bench.replicas)
    assert bench.disk.is_folder("/a/t-2")


def test_partitions_of_others_are_none_of_ours() -> None:
    bench = opened()
    bench.create("t", 1, count=2)
    bench.change(1, 1, replicas=[OTHER], isr=[OTHER], leader=OTHER)
    assert [str(each.topic_partition) for each in bench.replicas] == ["t-0"]
    assert not bench.disk.is_folder("/a/t-1")


def test_who_asks_for_a_partition_of_others_is_sent_to_its_leader() -> None:
    """Not told that the topic is gone, which ends clients' patience."""
    bench = opened()
    bench.create("t", 1, count=2)
    bench.change(1, 1, replicas=[OTHER], isr=[OTHER], leader=OTHER)
    for index, expected in (
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(ApiError) as raised:
            bench.replicas.find("t", index)
        assert raised.value.code is expected
    bench.delete(1)
    with pytest.raises(ApiError) as raised:
        bench.replicas.find("t", 1)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_is_not_here() -> None:
    bench = opened()
    bench.create("t", 1)
    for topic, index, expected_id, expected in (
        ("t", 1, bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x", 0, bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, topic_id(2), ErrorCode.INCONSISTENT_TOPIC_ID),
    ):
        with pytest.raises(ApiError) as refused:
            bench.replicas.find(topic, index, expected_id)  # type: ignore[arg-type]
        assert refused.value.code is expected
    assert bench.replicas.find("t", 0, topic_id(1)) is bench.replicas.get(TopicPartition("t", 0))


def test_a_topic_made_again_under_its_name_is_another_one() -> None:
    bench = opened()
    bench.create("t", 1)
    old = bench.partition("t")
    append(old, 5)
    bench.delete(1)
    assert bench.replicas.get(TopicPartition("t", 0)) is None
    assert bench.advanced[-1] == TopicPartition("t", 0)
    with pytest.raises(ApiError):
        append(old)
    bench.create("t", 2)
    new = bench.partition("t")
    assert new is not old
    assert (new.local_log().log_end_offset, new.local_log().topic_id) == (0, topic_id(2))
    assert append(new) == 0


def test_deleted_and_made_again_in_one_commit() -> None:
    bench = opened()
    bench.create("t", 1)
    append(bench.partition("t"), 5)
    bench.commit(RemoveTopicRecord(topic_id=topic_id(1)), *new_topic("t", 2))
    assert bench.partition("t").topic_id == topic_id(2)
    assert bench.partition("t").local_log().log_end_offset == 0


def test_files_of_a_deleted_topic_go_after_their_delay() -> None:
    bench = opened(log_segment_delete_delay_ms="1000")
    bench.create("t", 1)
    bench.delete(1)
    left = [name for name in bench.disk.list("/a") if name.startswith("t-0")]
    assert len(left) == 1
    assert left[0].endswith("-delete")
    bench.clock.advance(1_001)
    for removal in bench.store.take_removals():
        removal.run()
    assert [name for name in bench.disk.list("/a") if name.startswith("t-0")] == []


def test_settings_reach_the_logs() -> None:
    bench = opened()
    bench.create("t", 1)
    bench.create("u", 2)
    bench.configure("t", "max.message.bytes", "77")
    assert bench.partition("t").local_log().config.max_message_bytes == 77
    assert bench.partition("u").local_log().config.max_message_bytes != 77
    bench.config.set_dynamic(broker={"message.max.bytes": "99"}, default={})
    bench.replicas.follow_all_configs()
    sizes = [bench.partition(topic).local_log().config.max_message_bytes for topic in ("t", "u")]
    assert sizes == [77, 99]
    bench.configure("t", "max.message.bytes", None)
    assert bench.partition("t").local_log().config.max_message_bytes == 99


# --- directories ------------------------------------------------------------------------------------------


def test_new_partitions_go_where_the_fewest_are_and_that_is_told() -> None:
    bench = opened("/a", "/b", "/c")
    bench.create("t", 1, count=6, directory=UNASSIGNED)
    assert [len(folder.logs) for folder in bench.store.log_dirs] == [2, 2, 2]
    told = {index: directory for _, index, directory in bench.placed}
    for index in range(6):
        folder = bench.store.folder_of(TopicPartition("t", index))
        assert folder is not None
        assert told[index] == bench.directory_id(folder.path)


def test_what_the_cluster_knows_is_not_told_again() -> None:
    bench = opened("/a", "/b")
    bench.create("t", 1, directory=UNASSIGNED)
    ((_, _, directory),) = bench.placed
    bench.change(1, directories=[directory])
    bench.change(1, isr=[NODE])
    assert len(bench.placed) == 1


def test_a_directory_that_the_cluster_names_is_taken() -> None:
    bench = opened("/a", "/b")
    bench.create("t", 1, count=3, directory=bench.directory_id("/b"))
    assert [len(folder.logs) for folder in bench.store.log_dirs] == [0, 3]
    assert bench.placed == []


def test_a_directory_that_fails_takes_only_its_own_partitions() -> None:
    bench = opened("/a", "/b")
    bench.create("t", 1, count=2, directory=UNASSIGNED)
    broken = next(folder for folder in bench.store.log_dirs if folder.path == "/b")
    bench.store.handle_log_dir_failure(broken, OSError("gone"))
    outcomes = []
    for partition in bench.replicas:
        try:
            append(partition)
            outcomes.append(ErrorCode.NONE)
        except ApiError as error:
            outcomes.append(error.code)
    assert sorted(outcomes) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    bench.create("u", 2, count=4, directory=UNASSIGNED)
    assert all(bench.partition("u", index).local_log().folder.startswith("/a/") for index in range(4))


def test_a_write_that_fails_takes_the_directory_offline_and_the_rest_goes_on() -> None:
    bench = opened("/a", "/b")
    bench.disk.faults.concerns = lambda path: path.startswith("/a/")
    bench.disk.faults.name_error_rate = 1.0
    bench.create("t", 1, count=2, directory=UNASSIGNED)
    assert bench.failed == ["/a"]
    with pytest.raises(ApiError) as refused:
        bench.partition("t", 0).leading_log()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    append(bench.partition("t", 1))


def test_no_directory_takes_new_partitions() -> None:
    bench = opened("/a", cordoned_log_dirs="*")
    bench.create("t", 1, directory=UNASSIGNED)
    assert bench.partition("t").log is None


@pytest.mark.parametrize("known", [True, False], ids=["told", "not told"])
def test_after_a_start_without_its_directory_a_log_is_not_made_anew(known: bool) -> None:
    """An empty log in its place would lead, and all records would be gone."""
    bench = opened("/a", "/b")
    bench.create("t", 1, count=2, directory=UNASSIGNED)
    homes = {}
    for index in (0, 1):
        append(bench.partition("t", index), 5)
        folder = bench.store.folder_of(TopicPartition("t", index))
        assert folder is not None
        homes[index] = folder.path
    lost = next(index for index, path in homes.items() if path == "/b")
    directory = bench.directory_id("/b") if known else UNASSIGNED
    disk = stop(bench)
    disk.faults.concerns = lambda path: path.startswith("/b")
    disk.faults.read_error_rate = disk.faults.write_error_rate = disk.faults.name_error_rate = 1.0

    again = opened("/a", "/b", disk=disk)
    assert again.failed == ["/b"]
    again.create("t", 1, count=2, starting=True, directory=directory)
    assert again.partition("t", lost).log is None
    with pytest.raises(ApiError) as refused:
        again.partition("t", lost).leading_log()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert again.partition("t", 1 - lost).local_log().log_end_offset == 5
    again.store.close()

    disk.faults.calm()
    healed = opened("/a", "/b", disk=disk)
    healed.create("t", 1, count=2, starting=True, directory=directory)
    assert [healed.partition("t", index).local_log().log_end_offset for index in (0, 1)] == [5, 5]


def test_new_partitions_are_made_while_a_directory_is_offline() -> None:
    bench = opened("/a", "/b")
    bench.store.handle_log_dir_failure(bench.store.log_dirs[1], OSError("gone"))
    bench.create("t", 1, directory=UNASSIGNED)
    append(bench.partition("t"))


def test_a_disk_that_was_replaced_by_an_empty_one_is_filled_again() -> None:
    """Controllers keep the name of the old directory until the broker tells another."""
    bench = opened("/a")
    bench.create("t", 1, starting=True, directory=b"the disk before.")
    assert bench.partition("t").log is None, "it counts as one that has all"
    gone = [b"the disk before.", UNASSIGNED]
    bench.change(1, replicas=[NODE, OTHER], isr=[OTHER], leader=OTHER, directories=gone)
    assert bench.partition("t").local_log().log_end_offset == 0
    assert bench.placed == [(topic_id(1), 0, bench.directory_id("/a"))]
    made = bench.partition("t")
    bench.change(1, isr=[OTHER, NODE])
    assert bench.partition("t") is made


def test_a_directory_that_is_named_and_unknown_may_be_the_one_that_failed() -> None:
    bench = opened("/a", "/b")
    bench.store.handle_log_dir_failure(bench.store.log_dirs[1], OSError("gone"))
    bench.create("t", 1, starting=True, directory=b"the disk before.")
    assert bench.partition("t").log is None


def test_a_follower_tells_nobody_of_what_it_found_at_its_start_before_it_is_synced() -> None:
    """Found by the simulator (tiers, seed 3002642): the process before was killed between a write and its
    sync. A leader heard that it was there, and a power cut took it."""
    durable = {"log_flush_interval_messages": "1"}
    before = opened("/a", **durable)
    before.create("t", 1)
    append(before.partition("t"))
    bench = Bench("/a", disk=before.disk.crash(Crash.KILL), **durable)
    bench.open()
    moved = PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=OTHER, isr=[OTHER])
    bench.commit(*new_topic("t", 1), moved, starting=True)
    partition = bench.partition("t")
    log = partition.local_log()
    assert (log.log_end_offset, partition.leader_id) == (1, OTHER)
    assert partition.owes_flush
    assert log in bench.store.to_flush
    flush = log.begin_flush()
    assert flush is not None
    flush.sync()
    log.finish_flush(flush, now_ms=0)
    assert not partition.owes_flush


def led_before(bench: Bench) -> Partition:
    """A partition that the process before led, before this one is registered."""
    bench.commit(*new_topic("t", 1), starting=True, registered=False)
    return bench.partition("t")


def test_an_epoch_of_the_process_before_does_not_begin_again() -> None:
    """Found by the simulator (cluster, seed 1111037): a leader lost its log's end in a power cut, and began
    its epoch anew at a lower offset when it came back. It never found out where it had parted from the next
    leader, who knew that epoch too."""
    bench = opened("/a")
    epochs = led_before(bench).local_log().leader_epoch_cache
    assert epochs.entries() == []
    bench.change(1, leader=OTHER, isr=[OTHER])
    partition = bench.partition("t")
    assert (partition.leader_id, partition.leader_epoch) == (OTHER, 1)
    assert epochs.entries() == []


def test_a_registration_may_leave_a_node_what_it_leads() -> None:
    bench = opened("/a")
    partition = led_before(bench)
    assert not partition.is_leader
    bench.commit()
    assert partition.is_leader
    assert partition.local_log().leader_epoch_cache.entries() == [(0, 0)]
    append(partition)


def test_deleting_a_topic_in_a_directory_that_fails_just_then() -> None:
    bench = opened("/a", "/b")
    bench.create("t", 1, directory=bench.directory_id("/a"))
    bench.disk.faults.concerns = lambda path: path.startswith("/a/")
    bench.disk.faults.name_error_rate = 1.0
    bench.delete(1)
    assert bench.failed == ["/a"]
    assert len(bench.replicas) == 0
    bench.create("t", 2, directory=UNASSIGNED)
    append(bench.partition("t"))
