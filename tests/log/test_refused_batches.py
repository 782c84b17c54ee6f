"""What is on the wire behind a batch that was refused: answered like it, until it comes again."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.log.append import AppendOrigin
from headrace.log.producer_state_manager import BEHIND_MAX, PRODUCERS_MAX, RefusedBatches
from headrace.records.batch import read_header
from headrace.testing.disk import VirtualDisk
from tests.log.building import NOW_MS, LogBuilder, append, sequenced
from tests.replication.building import NODE, OTHER, image, lone_partition


@pytest.fixture
def disk() -> VirtualDisk:
    disk = VirtualDisk()
    disk.make_folder("/data")
    return disk


def code_of(act, *args, **kwargs) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        act(*args, **kwargs)
    return raised.value.code


@pytest.mark.parametrize("is_known", [True, False])
def test_what_comes_behind_a_full_disk_is_no_gap(disk: VirtualDisk, is_known: bool) -> None:
    log = LogBuilder(disk, "/data").open()
    first = 0
    if is_known:
        append(log, sequenced(7, 0, 0))
        first = 1
    disk.faults.is_full = True
    assert code_of(append, log, sequenced(7, 0, first, 3)) is ErrorCode.KAFKA_STORAGE_ERROR
    disk.faults.is_full = False
    for behind in (first + 3, first + 4):
        assert code_of(append, log, sequenced(7, 0, behind)) is ErrorCode.KAFKA_STORAGE_ERROR
    append(log, sequenced(8, 0, 5))  # another producer has nothing to do with it
    for sequence, count in ((first, 3), (first + 3, 1), (first + 4, 1)):
        append(log, sequenced(7, 0, sequence, count))
    assert log.log_end_offset == first + 6
    assert code_of(append, log, sequenced(7, 0, first + 9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_comes_behind_missing_replicas_is_no_gap() -> None:
    partition, _ = lone_partition(min_insync_replicas="2")

    def send(sequence: int) -> None:
        partition_append(partition, sequenced(7, 0, sequence))

    assert code_of(send, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.follow_metadata(image(NODE, replicas=(NODE, OTHER)))
    assert code_of(send, 0) is ErrorCode.NOT_ENOUGH_REPLICAS
    partition.follow_metadata(image(NODE, OTHER))
    assert code_of(send, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    send(0)
    send(1)
    assert partition.local_log().log_end_offset == 2


def partition_append(partition, batch) -> None:
    partition.append(batch, now_ms=NOW_MS, origin=AppendOrigin.CLIENT, acks=-1, api_version=13)


def test_who_gave_the_first_one_up_hears_of_the_gap() -> None:
    refusals = RefusedBatches()
    refusals.note(read_header(sequenced(7, 0, 5)), ErrorCode.NOT_ENOUGH_REPLICAS)
    refusals.note(read_header(sequenced(7, 0, 6)), ErrorCode.NOT_ENOUGH_REPLICAS)
    late = read_header(sequenced(7, 0, 6))
    for _ in range(BEHIND_MAX):
        assert code_of(refusals.hold_back, late) is ErrorCode.NOT_ENOUGH_REPLICAS
    refusals.hold_back(late)
    refusals.note(read_header(sequenced(7, 0, 5)), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert code_of(refusals.hold_back, late) is ErrorCode.NOT_ENOUGH_REPLICAS
    refusals.hold_back(read_header(sequenced(7, 1, 3)))  # a new epoch has its own numbers
    refusals.forget(7)
    refusals.hold_back(late)


def test_only_so_many_are_remembered_and_only_what_passes() -> None:
    refusals = RefusedBatches()
    refusals.note(read_header(sequenced(7, 0, 5)), ErrorCode.MESSAGE_TOO_LARGE)
    assert not refusals
    for producer_id in range(PRODUCERS_MAX + 1):
        refusals.note(read_header(sequenced(producer_id, 0, 5)), ErrorCode.KAFKA_STORAGE_ERROR)
    refusals.hold_back(read_header(sequenced(0, 0, 6)))
    assert code_of(refusals.hold_back, read_header(sequenced(1, 0, 6))) is ErrorCode.KAFKA_STORAGE_ERROR
