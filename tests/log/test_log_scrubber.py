"""Batches that were damaged at rest are found, told, and fetched again where there is another replica."""

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.log_scrubber import SLICE_BATCHES, SLICE_LOGS, begin_scrub
from tests.log.building import NOW_MS, LogBuilder, append, batch_of


@pytest.fixture
def folder(logs, root):
    found = LogDirectory(root, logs.storage)
    log = logs.open()
    for _ in range(3):
        append(log, batch_of(4))
        append(log, batch_of(4))
        log.roll(NOW_MS)
    append(log, batch_of(4))
    found.logs[log.topic_partition] = log
    return found


def scrub(folder):
    work = begin_scrub(folder)
    rounds = 0
    while not work.is_over:
        work.run()
        work.finish()
        rounds += 1
    return rounds


def flip(disk, path, at):
    data = bytearray(disk.read_file(path))
    data[at] ^= 4
    disk.open(path).write(0, (bytes(data),))


def test_nothing_is_said_of_what_is_whole(folder, caplog):
    assert scrub(folder) == 1
    assert "damaged" not in caplog.text


@pytest.mark.parametrize("number", [1, 3])
def test_a_batch_whose_bytes_changed_is_told(folder, disk, caplog, number):
    (log,) = folder.logs.values()
    noted = []
    log.storage.on_missing = noted.append
    segment = log.segments[number]
    flip(disk, segment.path, segment.size - 3)
    scrub(folder)
    first = 12 if number == 1 else 24
    assert f"records from offset {first} to {first + 3} are damaged" in caplog.text
    assert segment.path in caplog.text
    assert log.missing_from == first
    assert noted == [log]


def test_a_batch_that_leads_nowhere_is_told_with_all_behind_it(folder, disk, caplog):
    (log,) = folder.logs.values()
    flip(disk, log.segments[1].path, 8)  # the length of its first batch
    scrub(folder)
    assert "records from offset 8 to 15 are damaged" in caplog.text


def test_what_left_the_log_meanwhile_is_no_damage(folder, disk, caplog):
    (log,) = folder.logs.values()
    flip(disk, log.segments[1].path, 70)
    work = begin_scrub(folder)
    work.run()
    log.truncate_to(3, now_ms=NOW_MS)
    work.finish()
    assert "damaged" not in caplog.text


def test_small_batches_are_read_a_few_at_a_time(folder):
    (log,) = folder.logs.values()
    for _ in range(2 * SLICE_BATCHES):
        append(log, batch_of(1))
    assert scrub(folder) == 3


def test_of_many_logs_a_few_are_looked_at_in_a_turn(root, folder, disk, caplog):
    (log,) = folder.logs.values()
    empty = LogBuilder(disk, f"{root}/other").open()
    folder.logs = dict.fromkeys(range(SLICE_LOGS), empty) | {"last": log}
    flip(disk, log.segments[1].path, log.segments[1].size - 3)
    assert not begin_scrub(folder).left
    scrub(folder)
    assert "records from offset 12 to 15 are damaged" in caplog.text
