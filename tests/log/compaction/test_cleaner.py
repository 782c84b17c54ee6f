"""Compaction of one log: what stays, what goes, and when."""

from dataclasses import replace

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.log.compaction.cleaned_segment import SLICE, ActiveProducers, LastRecords
from headrace.log.compaction.cleaner import Cleaner, CleanerLimits, next_piece
from headrace.log.compaction.log_to_clean import filthiest_first, log_to_clean, worth_cleaning
from headrace.log.producer_state_manager import BatchMetadata, ProducerStateEntry
from headrace.records.batch import Record, build_batch
from headrace.records.compaction.offset_map import RUN_BYTES, OffsetMap
from headrace.settings.definition import LONG_MAX
from headrace.testing.disk import VirtualDisk
from tests.log.building import (
    NOW_MS,
    LogBuilder,
    append,
    append_marker,
    batch_of,
    offsets_of,
    read_all,
    sequenced,
)
from tests.log.compaction.keyed_log import (
    COMPACT,
    SETTINGS,
    KeyedLog,
    chunks,
    clean_log,
    committed,
    follower_of,
)

DAY_MS = 86_400_000


def put(log, *pairs, now_ms=NOW_MS, codec=0, **fields):
    rows = [Record(0, now_ms, key, value) for key, value in pairs]
    result = append(log, build_batch(rows, codec=codec, **fields), now_ms=now_ms)
    log.maybe_increment_high_watermark(log.log_end_offset)
    return result


def keyed(log):
    return [(record.offset, record.key, record.value) for record in read_all(log)]


@pytest.fixture
def log(logs):
    return logs.open(**SETTINGS)


@pytest.mark.parametrize("codec", range(5))
def test_the_last_value_of_each_key_stays(log, codec):
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec=codec)
    put(log, (b"b", b"2"), codec=codec)
    log.roll(NOW_MS)
    put(log, (b"a", b"3"), codec=codec)
    done = clean_log(log)
    assert keyed(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"a", b"3")]
    assert (done.records_read, done.records_kept, done.keys) == (4, 2, 2)
    assert log.cleaner_checkpoint == 4
    headers = [header for header, _ in chunks(log)]
    assert [(h.base_offset, h.last_offset, h.record_count, h.codec) for h in headers] == [
        (0, 2, 1, codec),
        (3, 3, 1, codec),
        (4, 4, 1, codec),
    ]


def test_the_active_segment_is_never_touched(log):
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    assert log_to_clean(log, NOW_MS).cleanable_bytes == 0
    assert worth_cleaning(log, NOW_MS) is None


def test_nothing_behind_the_high_watermark_or_an_open_transaction(logs):
    log = logs.open(**SETTINGS)
    put(log, (b"k0", b"1"))
    log.roll(NOW_MS)
    append(log, sequenced(7, 0, 0, transactional=True))
    log.roll(NOW_MS)
    append(log, batch_of())
    log.roll(NOW_MS)
    assert log_to_clean(log, NOW_MS).first_uncleanable_offset == 1  # the high watermark
    log.maybe_increment_high_watermark(log.log_end_offset)
    assert log_to_clean(log, NOW_MS).first_uncleanable_offset == 1  # the transaction
    append_marker(log, 7, 0, commit=True)
    log.maybe_increment_high_watermark(log.log_end_offset)
    assert log_to_clean(log, NOW_MS).first_uncleanable_offset == 3


def test_young_records_are_left_alone_and_old_ones_are_not(logs):
    log = logs.open(**SETTINGS, min_compaction_lag_ms=1000, max_compaction_lag_ms=5000)
    put(log, (b"a", b"1"), now_ms=NOW_MS)
    log.roll(NOW_MS)
    put(log, (b"a", b"2"), now_ms=NOW_MS + 600)
    log.roll(NOW_MS)
    put(log, (b"a", b"3"), now_ms=NOW_MS + 700)
    assert log_to_clean(log, NOW_MS + 999).first_uncleanable_offset == 0
    assert log_to_clean(log, NOW_MS + 1100).first_uncleanable_offset == 1
    assert log_to_clean(log, NOW_MS + 2000).first_uncleanable_offset == 2
    log.cleaner_checkpoint = 1
    assert (
        log_to_clean(log, NOW_MS + 5000).need_compaction_now,
        log_to_clean(log, NOW_MS + 5601).need_compaction_now,
    ) == (False, True)


