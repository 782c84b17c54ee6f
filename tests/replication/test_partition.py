"""A partition: who may write, who may read how far, and what changes with leaders and epochs."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_TOPIC_ID, TopicPartition
from headrace.replication.partition import READ_COMMITTED, Partition
from tests.replication.building import NODE, OTHER, append, image, lone_partition


def code_of(refusal: "pytest.ExceptionInfo[ApiError]") -> ErrorCode:
    return refusal.value.code


def test_nobody_writes_before_the_metadata_says_who_leads() -> None:
    partition, _ = lone_partition()
    with pytest.raises(ApiError) as refused:
        append(partition)
    assert code_of(refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.is_leader


def test_alone_in_sync_the_high_watermark_is_the_end() -> None:
    partition, bench = lone_partition()
    assert partition.follow_metadata(image(NODE))
    assert append(partition, 3) == 0
    assert partition.local_log().high_watermark == 3
    assert partition.replicated_to(3)
    assert not partition.replicated_to(4)
    assert partition.end_for_consumer(0) == partition.end_for_consumer(READ_COMMITTED) == 3
    assert bench.advanced[-1] == TopicPartition("t", 0)


def test_another_in_sync_replica_holds_the_high_watermark_back() -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE))
    append(partition, 2)
    partition.follow_metadata(image(NODE, OTHER))
    append(partition, 2)
    log = partition.local_log()
    assert (log.high_watermark, log.log_end_offset, partition.in_sync_count) == (2, 4, 2)
    partition.follow_metadata(image(NODE))
    assert log.high_watermark == 4


def test_the_high_watermark_never_goes_back() -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE))
    append(partition, 5)
    for change in (
        image(NODE, OTHER),
        image(NODE, OTHER, leader=OTHER, epoch=1),
        image(NODE, OTHER, epoch=2),
    ):
        partition.follow_metadata(change)
        assert partition.local_log().high_watermark == 5


@pytest.mark.parametrize(
    ("replicas", "in_sync", "minimum", "acks", "refused"),
    [
        ((NODE, OTHER), (NODE,), "2", -1, True),
        ((NODE, OTHER), (NODE,), "2", 1, False),
        ((NODE, OTHER), (NODE, OTHER), "2", -1, False),
        ((NODE, OTHER), (NODE, OTHER), "3", -1, False),  # more than there are cannot be asked for
        ((NODE, OTHER, 3), (NODE, OTHER), "3", -1, True),
        ((NODE,), (NODE,), "2", -1, False),
    ],
)
def test_enough_must_be_in_sync(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], minimum: str, acks: int, refused: bool
) -> None:
    partition, _ = lone_partition(min_insync_replicas=minimum)
    partition.follow_metadata(image(*in_sync, replicas=replicas))
    if not refused:
        append(partition, acks=acks)
        return
    with pytest.raises(ApiError) as refusal:
        append(partition, acks=acks)
    assert code_of(refusal) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.local_log().log_end_offset == 0


# --- epochs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, None),
        (-2, None),
        (4, None),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_requests_that_know_another_leader_are_refused(epoch: int, expected: ErrorCode | None) -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE, epoch=4))
    if expected is None:
        assert partition.leading_log(epoch) is partition.log
        return
    with pytest.raises(ApiError) as refused:
        partition.leading_log(epoch)
    assert code_of(refused) is expected


def test_a_new_epoch_begins_at_the_logs_end() -> None:
    partition, _ = lone_partition()
    assert partition.follow_metadata(image(NODE, epoch=0))
    append(partition, 3)
    assert not partition.follow_metadata(image(NODE, OTHER, epoch=0))
    assert partition.follow_metadata(image(NODE, epoch=2))
    append(partition, 1)
    assert not partition.follow_metadata(image(NODE, epoch=3, leader=OTHER))
    assert partition.follow_metadata(image(NODE, epoch=4))
    assert partition.local_log().leader_epoch_cache.entries() == [(0, 0), (2, 3), (4, 4)]


def test_an_epoch_that_is_over_cannot_write_nor_rewrite_history() -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE, epoch=5))
    append(partition, 3)
    again = Partition(
        TopicPartition("t", 0), NO_TOPIC_ID, partition.log, node_id=NODE, on_advance=lambda _: None
    )
    again.follow_metadata(image(NODE, epoch=4))
    with pytest.raises(ApiError) as refused:
        append(again)
    assert code_of(refused) is ErrorCode.FENCED_LEADER_EPOCH
    assert again.local_log().leader_epoch_cache.entries() == [(5, 0)]


def test_a_replica_that_follows_refuses_readers_and_writers() -> None:
    partition, bench = lone_partition()
    partition.follow_metadata(image(NODE))
    bench.advanced.clear()
    partition.follow_metadata(image(NODE, OTHER, leader=OTHER, epoch=1))
    assert bench.advanced == [TopicPartition("t", 0)]  # who waits is told
    for act in (lambda: append(partition), partition.leading_log, lambda: partition.delete_records(0)):
        with pytest.raises(ApiError) as refused:
            act()
        assert code_of(refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- deleting records -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "start"), [(0, 0), (3, 3), (-1, 4), (4, 4)])
def test_records_are_deleted_up_to_the_high_watermark(offset: int, start: int) -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE))
    append(partition, 4)
    partition.follow_metadata(image(NODE, OTHER))
    append(partition, 2)
    assert partition.delete_records(offset) == start
    assert partition.local_log().log_start_offset == start


@pytest.mark.parametrize("offset", [5, 6, 7, -2])
def test_what_is_not_replicated_is_not_deleted(offset: int) -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE))
    append(partition, 4)
    partition.follow_metadata(image(NODE, OTHER))
    append(partition, 2)
    with pytest.raises(ApiError) as refused:
        partition.delete_records(offset)
    assert code_of(refused) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.local_log().log_start_offset == 0


# --- disks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leader", [NODE, OTHER])
def test_a_failed_disk_is_told_before_who_leads(leader: int) -> None:
    partition, bench = lone_partition()
    partition.follow_metadata(image(NODE))
    bench.store.handle_log_dir_failure(bench.store.log_dirs[0], OSError("gone"))
    partition.follow_metadata(image(NODE, leader=leader, epoch=1))
    for act in (lambda: append(partition), partition.leading_log, partition.local_log):
        with pytest.raises(ApiError) as refused:
            act()
        assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_without_a_log_is_a_storage_error() -> None:
    partition = Partition(TopicPartition("t", 0), NO_TOPIC_ID, None, node_id=NODE, on_advance=lambda _: None)
    partition.follow_metadata(image(NODE))
    with pytest.raises(ApiError) as refused:
        partition.leading_log()
    assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not partition.replicated_to(0)
    assert not partition.must_flush(0)


@pytest.mark.parametrize(("messages", "appended", "due"), [("1", 1, True), ("3", 2, False), ("3", 3, True)])
def test_flush_messages(messages: str, appended: int, due: bool) -> None:
    partition, _ = lone_partition(log_flush_interval_messages=messages)
    partition.follow_metadata(image(NODE))
    append(partition, appended)
    assert partition.must_flush(0) is due


def test_until_what_was_there_before_is_durable_nobody_knows_the_end() -> None:
    """A leader without followers that begins anew, and lets nobody read what is not synced yet."""
    partition, _ = lone_partition(log_flush_interval_messages="1")
    partition.follow_metadata(image(NODE, replicas=(NODE,)))
    append(partition, 3)
    partition.follow_metadata(image(NODE, epoch=1, replicas=(NODE,)))
    log = partition.local_log()
    assert log.high_watermark == 0
    assert partition.is_catching_up
    flush = log.begin_flush()
    assert flush is not None
    flush.sync()
    log.finish_flush(flush, now_ms=0)
    partition.durable()
    assert log.high_watermark == 3
    assert not partition.is_catching_up


def test_by_default_nobody_waits_for_the_disk() -> None:
    partition, _ = lone_partition()
    partition.follow_metadata(image(NODE))
    append(partition, 1000)
    assert not partition.must_flush(10**15)
