"""A tiered topic's tail on this disk: what leaves it, and where the log starts."""

import pytest

from headrace.settings.topic import TopicConfig
from tests.log.building import NOW_MS, append, batch_of, sequenced
from tests.log.test_log_manager import A0, TOPIC_ID, Node
from tests.log.test_retention import HOUR_MS, SIZE, bases, filled

TIERED = {"remote_storage_enable": True, "retention_ms": -1}


def synced(log):
    flush = log.begin_flush()
    flush.sync()
    log.finish_flush(flush, now_ms=NOW_MS)
    return log


def test_only_what_is_in_the_remote_store_leaves_the_disk(logs):
    log = synced(filled(logs, local_retention_ms=0, **TIERED))
    late = NOW_MS + 100 * HOUR_MS
    assert log.delete_old_segments(late) == 0, "nobody knows yet what is in the remote store"
    log.tiered_to = 3
    assert log.delete_old_segments(late) == 1
    assert (bases(log), log.log_start_offset, log.local_start_offset) == ([2, 4], 0, 2)
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS) == 0
    assert log.leader_epoch_cache.epoch_for_offset(0) == 0
    log.maybe_increment_log_start_offset(5)
    assert log.local_start_offset == 5


def test_an_active_segment_that_is_too_old_is_closed_once_nothing_else_is_left(logs):
    """Else it would never be copied, and what was written last to a topic would never expire."""
    log = synced(filled(logs, local_retention_ms=HOUR_MS, **TIERED))
    late = NOW_MS + 100 * HOUR_MS
    log.tiered_to = 2
    assert log.delete_old_segments(late) == 1
    assert bases(log) == [2, 4], "what was not copied before it comes first"
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS + 6 * HOUR_MS) == 1
    assert bases(log) == [4], "it is young enough"
    assert log.delete_old_segments(late) == 0
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([4, 6], 0, 6)
    assert log.delete_old_segments(late) == 0, "until it is copied"
    log.tiered_to = 6
    assert synced(log).delete_old_segments(late) == 1
    assert (bases(log), log.log_start_offset, log.local_start_offset) == ([6], 0, 6)
    assert log.delete_old_segments(late) == 0, "an empty one is left alone"


def test_an_active_segment_is_closed_for_its_size_where_nothing_is_to_stay(logs):
    log = synced(filled(logs, local_retention_bytes=1, **TIERED))
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS) == 2
    assert bases(log) == [4]
    log.update_config(type(log.config)(local_retention_bytes=0, **TIERED))
    assert log.delete_old_segments(NOW_MS) == 0
    assert bases(log) == [4, 6]


def test_an_active_segment_with_records_that_are_not_committed_is_not_closed(logs):
    log = synced(filled(logs, local_retention_ms=0, replicated=False, **TIERED))
    log.maybe_increment_high_watermark(5)
    log.tiered_to = 4
    late = NOW_MS + 100 * HOUR_MS
    assert log.delete_old_segments(late) == 2
    assert bases(log) == [4]
    log.maybe_increment_high_watermark(6)
    assert log.delete_old_segments(late) == 0
    assert bases(log) == [4, 6]


def test_what_is_not_synced_stays(logs):
    """After a crash its batches tell the leader epochs, by which what is in the store is known."""
    log = filled(logs, local_retention_ms=0, **TIERED)
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 0
    assert synced(log).delete_old_segments(NOW_MS + 100 * HOUR_MS) == 2


def test_what_tells_the_epochs_stays_until_their_file_does(logs):
    """A short log that was closed has no such file: its batches are as quickly walked."""
    log = synced(filled(logs, local_retention_ms=0, **TIERED))
    log.tiered_to = 4
    log.leader_epoch_cache.assign(3, 6)
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 0
    assert synced(log).delete_old_segments(NOW_MS + 100 * HOUR_MS) == 2