def test_a_log_is_worth_a_round_if_it_is_dirty_enough(logs):
    log = logs.open(**SETTINGS, min_cleanable_dirty_ratio=0.5)
    for number in range(4):
        put(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    found = worth_cleaning(log, NOW_MS)
    assert (found.first_dirty_offset, found.first_uncleanable_offset, found.cleanable_ratio) == (0, 4, 1.0)
    log.cleaner_checkpoint = 2
    assert log_to_clean(log, NOW_MS).cleanable_ratio == 0.5
    assert worth_cleaning(log, NOW_MS) is None
    log.cleaner_checkpoint = 1
    less_dirty = worth_cleaning(log, NOW_MS)
    assert less_dirty.first_dirty_offset == 1
    assert filthiest_first([less_dirty, found]) == [found, less_dirty]


def test_tombstones_stay_for_delete_retention_and_not_longer(logs):
    log = logs.open(**SETTINGS, delete_retention_ms=DAY_MS)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"b", b"2"))
    log.roll(NOW_MS)
    clean_log(log, now_ms=NOW_MS + 10)
    assert keyed(log) == [(2, b"a", None), (3, b"b", b"2")]
    (header, _) = next(chunks(log))
    assert header.delete_horizon_ms == NOW_MS + 10 + DAY_MS
    assert [record.timestamp for record in read_all(log)] == [NOW_MS, NOW_MS]
    assert header.max_timestamp == NOW_MS
    log.cleaner_checkpoint = None
    clean_log(log, now_ms=NOW_MS + 9 + DAY_MS)
    assert keyed(log) == [(2, b"a", None), (3, b"b", b"2")]
    log.cleaner_checkpoint = None
    clean_log(log, now_ms=NOW_MS + 10 + DAY_MS)
    assert keyed(log) == [(3, b"b", b"2")]


@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize("retention_ms", [LONG_MAX, LONG_MAX - NOW_MS])
def test_delete_markers_may_stay_for_ever(logs, codec, retention_ms):
    settings = {**SETTINGS, "delete_retention_ms": retention_ms}
    log = logs.open(**settings)
    put(log, (b"a", b"1"), (b"b", b"1"), codec=codec)
    append(log, sequenced(7, 0, 0, transactional=True))
    append_marker(log, 7, 0, commit=True)
    append(log, sequenced(7, 0, 1))
    put(log, (b"a", None), (b"b", b"2"), codec=codec)
    put(log, (b"c", None), now_ms=-1, codec=codec)
    log.roll(NOW_MS)
    for number in range(4):
        log.cleaner_checkpoint = None
        assert clean_log(log, now_ms=NOW_MS + number * 10**6 * DAY_MS).is_whole
    log = logs.reopen(log, **settings)
    log.maybe_increment_high_watermark(log.log_end_offset)
    found = [(record.key, record.value, record.timestamp) for record in committed(log)][-3:]
    assert found == [(b"a", None, NOW_MS), (b"b", b"2", NOW_MS), (b"c", None, -1)]
    assert [h.is_control for h, _ in chunks(log) if h.delete_horizon_ms is not None] == [True, False, False]


