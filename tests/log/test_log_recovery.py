"""Opening what a crash, a bad disk or an interrupted deletion left."""

import random
import struct
import zlib

import pytest

from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.log.batch_scan import OldFormatError
from headrace.log.checkpoints import encode_epochs
from headrace.log.log_loader import open_log
from tests.log.building import (
    NOW_MS,
    TP,
    append,
    append_marker,
    batch_of,
    offsets_of,
    read_all,
    sequenced,
)

SIZE = len(batch_of())


def damage(disk, path, change):
    data = bytearray(disk.read_file(path))
    change(data)
    disk.replace_file(path, bytes(data))


def flip(at):
    def change(data):
        data[at] ^= 0x10

    return change


def filled(logs, count=20, **settings):
    """Segments of five batches, one record each."""
    log = logs.open(**({"segment_bytes": 5 * SIZE, "index_interval_bytes": 2 * SIZE} | settings))
    for i in range(count):
        append(log, batch_of(timestamp=NOW_MS + i), leader_epoch=i // 8)
    return log


def files_of(logs):
    return {name: logs.disk.read_file(f"{logs.folder}/{name}") for name in logs.names()}


def test_a_clean_stop_needs_no_recovery(logs):
    log = filled(logs)
    seen = []
    reopened = logs.reopen(log, on_progress=seen.append)
    assert seen == []
    assert offsets_of(read_all(reopened)) == list(range(20))
    assert reopened.recovery_point == 20
    assert reopened.leader_epoch_cache.entries() == log.leader_epoch_cache.entries()


def test_a_crash_and_a_clean_stop_leave_the_same_files(logs):
    log = filled(logs)
    for i in range(5):
        append(log, sequenced(7, 0, i), leader_epoch=3)
    log.close().sync()
    clean = files_of(logs)
    for name in clean:
        if name.endswith((".index", ".timeindex", ".snapshot")) or "epoch" in name:
            logs.disk.remove(f"{logs.folder}/{name}")
    logs.open(segment_bytes=5 * SIZE, index_interval_bytes=2 * SIZE).close().sync()
    assert files_of(logs) == clean


def test_progress_is_told(logs):
    filled(logs)
    seen = []
    logs.open(on_progress=seen.append)
    assert [(p.segments_done, p.segments_total, p.bytes_done, p.bytes_cut) for p in seen] == [
        (1, 4, 5 * SIZE, 0),
        (2, 4, 10 * SIZE, 0),
        (3, 4, 15 * SIZE, 0),
        (4, 4, 20 * SIZE, 0),
    ]


def test_only_what_lies_behind_the_recovery_point_is_checked(logs):
    log = filled(logs)
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    seen = []
    logs.open(recovery_point=20, on_progress=seen.append)
    assert [p.segments_total for p in seen] == [1]
    damage(logs.disk, log.segments.first.path, flip(SIZE + 70))
    assert logs.open(recovery_point=20).log_end_offset == 20, "what was made durable is not looked at again"
    assert logs.open(recovery_point=0).log_end_offset == 1


@pytest.mark.parametrize("at", [0, 8, 11, 16, 17, 21, 23, 30, 57, 61, SIZE - 1])
def test_the_log_is_cut_at_the_first_bad_batch(logs, at):
    log = filled(logs)
    path = log.segments[2].path
    damage(logs.disk, path, flip(2 * SIZE + at))
    reopened = logs.open()
    assert reopened.log_end_offset == 12
    assert logs.disk.size(path) == 2 * SIZE
    assert offsets_of(read_all(reopened)) == list(range(12))
    assert reopened.leader_epoch_cache.entries() == [(0, 0), (1, 8)]
    assert append(reopened, batch_of(), leader_epoch=5).first_offset == 12
    assert offsets_of(read_all(logs.reopen(reopened))) == list(range(13))


@pytest.mark.parametrize("size", [0, 1, 11, 12, 60, 61, SIZE - 1])
def test_a_torn_last_batch_is_cut(logs, size):
    log = filled(logs, 7)
    logs.disk.open(log.segments.active.path).truncate(SIZE + size)
    reopened = logs.open()
    assert reopened.log_end_offset == 6
    assert logs.disk.size(reopened.segments.active.path) == SIZE


def test_zeros_at_the_end_are_cut(logs):
    log = filled(logs, 7)
    logs.disk.open(log.segments.active.path).truncate(10 * SIZE)
    assert logs.open().log_end_offset == 7


def test_garbage_at_the_end_is_cut(logs):
    log = filled(logs, 7)
    logs.disk.open(log.segments.active.path).write(2 * SIZE, [random.Random(1).randbytes(1000)])
    assert logs.open().log_end_offset == 7


def test_offsets_that_go_back_are_cut(logs):
    log = filled(logs, 2)
    path = log.segments.active.path
    whole = logs.disk.read_file(path)
    logs.disk.open(path).write(2 * SIZE, [whole[:SIZE]])
    assert logs.open().log_end_offset == 2


def test_an_older_epoch_behind_a_newer_one_is_cut(logs):
    """A truncation that a power cut undid in part."""
    log = logs.open()
    append(log, batch_of(), leader_epoch=5)
    log.append_as_follower(batch_of(base_offset=1, leader_epoch=4), now_ms=NOW_MS)
    assert logs.open().log_end_offset == 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("kind", ["missing", "empty", "cut", "garbage", "other log's"])
def test_broken_indexes_are_made_anew(logs, suffix, kind):
    log = filled(logs, 40, segment_bytes=20 * SIZE)
    logs.reopen(log, segment_bytes=20 * SIZE, index_interval_bytes=2 * SIZE)
    good = {}
    for segment in log.segments:
        path = segment.stem + suffix
        good[path] = data = logs.disk.read_file(path)
        if kind == "missing":
            logs.disk.remove(path)
        elif kind == "empty":
            logs.disk.replace_file(path, b"")
        elif kind == "cut":
            logs.disk.replace_file(path, data[:-5])
        elif kind == "garbage":
            logs.disk.replace_file(path, random.Random(1).randbytes(len(data)))
        else:
            logs.disk.replace_file(path, b"".join(b"\0\0\0\1\0\0\0\7" for _ in range(6)) + b"\0" * 24)
    reopened = logs.open(clean=True, segment_bytes=20 * SIZE, index_interval_bytes=2 * SIZE)
    assert reopened.log_end_offset == 40
    for offset in (39, 0, 20, 7, 33, 19):
        assert read_all(reopened, offset)[0].offset == offset
        found = reopened.offset_for_timestamp(NOW_MS + offset)
        assert kind == "empty" or found.offset == offset
    logs.reopen(reopened)
    if kind in ("missing", "cut"):
        for path, data in good.items():
            assert logs.disk.read_file(path) == data


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "data", [None, b"", b"garbage", b"0\n2\n0 0\n9 5\n", b"0\n1\n0 3\n", b"0\n3\n0 0\n1 9\n2 16\n"]
)
def test_epochs_are_made_anew_from_the_batches(logs, clean, data):
    log = filled(logs)
    logs.reopen(log)
    path = f"{logs.folder}/leader-epoch-checkpoint"
    if data is None:
        logs.disk.remove(path)
    else:
        logs.disk.replace_file(path, data)
    reopened = logs.open(clean=clean)
    assert reopened.leader_epoch_cache.entries() == [(0, 0), (1, 8), (2, 16)]


