"""A metadata log that has lost what was committed, or the vote, is told from a new and from a torn one."""

import random

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.raft.committed_mark import COMMITTED, check_folder, read_committed, write_committed
from headrace.raft.metadata_log import MetadataLog, log_settings
from headrace.raft.quorum_state import FILE_NAME
from headrace.raft.voters import Voter, VoterSet
from headrace.testing.disk import VirtualDisk

ALONE = VoterSet([Voter(1, b"1" * 16, {})])
THREE = VoterSet([Voter(number, bytes(16), {}) for number in (1, 2, 3)])


@pytest.fixture
def log() -> MetadataLog:
    settings = log_settings(segment_bytes=1 << 20, segment_ms=1 << 40)
    return MetadataLog.open(VirtualDisk(), "/data", settings, rng=random.Random(1), now_ms=0)


def test_a_new_folder_is_whole(log: MetadataLog) -> None:
    check_folder(log, ALONE, 1)
    check_folder(log, THREE, 1)


def test_a_single_controller_that_lost_committed_records_does_not_start(log: MetadataLog) -> None:
    write_committed(log.disk, log.folder, 7)
    with pytest.raises(InvalidBytesError, match=r"ends at offset 0, and had committed records up to 7.*copy"):
        check_folder(log, ALONE, 1)


def test_others_have_what_one_of_three_lost(log: MetadataLog, caplog: pytest.LogCaptureFixture) -> None:
    write_committed(log.disk, log.folder, 7)
    log.disk.replace_file(f"{log.folder}/{FILE_NAME}", b"{}")
    check_folder(log, THREE, 1)
    assert "had committed records up to 7: they are fetched" in caplog.text


def test_a_vote_that_is_gone(log: MetadataLog, caplog: pytest.LogCaptureFixture) -> None:
    write_committed(log.disk, log.folder, 7)
    log.log.truncate_fully_and_start_at(7, now_ms=0)
    check_folder(log, ALONE, 1)
    check_folder(log, THREE, 4)  # no voter
    assert caplog.text.count("quorum-state is missing") == 2
    with pytest.raises(InvalidBytesError, match=r"quorum-state is missing.*format this node anew"):
        check_folder(log, THREE, 1)


def test_a_damaged_mark_is_told(log: MetadataLog, caplog: pytest.LogCaptureFixture) -> None:
    write_committed(log.disk, log.folder, 17)
    assert read_committed(log.disk, log.folder) == 17
    path = f"{log.folder}/{COMMITTED}"
    log.disk.replace_file(path, log.disk.read_file(path).replace(b"17", b"97"))
    assert read_committed(log.disk, log.folder) == 0
    assert f"{path} is damaged" in caplog.text


def test_a_damaged_snapshot_is_named(log: MetadataLog, caplog: pytest.LogCaptureFixture) -> None:
    path = f"{log.folder}/{7:020}-{2:010}.checkpoint"
    log.disk.replace_file(path, b"no batch")
    settings = log_settings(segment_bytes=1 << 20, segment_ms=1 << 40)
    MetadataLog.open(log.disk, "/data", settings, rng=random.Random(1), now_ms=0)
    assert f"{path} is damaged" in caplog.text