def test_a_producers_last_batch_stays_without_records(logs):
    log = logs.open(**SETTINGS)
    append(log, sequenced(7, 0, 0, 2))
    append(log, sequenced(7, 0, 2, 2))
    append(log, batch_of(2))
    log.roll(NOW_MS)
    append(log, batch_of(2))
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    found = [(h.base_offset, h.last_offset, h.record_count) for h, _ in chunks(log)]
    assert found == [(2, 3, 0), (4, 5, 2), (6, 7, 2)]
    for file in logs.names():
        if file.endswith(".snapshot"):
            logs.disk.remove(f"{logs.folder}/{file}")
    log = logs.open(**SETTINGS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    assert append(log, sequenced(7, 0, 2, 2)).duplicate
    assert append(log, sequenced(7, 0, 4)).first_offset == 8


def test_the_last_batch_of_each_producer_stays_in_whichever_segment(logs):
    log = logs.open(**{**SETTINGS, "segment_bytes": 300})
    for number in range(20):
        append(log, sequenced(number % 7, 0, number // 7))
        if number % 3 == 2:
            append(log, batch_of())
    log.maybe_increment_high_watermark(log.log_end_offset)
    done = clean_log(log)
    assert done.segments_after > 2
    first_active = log.segments.active.base_offset
    last = {state.last_offset for state in log.producer_state_manager.producers.values()}
    empty = {h.last_offset for h, _ in chunks(log) if not h.record_count and h.producer_id >= 0}
    assert {offset for offset in last if offset < first_active} <= empty
    for file in logs.names():
        if file.endswith(".snapshot"):
            logs.disk.remove(f"{logs.folder}/{file}")
    log = logs.open(**SETTINGS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    for producer_id in range(7):
        next_sequence = len(range(producer_id, 20, 7))
        assert append(log, sequenced(producer_id, 0, next_sequence - 1)).duplicate


def test_producers_are_gone_through_slice_by_slice(log):
    for number in range(2 * SLICE + 1):
        state = log.producer_state_manager.producers[number] = ProducerStateEntry(number)
        state.use_epoch(3)
        if number % 2:
            state.batches.append(BatchMetadata(0, 0, number * 7 % 100_003, number * 7 % 100_003, NOW_MS))
    known = ActiveProducers(log)
    assert len(list(known.look())) == 2
    last_offsets = {number * 7 % 100_003 for number in range(1, 2 * SLICE + 1, 2)}
    marker_epochs = dict.fromkeys(range(0, 2 * SLICE + 1, 2), 3)
    assert known.between(0, 100_003) == LastRecords(frozenset(last_offsets), marker_epochs)
    some = {offset for offset in last_offsets if 500 <= offset < 1000}
    assert known.between(500, 1000) == LastRecords(frozenset(some), marker_epochs)


def test_the_last_batch_of_a_segment_stays_so_that_no_hole_opens(log):
    for number in range(3):
        put(log, (b"a", b"%d" % number))
        log.roll(NOW_MS)
    put(log, (b"a", b"9"))
    log.update_config(log.config.__class__(**{**_fields(log.config), "segment_bytes": 80}))
    clean_log(log)
    assert keyed(log) == [(2, b"a", b"2"), (3, b"a", b"9")]
    assert [segment.next_offset() for segment in log.segments] == [1, 2, 3, 4]


def _fields(config):
    return {name: getattr(config, name) for name in config.__slots__}


def test_small_segments_become_one(logs):
    log = logs.open(**{**SETTINGS, "segment_bytes": 1_000_000})
    writer = KeyedLog(log, 3, transactions=False)
    for _ in range(20):
        writer.write(3)
        log.roll(NOW_MS)
    assert len(log.segments) == 21
    done = clean_log(log)
    assert (done.segments_before, done.segments_after) == (20, 1)
    assert len(log.segments) == 2
    assert [name for name in logs.names() if name.endswith(".snapshot")] == [
        f"{log.segments.active.base_offset:020}.snapshot"
    ]
    writer.check()


def test_aborted_records_go_and_markers_go_later(logs):
    log = logs.open(**SETTINGS, delete_retention_ms=DAY_MS)
    append(log, batch_of())
    append(log, sequenced(7, 0, 0, transactional=True))
    append_marker(log, 7, 0, commit=False)
    append(log, sequenced(7, 0, 1, transactional=True))
    append_marker(log, 7, 0, commit=True)
    append(log, sequenced(7, 0, 2))
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    # Neither transaction has a record left, but their batches were met in this round.
    assert [(h.base_offset, h.is_control) for h, _ in chunks(log)] == [(2, True), (4, True), (5, False)]
    assert log.aborted_transactions(0, 6) == [(7, 1)]
    log.cleaner_checkpoint = None
    clean_log(log, now_ms=NOW_MS + 1)
    horizons = [h.delete_horizon_ms for h, _ in chunks(log)]
    assert horizons == [NOW_MS + 1 + DAY_MS, NOW_MS + 1 + DAY_MS, None]
    assert log.aborted_transactions(0, 6) == []
    log.cleaner_checkpoint = None
    clean_log(log, now_ms=NOW_MS + 1 + DAY_MS)
    assert [h.base_offset for h, _ in chunks(log)] == [5]


def test_an_aborted_value_never_takes_the_place_of_one_that_is(log):
    put(log, (b"k0", b"good"))
    append(log, sequenced(7, 0, 0, transactional=True))
    append_marker(log, 7, 0, commit=False)
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    assert [record.value for record in committed(log)] == [b"good"]


def test_what_a_producer_writes_after_it_aborted_counts(log):
    """Where a round begins behind the marker: a deletion that does not count deletes nothing, and goes."""
    put(log, (b"k0", b"old"))
    append(log, sequenced(7, 0, 0, transactional=True))
    append_marker(log, 7, 0, commit=False)
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    rows = [Record(0, NOW_MS, b"k0", None)]
    append(log, build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=1, transactional=True))
    append_marker(log, 7, 0, commit=True)
    log.roll(NOW_MS)
    log.maybe_increment_high_watermark(log.log_end_offset)
    clean_log(log)
    assert [(record.key, record.value) for record in committed(log)] == [(b"k0", None)]


@pytest.mark.parametrize("seed", range(4))
def test_round_after_round_nothing_is_lost(logs, seed):
    log = logs.open(**SETTINGS, delete_retention_ms=1000)
    writer = KeyedLog(log, seed, codecs=(0, 0, 1, 2, 3, 4))
    now_ms = NOW_MS
    for number in range(6):
        writer.write(25, now_ms=now_ms)
        now_ms += 700
        # A table that holds a few keys makes rounds end in the middle of a segment, and of a batch.
        done = clean_log(log, now_ms=now_ms, table_bytes=24 * (8 if number % 2 else 100))
        assert done.is_whole or log_to_clean(log, now_ms).cleanable_bytes == 0
        writer.check()
    writer.end_all(now_ms=now_ms)
    log.roll(now_ms)
    for _ in range(40):
        now_ms += 700
        clean_log(log, now_ms=now_ms, table_bytes=24 * 8)
    found = writer.check()
    assert log.cleaner_checkpoint == log.segments.active.base_offset
    # Everything that is superseded is gone, and so are delete markers whose time is over.
    assert len(list(committed(log))) == len(found)
    assert len(list(chunks(log))) < 40
    again = logs.reopen(log, **SETTINGS)
    again.maybe_increment_high_watermark(again.log_end_offset)
    assert writer.check(again) == found


def test_what_is_asked_by_time_is_found_among_gaps(log):
    for number in range(8):
        put(log, (b"k%d" % (number % 2), b"x"), now_ms=NOW_MS + 10 * number)
    log.roll(NOW_MS)
    clean_log(log)
    assert offsets_of(read_all(log)) == [6, 7]
    assert log.offset_for_timestamp(NOW_MS).offset == 6
    assert log.offset_for_timestamp(NOW_MS + 65).offset == 7
    assert log.offset_for_timestamp(NOW_MS + 71) is None
    assert log.offset_of_max_timestamp().offset == 7
    assert offsets_of(read_all(log, 3)) == [6, 7]


def test_a_time_that_only_an_empty_batch_has_is_nobodys(log):
    put(log, (b"a", b"1"), now_ms=NOW_MS + 9)
    log.roll(NOW_MS)
    put(log, (b"a", b"2"), now_ms=NOW_MS)
    log.roll(NOW_MS)
    clean_log(log)
    log.segments.first.rebuild_indexes()
    assert log.offset_of_max_timestamp().offset == 1
    assert log.offset_for_timestamp(NOW_MS + 5) is None


def test_a_damaged_batch_is_not_given_a_good_checksum(logs, disk):
    log = logs.open(**SETTINGS)
    put(log, (b"a", b"11111111111"), (b"b", b"2"))
    path = log.segments.active.path
    log.roll(NOW_MS)
    before = bytearray(disk.read_file(path))
    before[80] ^= 1
    disk.open(path).write(0, (before,))
    with pytest.raises(InvalidBytesError, match="CRC"):
        clean_log(log)
    assert disk.read_file(path) == before
    assert not [name for name in logs.names() if "cleaned" in name or "swap" in name]


def _end(work, piece):
    """Run a round to its end."""
    try:
        while True:
            piece = next_piece(work, piece)
    except StopIteration as stop:
        return stop.value


def test_a_log_that_is_cut_back_under_a_round_keeps_what_it_has(logs):
    log = logs.open(**SETTINGS)
    writer = KeyedLog(log, 1, transactions=False)
    writer.write(60)
    work = Cleaner(
        log_to_clean(log, NOW_MS), OffsetMap(4096, 0.9, (1, 2)), CleanerLimits(500, 500), now_ms=NOW_MS
    ).clean()
    piece = next(work)
    for _ in range(30):
        piece = next_piece(work, piece)
    log.truncate_to(40, now_ms=NOW_MS)
    assert not _end(work, piece).is_whole
    assert log.cleaner_checkpoint is None
    assert not [name for name in logs.names() if "cleaned" in name]
    KeyedLog.check_segments(log)
    assert log.log_end_offset <= 40


def test_a_log_that_shall_not_be_compacted_any_more_keeps_what_it_has(logs):
    log = logs.open(**SETTINGS)
    writer = KeyedLog(log, 1, transactions=False)
    writer.write(60)
    before = keyed(log)
    work = Cleaner(
        log_to_clean(log, NOW_MS), OffsetMap(4096, 0.9, (1, 2)), CleanerLimits(500, 500), now_ms=NOW_MS
    ).clean()
    piece = next_piece(work, next(work))
    log.update_config(replace(log.config, cleanup_policy=frozenset({"delete"})))
    assert worth_cleaning(log, NOW_MS) is None
    assert not _end(work, piece).is_whole
    assert keyed(log) == before
    assert log.cleaner_checkpoint is None
    assert not [name for name in logs.names() if "cleaned" in name]


def test_segments_that_retention_took_meanwhile_do_not_come_back(logs):
    log = logs.open(**{**SETTINGS, "cleanup_policy": COMPACT | {"delete"}})
    KeyedLog(log, 1, transactions=False).write(60)
    work = Cleaner(
        log_to_clean(log, NOW_MS), OffsetMap(4096, 0.9, (1, 2)), CleanerLimits(500, 500), now_ms=NOW_MS
    ).clean()
    piece = next(work)
    for _ in range(30):
        piece = next_piece(work, piece)
    log.maybe_increment_log_start_offset(log.segments[2].base_offset)
    assert log.delete_old_segments(NOW_MS) == 2
    assert not _end(work, piece).is_whole
    assert log.segments.first.base_offset == log.log_start_offset
    assert not [name for name in logs.names() if "cleaned" in name]


def test_a_topic_that_was_made_again_has_no_file_of_the_last_ones_round(disk, logs):
    """Whichever piece of work a thread was about to do when the topic was deleted."""
    for number in range(1_000):
        log = logs.open(**{**SETTINGS, "segment_bytes": 500})
        writer = KeyedLog(log, 1)
        writer.write(12)
        writer.end_all()
        log.roll(NOW_MS)
        work = Cleaner(
            log_to_clean(log, NOW_MS), OffsetMap(4096, 0.9, (1, 2)), CleanerLimits(500, 500), now_ms=NOW_MS
        ).clean()
        piece = next(work)
        try:
            for _ in range(number):
                piece = next_piece(work, piece)
        except StopIteration:
            break
        disk.rename(logs.folder, f"{logs.folder}.{number}-delete")
        log.close_handlers(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "it was deleted"))
        logs.open(**SETTINGS)
        piece()
        work.close()
        assert not [name for name in logs.names() if "cleaned" in name]
        disk.remove_tree(logs.folder)
    assert number > 10


def test_a_reader_goes_on_with_the_file_it_began_with(log):
    put(log, (b"a", b"1" * 50), (b"b", b"2"))
    log.roll(NOW_MS)
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    chunk = log.read(0, max_bytes=1 << 20).chunk
    before = chunk.read()
    clean_log(log)
    assert chunk.read() == before
    assert offsets_of(read_all(log)) == [1, 2]


def test_records_without_timestamps_age_with_their_file(logs):
    settings = {**SETTINGS, "cleanup_policy": COMPACT | {"delete"}, "retention_ms": 7 * DAY_MS}
    log = logs.open(**settings)
    for number in range(60):
        put(log, (b"key %d" % (number % 30), b"v" * 40), now_ms=-1)
    log.roll(NOW_MS)
    for days, segment in enumerate(reversed(log.segments.from_number(0))):
        segment.file.set_modified_ms(NOW_MS - days * DAY_MS)
    before = {segment.base_offset: segment.largest_timestamp() for segment in log.segments}
    assert clean_log(log).is_whole
    ends = [segment.base_offset for segment in log.segments][1:]
    for segment, end in zip(log.segments, ends, strict=False):
        last = max(base for base in before if base < end)
        assert segment.largest_timestamp() == before[last]
    log = logs.reopen(log, **settings)
    log.maybe_increment_high_watermark(log.log_end_offset)
    assert log.delete_old_segments(NOW_MS + 6 * DAY_MS) == len(ends) - 1
    assert log.delete_old_segments(NOW_MS + 6 * DAY_MS + 1) == 1


def test_truncation_takes_the_clean_offset_back(log):
    writer = KeyedLog(log, 1, transactions=False)
    writer.write(60)
    clean_log(log)
    told = []
    log.storage.on_cleaner_checkpoint_back = told.append
    log.truncate_to(log.cleaner_checkpoint + 1, now_ms=NOW_MS)
    assert told == []
    log.truncate_to(20, now_ms=NOW_MS)
    assert (log.cleaner_checkpoint, told) == (log.log_end_offset, [log])


def test_a_log_without_limits_on_lag_is_never_overdue(log):
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    assert log.config.max_compaction_lag_ms == LONG_MAX
    assert not log_to_clean(log, NOW_MS + 10**12).need_compaction_now


def test_a_follower_takes_what_compaction_left(logs):
    log = logs.open(**SETTINGS)
    writer = KeyedLog(log, 2)
    writer.write(60)
    writer.end_all()
    log.roll(NOW_MS)
    clean_log(log)
    follower = follower_of(logs, log, **SETTINGS)
    assert follower.log_end_offset == log.log_end_offset
    assert list(chunks(follower)) == list(chunks(log))
    writer.check(follower)
    clean_log(follower)
    writer.check(follower)
    assert append(follower, sequenced(100, 0, writer.sequences[100])).first_offset == log.log_end_offset


@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_of_batches_changes_no_byte(seed):
    found = []
    for runs_bytes in (0, 5 * RUN_BYTES, 1 << 16):
        disk = VirtualDisk()
        disk.make_folder("/data")
        logs = LogBuilder(disk, "/data")
        log = logs.open(**SETTINGS, delete_retention_ms=1000)
        writer = KeyedLog(log, seed, keys=6 if seed % 2 else 60, codecs=(0, 0, 4))
        now_ms, told = NOW_MS, []
        for _ in range(3):
            writer.write(40, now_ms=now_ms)
            now_ms += 700
            done = clean_log(log, now_ms=now_ms, runs_bytes=runs_bytes)
            told.append((done.records_read, done.records_kept, done.bytes_after, done.keys))
        writer.check()
        found.append((told, [batch for _, batch in chunks(log)], logs.names()))
    assert found[0] == found[1] == found[2]
