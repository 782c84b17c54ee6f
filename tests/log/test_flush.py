"""The recovery point, and what is owed to it."""

from tests.log.building import NOW_MS, append, batch_of


def flushed(log):
    flush = log.begin_flush()
    if flush is not None:
        flush.sync()
        log.finish_flush(flush, now_ms=NOW_MS)
    return flush


def test_the_recovery_point_follows_a_finished_flush(logs):
    log = logs.open()
    append(log, batch_of(3))
    flush = log.begin_flush()
    append(log, batch_of(3))
    flush.sync()
    assert log.recovery_point == 0
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 3
    flushed(log)
    assert log.recovery_point == 6
    assert log.begin_flush() is None


def test_a_roll_asks_for_a_flush(logs):
    log = logs.open()
    append(log, batch_of())
    flushed(log)
    assert logs.storage.to_flush == {}
    append(log, batch_of())
    log.roll(NOW_MS)
    assert list(logs.storage.to_flush) == [log]
    flush = flushed(log)
    assert len(flush.files) == 2
    assert {path.rpartition(".")[2] for path in flush.paths} >= {"index", "snapshot", "timeindex"}
    assert log.folder in flush.folders
    assert logs.storage.to_flush == {}
    assert log.recovery_point == 2


def test_flush_settings(logs):
    log = logs.open(flush_messages=3, flush_ms=1000)
    assert not log.flush_due(NOW_MS + 5000)
    append(log, batch_of(2))
    assert not log.flush_due(NOW_MS + 999)
    assert log.flush_due(NOW_MS + 1000)
    append(log, batch_of())
    assert log.flush_due(NOW_MS)
    flushed(log)
    assert not log.flush_due(NOW_MS + 5000)


def test_epochs_are_written_with_the_flush(logs):
    log = logs.open()
    path = f"{log.folder}/leader-epoch-checkpoint"
    append(log, batch_of(), leader_epoch=3)
    assert not logs.disk.exists(path)
    flushed(log)
    assert logs.disk.read_file(path) == b"0\n1\n3 0\n"
    log.leader_epoch_cache.assign(4, 1)
    flushed(log)
    assert logs.disk.read_file(path) == b"0\n2\n3 0\n4 1\n"


def test_what_a_failed_flush_owed_is_owed_still(logs):
    log = logs.open()
    append(log, batch_of())
    log.roll(NOW_MS)
    flush = log.begin_flush()
    log.abandon_flush(flush, OSError(5, "broken"))
    assert log.failure is not None
    assert log.unsynced.files == flush.paths
    assert logs.failures


def test_of_two_flushes_the_faster_does_not_vouch_for_the_slower(logs):
    log = logs.open()
    append(log, batch_of(), leader_epoch=1)
    log.roll(NOW_MS)
    slow = log.begin_flush()
    append(log, batch_of(), leader_epoch=2)
    fast = log.begin_flush()
    assert fast.paths.items() >= slow.paths.items()
    assert fast.epochs is not None
    fast.sync()
    log.finish_flush(fast, now_ms=NOW_MS)
    slow.sync()
    log.finish_flush(slow, now_ms=NOW_MS)
    assert log.recovery_point == 2
    assert flushed(log).epochs[1] == b"0\n2\n1 0\n2 1\n", "the slow one has written an older table"
    assert log.begin_flush() is None


def test_what_is_owed_again_stays_owed(logs):
    log = logs.open()
    append(log, batch_of())
    log.roll(NOW_MS)
    flush = log.begin_flush()
    path = next(iter(flush.paths))
    log.unsynced.note_files(path)
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert list(log.unsynced.files) == [path]


def test_files_that_vanished_meanwhile_are_no_failure(logs):
    log = logs.open(retention_ms=0)
    append(log, batch_of())
    log.maybe_increment_high_watermark(1)
    log.roll(NOW_MS)
    flush = log.begin_flush()
    log.delete_old_segments(NOW_MS + 10)
    for path in logs.storage.removals.take_due(NOW_MS + 10**9):
        logs.disk.remove(path)
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    assert log.recovery_point == 1
