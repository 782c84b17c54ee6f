"""Killed, or cut from power, at every disk operation of a round: the log is the old one or the new one, and
goes on from there."""

import copy
import random

import pytest

from headrace.log.file_names import CLEANED, DELETED, SWAP
from headrace.testing.disk import Crash, VirtualDisk
from headrace.testing.disk_faults import ProcessEndedError
from tests.log.building import NOW_MS, LogBuilder
from tests.log.compaction.keyed_log import SETTINGS, KeyedLog, clean_log, committed

LATER_MS = NOW_MS + 5_000
# The first round of a log; one that drops delete markers and transaction markers of the first; and one that
# makes one segment out of several.
ROUNDS = ("first", "second", "merging")


def prepare(which, seed):
    """A log that is durable as far as it was written, before its round."""
    disk = VirtualDisk(rng=random.Random(seed))
    disk.make_folder("/data")
    disk.sync_folder("/")
    logs = LogBuilder(disk, "/data")
    segment_bytes = 50_000 if which == "merging" else 900
    settings = {**SETTINGS, "segment_bytes": segment_bytes, "delete_retention_ms": 1_000}
    writer = KeyedLog(logs.open(**settings), seed, keys=4)
    for _ in range(4):
        writer.write(3)
        if which == "merging":
            writer.log.roll(NOW_MS)
    writer.end_all()
    if which == "second":
        clean_log(writer.log)
        writer.write(6)
        writer.end_all()
    writer.log.roll(NOW_MS)
    flush = writer.log.close()
    flush.sync()
    writer.log.finish_flush(flush, now_ms=NOW_MS)
    return disk, logs, writer, settings


def operations_of(which, seed):
    disk, _, writer, _ = prepare(which, seed)
    before = disk.faults.operations
    clean_log(writer.log, now_ms=LATER_MS)
    return disk.faults.operations - before


def open_again(disk, logs, settings, point):
    logs.disk = disk
    logs.storage = type(logs.storage)(disk)
    log = logs.open(**settings, recovery_point=point)
    log.maybe_increment_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize("how", list(Crash))
@pytest.mark.parametrize("which", ROUNDS)
def test_a_round_is_ended_at_every_step(which, how):
    seed = 4
    total = operations_of(which, seed)
    assert total > 20
    kept_old = took_new = 0
    for step in range(total):
        disk, logs, writer, settings = prepare(which, seed)
        end, point = writer.log.log_end_offset, writer.log.recovery_point
        before = list(committed(writer.log))
        after = []
        disk.rng.seed(step)  # what a power cut leaves
        disk.faults.stop_after(step, lambda disk=disk, after=after: after.append(disk.crash(how)))
        with pytest.raises(ProcessEndedError):
            clean_log(writer.log, now_ms=LATER_MS)
        log = open_again(after[0], logs, settings, point)
        assert log.log_end_offset == end
        writer.check(log)
        assert not [name for name in logs.names() if name.endswith((CLEANED, SWAP, DELETED))]
        found = list(committed(log))
        assert set(found) <= set(before)
        kept_old += len(found) == len(before)
        took_new += len(found) < len(before)
        # The round that was interrupted is done again, from where the last one ended.
        clean_log(log, now_ms=LATER_MS)
        writer.check(log)
    assert kept_old
    assert took_new


def interrupted(step, how):
    """The disk of a process that ended at this step of a round, and what was written there."""
    disk, logs, writer, settings = prepare("merging", 4)
    after = []
    disk.faults.stop_after(step, lambda: after.append(disk.crash(how)))
    with pytest.raises(ProcessEndedError):
        clean_log(writer.log, now_ms=LATER_MS)
    return after[0], logs, writer, settings


@pytest.mark.parametrize("how", list(Crash))
def test_the_recovery_of_a_swap_is_ended_at_every_step(how):
    """A crash while the leftovers of a crash are settled."""
    ended = 0
    for step in range(0, operations_of("merging", 4), 5):
        left, logs, writer, settings = interrupted(step, how)
        if not [name for name in left.list(logs.folder) if name.endswith((CLEANED, SWAP))]:
            continue  # there is nothing to settle
        point, inner = writer.log.recovery_point, 0
        while True:
            disk, again = copy.deepcopy(left), []
            disk.faults.stop_after(inner, lambda disk=disk, again=again: again.append(disk.crash(how)))
            try:
                open_again(disk, logs, settings, point)
                break
            except ProcessEndedError:
                log = open_again(again[0], logs, settings, point)
            assert log.log_end_offset == writer.log.log_end_offset
            writer.check(log)
            inner += 1
            ended += 1
    assert ended > 20