@pytest.mark.parametrize("synced", [0, 8])
def test_a_file_of_epochs_that_lies_costs_no_record(logs, synced):
    """Found by the simulator (tiers, seed 3003999): a bit of its text had flipped, all of the log seemed to
    be of an epoch that was over, and it was cut."""
    log = logs.open(segment_bytes=4 * SIZE)
    for _ in range(12):
        append(log, batch_of(), leader_epoch=2)
    log.maybe_increment_high_watermark(12)
    log.maybe_increment_log_start_offset(4)
    assert log.delete_old_segments(NOW_MS) == 1
    logs.disk.replace_file(f"{logs.folder}/leader-epoch-checkpoint", encode_epochs([(6, 0)]))
    reopened = logs.open(recovery_point=synced, segment_bytes=4 * SIZE)
    assert reopened.log_end_offset == 12
    assert reopened.leader_epoch_cache.epoch_for_offset(4) == 2


def test_an_epoch_that_begins_inside_of_a_batch_is_a_lie(logs):
    """Found by the simulator (tiers, seed 3006060): copies of before seemed to be another log's there."""
    log = logs.open(segment_bytes=4 * SIZE)
    for epoch in (0, 4, 4, 4, 4):
        append(log, batch_of(2), leader_epoch=epoch)
    logs.disk.replace_file(f"{logs.folder}/leader-epoch-checkpoint", encode_epochs([(0, 0), (4, 3)]))
    assert logs.open(recovery_point=8, segment_bytes=4 * SIZE).leader_epoch_cache.entries() == [
        (0, 0),
        (4, 2),
    ]