def test_what_was_removed_before_a_crash_forgot_it_takes_the_start_with_it(logs):
    log = synced(filled(logs, local_retention_ms=0, **TIERED))
    log.tiered_from, log.tiered_to = 1, 4
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 2
    assert (log.log_start_offset, log.local_start_offset) == (1, 4)


def test_the_epochs_of_what_was_removed_stay_for_who_forgets_that_it_was(logs):
    log = synced(filled(logs, local_retention_ms=0, **TIERED))
    log.maybe_increment_log_start_offset(3)
    assert log.leader_epoch_cache.epoch_for_offset(0) == 0


def test_a_compacted_topic_has_no_limit_but_those_of_its_tail(logs):
    policy = {"cleanup_policy": frozenset({"compact"}), "remote_storage_enable": True, "retention_ms": 1}
    log = synced(filled(logs, **policy))
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 0
    log.update_config(type(log.config)(**policy, local_retention_ms=0))
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 2


def test_local_limits_hold_for_the_tail(logs):
    log = synced(filled(logs, local_retention_bytes=4 * SIZE, **TIERED))
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS) == 1
    assert bases(log) == [2, 4]


@pytest.mark.parametrize("local", [{"local_retention_ms": -2}, {"local_retention_bytes": -2}])
def test_without_limits_of_its_own_the_tail_has_those_of_the_whole(logs, local):
    settings = {"remote_storage_enable": True, "retention_ms": HOUR_MS, "retention_bytes": -1} | local
    log = synced(filled(logs, **settings))
    log.tiered_to = 4
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS + 1) == 1
    assert (bases(log), log.log_start_offset) == ([2, 4], 0)


def test_what_is_not_copied_stays_however_old(logs):
    log = filled(logs, remote_storage_enable=True, retention_ms=1)
    log.tiered_to = 0
    assert log.delete_old_segments(NOW_MS + 100 * HOUR_MS) == 0


def test_a_topic_that_copies_no_more_is_like_any_other_once_nothing_is_elsewhere(logs):
    settings = {"remote_storage_enable": True, "remote_log_copy_disable": True, "retention_ms": HOUR_MS}
    log = filled(logs, **settings)
    assert log.delete_old_segments(NOW_MS + 2 * HOUR_MS + 1) == 1
    assert (bases(log), log.log_start_offset) == ([2, 4], 2)


CONFIG = TopicConfig(
    remote_storage_enable=True, segment_bytes=2 * SIZE, local_retention_ms=0, retention_ms=-1
)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_keeps_the_start_that_lies_elsewhere(disk, root, clean):
    node = Node(disk, f"{root}/one")
    store = node.start(CONFIG)
    log = store.create(A0, TOPIC_ID, CONFIG)
    for number in range(6):
        append(log, sequenced(7, 0, number), leader_epoch=number // 3)
    log.maybe_increment_high_watermark(6)
    log.tiered_to = 4
    synced(log)
    assert log.delete_old_segments(NOW_MS + HOUR_MS) == 2
    if clean:
        store.close()
    else:
        store.unlock()
    again = node.start(CONFIG).get(A0)
    assert (again.log_start_offset, again.local_start_offset, again.log_end_offset) == (0, 4, 6)
    assert again.high_watermark >= 4
    assert again.leader_epoch_cache.entries() == [(0, 0), (1, 3)]
    assert again.producer_state_manager.producers[7].last_offset == 5
    append(again, batch_of(), leader_epoch=1)


def test_a_topic_that_is_no_longer_tiered_starts_on_this_disk(disk, root):
    node = Node(disk, f"{root}/one")
    store = node.start(CONFIG)
    log = store.create(A0, TOPIC_ID, CONFIG)
    for _ in range(6):
        append(log, batch_of())
    log.maybe_increment_high_watermark(6)
    log.tiered_to = 4
    synced(log).delete_old_segments(NOW_MS + HOUR_MS)
    store.close()
    assert node.start(TopicConfig()).get(A0).log_start_offset == 4
