"""What `headrace log dump` shows."""

import pytest

from headrace.base.ids import TopicId, TopicPartition
from headrace.log.dump import (
    CheckpointedOffset,
    DumpedBatch,
    EpochStart,
    IndexEntry,
    PartitionIdentity,
    Problem,
    TimeIndexEntry,
    dump_file,
)
from headrace.log.meta_properties import MetaProperties
from headrace.log.producer_snapshots import ProducerEntry
from headrace.log.transaction_index import AbortedTxn
from headrace.records.batch import ControlType
from tests.log.building import NOW_MS, append, append_marker, batch_of, sequenced

SIZE = len(batch_of())


@pytest.fixture
def folder(logs):
    log = logs.open(index_interval_bytes=SIZE)
    for i in range(5):
        append(log, batch_of(timestamp=NOW_MS + i), leader_epoch=3)
    append(log, sequenced(7, 0, 0, 2, transactional=True, timestamp=NOW_MS), leader_epoch=4)
    append_marker(log, 7, 0, commit=False, leader_epoch=4)
    log.assign_topic_id(TopicId(b"0123456789abcdef"))
    log.close().sync()
    return logs.folder


def dumped(logs, name, **options):
    return list(dump_file(logs.disk, f"{logs.folder}/{name}", **options))


def test_batches(logs, folder):
    found = dumped(logs, f"{0:020}.log")
    assert [(batch.position, batch.header.base_offset) for batch in found][:3] == [
        (0, 0),
        (SIZE, 1),
        (2 * SIZE, 2),
    ]
    assert all(batch.crc_matches and batch.records == () for batch in found)
    assert len(found) == 7


def test_records_and_what_they_mean(logs, folder):
    *_, data, end = dumped(logs, f"{0:020}.log", records=True)
    assert [each.record.offset for each in data.records] == [5, 6]
    assert [each.control_type for each in end.records] == [ControlType.ABORT]
    shown = dumped(logs, f"{0:020}.log", decode=lambda record: record.value.decode().upper())
    assert shown[0].records[0].decoded == "VVVVVVVVVV"


def test_a_record_that_cannot_be_decoded_says_why(logs, folder):
    def decode(record):
        raise ValueError("not one of ours")

    shown = dumped(logs, f"{0:020}.log", decode=decode)
    assert shown[0].records[0].decoded == Problem("not one of ours")


def test_small_files(logs, folder):
    assert dumped(logs, "leader-epoch-checkpoint") == [EpochStart(3, 0), EpochStart(4, 5)]
    assert dumped(logs, "partition.metadata") == [PartitionIdentity(TopicId(b"0123456789abcdef"))]
    assert dumped(logs, f"{0:020}.txnindex") == [AbortedTxn(7, 5, 7, 8)]
    assert dumped(logs, f"{8:020}.snapshot") == [ProducerEntry(7, 0, 1, 6, 1, NOW_MS, 0, -1)]


def test_files_of_a_log_directory(logs, folder):
    logs.disk.replace_file(f"{folder}/recovery-point-offset-checkpoint", b"0\n1\na 0 5\n")
    meta = MetaProperties("c", 1, b"0123456789abcdef")
    logs.disk.replace_file(f"{folder}/meta.properties", meta.encode())
    assert dumped(logs, "recovery-point-offset-checkpoint") == [CheckpointedOffset(TopicPartition("a", 0), 5)]
    assert dumped(logs, "meta.properties") == [meta]


def test_indexes(logs, folder):
    assert dumped(logs, f"{0:020}.index")[:2] == [IndexEntry(2, 2 * SIZE), IndexEntry(4, 4 * SIZE)]
    assert dumped(logs, f"{0:020}.timeindex") == [
        TimeIndexEntry(NOW_MS + 2, 2),
        TimeIndexEntry(NOW_MS + 4, 4),
    ]


@pytest.mark.parametrize(
    ("name", "at", "said"),
    [
        (".log", 3 * SIZE + 70, "CRC of the batch at byte"),
        (".log", 3 * SIZE + 16, "magic"),
        (".log", 3 * SIZE + 7, "follows"),
        (".index", 3, "leads to the batch"),
        (".index", 0, "rise over"),
        (".timeindex", 7, "the largest timestamp up to there"),
    ],
)
def test_problems_are_told(logs, folder, name, at, said):
    path = f"{folder}/{0:020}{name}"
    data = bytearray(logs.disk.read_file(path))
    data[at] ^= 3
    logs.disk.replace_file(path, bytes(data))
    problems = [each.text for each in dumped(logs, f"{0:020}{name}") if isinstance(each, Problem)]
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_cut_files_are_told(logs, folder, suffix):
    path = f"{folder}/{0:020}{suffix}"
    logs.disk.open(path).truncate(logs.disk.size(path) - 1)
    found = dumped(logs, f"{0:020}{suffix}")
    assert isinstance(found[-1], Problem) or isinstance(found[0], Problem)


def test_an_index_without_its_log_is_shown_all_the_same(logs, folder):
    logs.disk.remove(f"{folder}/{0:020}.log")
    assert not [each for each in dumped(logs, f"{0:020}.index") if isinstance(each, Problem)]
    assert not [each for each in dumped(logs, f"{0:020}.timeindex") if isinstance(each, Problem)]


def test_room_that_kafka_reserved_is_no_problem(logs, folder):
    for suffix, entry in ((".index", 8), (".timeindex", 12)):
        path = f"{folder}/{0:020}{suffix}"
        logs.disk.replace_file(path, logs.disk.read_file(path) + bytes(10 * entry))
        assert not [each for each in dumped(logs, f"{0:020}{suffix}") if isinstance(each, Problem)]


def test_a_name_that_says_nothing_is_refused(logs, folder):
    logs.disk.replace_file(f"{folder}/notes.txt", b"x")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        dumped(logs, "notes.txt")


def test_metadata_snapshots_are_batches_too(logs, folder):
    data = logs.disk.read_file(f"{folder}/{0:020}.log")
    logs.disk.replace_file(f"{folder}/{8:020}-0000000001.checkpoint", data)
    assert all(isinstance(each, DumpedBatch) for each in dumped(logs, f"{8:020}-0000000001.checkpoint"))