def test_the_first_epoch_begins_where_the_log_does(logs):
    """Found by the simulator (tiers, seeds 3016352 and 3016475): a file said that it began inside of the
    first batch, and what was copied to a remote store was not known again there."""
    log = logs.open()
    for epoch in (0, 4):
        append(log, batch_of(5), leader_epoch=epoch)
    logs.disk.replace_file(f"{logs.folder}/leader-epoch-checkpoint", encode_epochs([(0, 4), (4, 5)]))
    assert logs.open(clean=True).leader_epoch_cache.entries() == [(0, 0), (4, 5)]


def test_an_epoch_that_wrote_nothing_is_forgotten(logs):
    log = filled(logs)
    log.leader_epoch_cache.assign(9, 20)
    assert logs.reopen(log).leader_epoch_cache.entries() == [(0, 0), (1, 8), (2, 16)]


@pytest.mark.parametrize("clean", [True, False])
def test_producers_come_back_from_snapshots_and_batches(logs, clean):
    log = logs.open(segment_bytes=5 * SIZE)
    for sequence in range(23):
        append(log, sequenced(7, 0, sequence))
    append(log, sequenced(8, 3, 0, transactional=True))
    if clean:
        log.close().sync()
    reopened = logs.open(clean=clean, segment_bytes=5 * SIZE)
    assert set(reopened.producer_state_manager.producers) == {7, 8}
    assert reopened.producer_state_manager.snapshot() == log.producer_state_manager.snapshot()
    assert reopened.producer_state_manager.first_unstable_offset == 23
    again = append(reopened, sequenced(7, 0, 22))
    assert (again.duplicate, again.first_offset) == (True, 22)
    assert append(reopened, sequenced(7, 0, 23)).first_offset == 24


@pytest.mark.parametrize("damaged", ["latest", "all", "gone"])
def test_broken_snapshots_are_passed_over(logs, damaged):
    log = logs.open(segment_bytes=5 * SIZE)
    for sequence in range(23):
        append(log, sequenced(7, 0, sequence))
    expected = log.producer_state_manager.snapshot()
    log.close().sync()
    names = [name for name in logs.names() if name.endswith(".snapshot")]
    assert len(names) == 5
    for name in names[-1:] if damaged == "latest" else names:
        if damaged == "gone":
            logs.disk.remove(f"{logs.folder}/{name}")
        else:
            damage(logs.disk, f"{logs.folder}/{name}", flip(20))
    assert logs.open(clean=True).producer_state_manager.snapshot() == expected


def test_stray_snapshots_are_removed(logs):
    log = filled(logs)
    logs.reopen(log)
    names = {name for name in logs.names() if name.endswith(".snapshot")}
    assert names == {f"{offset:020}.snapshot" for offset in (5, 10, 15, 20)}
    for offset in (3, 7, 18):
        logs.disk.replace_file(f"{logs.folder}/{offset:020}.snapshot", b"x")
    logs.open(clean=True)
    assert {name for name in logs.names() if name.endswith(".snapshot")} == names


def test_aborted_transactions_are_found_again(logs):
    log = logs.open()
    append(log, sequenced(7, 0, 0, 2, transactional=True))
    log.roll(NOW_MS)
    append_marker(log, 7, 0, commit=False)
    path = f"{log.segments.active.stem}.txnindex"
    good = logs.disk.read_file(path)
    for data in (None, b"", b"garbage", good + good):
        if data is None:
            logs.disk.remove(path)
        else:
            logs.disk.replace_file(path, data)
        reopened = logs.open()
        assert reopened.aborted_transactions(0, 3) == [(7, 0)]
        assert logs.disk.read_file(path) == good


def test_a_log_start_behind_the_end_starts_anew(logs):
    log = filled(logs, 7)
    log.close().sync()
    reopened = logs.open(log_start_offset=100)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (100, 100)
    assert append(reopened, batch_of()).first_offset == 100


def test_the_high_watermark_starts_at_the_logs_start(logs):
    log = filled(logs, 7)
    log.maybe_increment_high_watermark(7)
    log.maybe_increment_log_start_offset(2)
    assert logs.reopen(log).high_watermark == 2


def test_the_topics_id_is_kept(logs):
    topic_id = TopicId(b"0123456789abcdef")

    def opened(wanted):
        return open_log(logs.storage, logs.folder, TP, logs.open().config, now_ms=NOW_MS, topic_id=wanted)

    assert opened(NO_TOPIC_ID).topic_id == NO_TOPIC_ID
    assert opened(topic_id).topic_id == topic_id
    assert opened(TopicId(b"another one 1234")).topic_id == topic_id
    logs.disk.replace_file(f"{logs.folder}/partition.metadata", b"garbage")
    assert opened(NO_TOPIC_ID).topic_id == NO_TOPIC_ID


# -- leftovers -----------------------------------------------------------------------------------------------


def test_deleted_and_unfinished_files_go(logs):
    log = filled(logs)
    logs.reopen(log)
    zero = f"{logs.folder}/{0:020}"
    for name in (
        f"{zero}.log.deleted",
        f"{zero}.index.cleaned",
        f"{zero}.log.cleaned",
        f"{zero}.snapshot.deleted",
    ):
        logs.disk.replace_file(name, b"x")
    logs.disk.replace_file(f"{logs.folder}/{3:020}.index", b"an index without its log")
    reopened = logs.open(clean=True)
    assert offsets_of(read_all(reopened)) == list(range(20))
    assert not [
        name
        for name in logs.names()
        if name.endswith((".deleted", ".cleaned")) or name.startswith(f"{3:020}")
    ]


def swapped(logs, *, cleaned):
    """A compaction of the first two segments that was interrupted while it put its result in place."""
    log = filled(logs)
    logs.reopen(log)
    zero = f"{logs.folder}/{0:020}"
    kept = (
        logs.disk.read_file(f"{zero}.log")[:SIZE]
        + logs.disk.read_file(f"{logs.folder}/{5:020}.log")[4 * SIZE :]
    )
    for suffix in (".log", ".index", ".timeindex"):
        logs.disk.replace_file(f"{zero}{suffix}.swap", kept if suffix == ".log" else b"")
    if cleaned:
        logs.disk.replace_file(f"{zero}.log.cleaned", b"x")
    return logs.open(clean=True)


def test_a_whole_swap_is_finished(logs):
    log = swapped(logs, cleaned=False)
    assert [segment.base_offset for segment in log.segments] == [0, 10, 15]
    assert offsets_of(read_all(log)) == [0, 9, *range(10, 20)]
    assert not [name for name in logs.names() if name.endswith(".swap")]


def test_an_unfinished_swap_is_undone(logs):
    log = swapped(logs, cleaned=True)
    assert offsets_of(read_all(log)) == list(range(20))
    assert not [name for name in logs.names() if name.endswith((".swap", ".cleaned"))]


def test_segments_that_overlap_are_dropped(logs):
    """A roll that a full disk refused may leave an empty segment behind."""
    filled(logs, 7)
    logs.disk.replace_file(f"{logs.folder}/{6:020}.log", b"")
    reopened = logs.open()
    assert reopened.log_end_offset == 7
    assert [segment.base_offset for segment in reopened.segments] == [0, 5]


def test_messages_of_old_formats_are_refused_not_cut(logs):
    logs.disk.make_folder(logs.folder)
    body = struct.pack(">bbqi3si5s", 1, 0, NOW_MS, 3, b"key", 5, b"value")
    message = struct.pack(">I", zlib.crc32(body)) + body
    entry = struct.pack(">qi", 0, len(message)) + message + b"\0" * 40
    logs.disk.replace_file(f"{logs.folder}/{0:020}.log", entry)
    with pytest.raises(OldFormatError, match="format v1"):
        logs.open()
    assert logs.disk.read_file(f"{logs.folder}/{0:020}.log") == entry
