"""What has to go from the remote store, and what must not."""

import random

import pytest

from headrace.base.ids import TopicPartition, uuid_text
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import Record, build_batch
from headrace.remote_log.copier import describe, next_to_copy
from headrace.remote_log.core.lineage import first_remote
from headrace.remote_log.expiration import DeletableSegments, orphans
from headrace.remote_log.steps import Publisher
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import VirtualDisk
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.tiered.building import PARTITION, remote_segment

NOW_MS = 1_000_000


def local_log(count: int, *, epochs: list[tuple[int, int]] | None = None, **settings: object) -> UnifiedLog:
    """A log of so many records, two to a segment, all committed."""
    config = TopicConfig(remote_storage_enable=True, segment_bytes=200, **settings)  # type: ignore[arg-type]
    storage = Storage(VirtualDisk(), random.Random(1))
    log = open_log(storage, "/rows-3", TopicPartition("rows", 3), config, now_ms=NOW_MS)
    for _ in range(count):
        batch = build_batch([Record(timestamp=NOW_MS, value=b"v" * 20)])
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.maybe_increment_high_watermark(count)
    if epochs is not None:
        log.leader_epoch_cache = LeaderEpochFileCache(epochs)
    log.tiered_to = 0
    return log


def remote_log(*segments: RemoteLogSegmentMetadata) -> RemoteLogMetadataCache:
    log = RemoteLogMetadataCache()
    for segment in segments:
        log.apply(segment)
    return log


def doomed(log: UnifiedLog, remote: RemoteLogMetadataCache, **more: set[bytes]) -> tuple[int, list[int]]:
    found = DeletableSegments.of(log, remote, now_ms=NOW_MS, **more)
    return found.log_start, [segment.segment_id[-1] for segment in found.segments]


def test_what_lies_below_the_start() -> None:
    log = local_log(10, retention_ms=-1)
    remote = remote_log(remote_segment(1, 0, 1), remote_segment(2, 2, 3), remote_segment(3, 4, 5))
    assert doomed(log, remote) == (0, [])
    log.maybe_increment_log_start_offset(3)
    assert doomed(log, remote) == (3, [1])
    log.maybe_increment_log_start_offset(4)
    assert doomed(log, remote) == (4, [1, 2])


def test_what_is_too_old_or_too_much() -> None:
    old, young = remote_segment(1, 0, 1, max_timestamp=10), remote_segment(2, 2, 3, max_timestamp=NOW_MS)
    assert doomed(local_log(10, retention_ms=1_000), remote_log(old, young)) == (2, [1])
    log = local_log(10, retention_ms=-1, retention_bytes=500)
    remote = remote_log(*(remote_segment(n, 2 * n, 2 * n + 1, size=200) for n in range(4)))
    assert doomed(log, remote) == (4, [0, 1]), "without the second there are still more than 500"


def test_another_lineage_goes_unless_ours_is_not_known() -> None:
    lost = remote_segment(2, 2, 3, (4, 2))
    remote = remote_log(remote_segment(1, 0, 1), lost)
    assert doomed(local_log(10, epochs=[(0, 0), (5, 2)], retention_ms=-1), remote) == (0, [2])
    # Epochs that were made anew from what is on this disk say nothing about what is not.
    assert doomed(local_log(10, epochs=[(5, 8)], retention_ms=-1), remote) == (0, [])


def test_where_a_crash_forgot_that_the_start_moved_it_is_what_is_there() -> None:
    log = local_log(10, retention_ms=-1)
    log.segments.drop_first(4)
    assert log.segments.first.base_offset == 8
    assert doomed(log, remote_log(remote_segment(2, 2, 7))) == (2, [])
    going = remote_segment(2, 2, 7, state=RemoteLogSegmentState.DELETE_STARTED)
    assert doomed(log, remote_log(going)) == (8, [2])
    assert doomed(log, remote_log()) == (0, []), "nothing tells that there was ever more"
    log.leader_epoch_cache = LeaderEpochFileCache([(0, 8)])
    unknown = remote_log(remote_segment(2, 2, 7), remote_segment(3, 8, 9))
    assert doomed(log, unknown) == (0, []), "nobody knows what those are"
    assert first_remote(log, unknown) == 0


def test_a_newer_leaders_copies_are_not_ours_to_judge() -> None:
    remote = remote_log(remote_segment(2, 2, 3, (9, 2)))
    assert doomed(local_log(10, epochs=[(0, 0), (5, 2)], retention_ms=-1), remote)[1] == []


def test_what_was_begun_goes_unless_somebody_is_at_it() -> None:
    started = remote_segment(1, 0, 1, state=RemoteLogSegmentState.COPY_STARTED)
    going = remote_segment(2, 2, 3, state=RemoteLogSegmentState.DELETE_STARTED)
    log, remote = local_log(10, retention_ms=-1), remote_log(started, going)
    assert doomed(log, remote) == (0, [1, 2])
    assert doomed(log, remote, in_progress={started.segment_id}) == (0, [2])


def test_all_of_a_topic_that_is_no_longer_tiered() -> None:
    log = local_log(10)
    log.update_config(TopicConfig(remote_log_delete_on_disable=True))
    assert doomed(log, remote_log(remote_segment(1, 0, 1))) == (0, [1])


def test_orphans_are_told_by_the_id_in_their_names() -> None:
    known = remote_segment(1, 0, 1)
    dashed = RemoteLogSegmentMetadata(
        PARTITION, b"\xff" * 16, 5, 6, 0, 1, ((0, 5),), RemoteLogSegmentState.COPY_STARTED, 1, 0
    )
    stray = remote_segment(9, 0, 1)
    names = [*known.object_names(), *dashed.object_names(), *stray.object_names()]
    assert uuid_text(dashed.segment_id).startswith(("_", "-"))
    assert orphans(names, remote_log(known, dashed)) == stray.object_names()


def test_segments_are_copied_once_all_in_them_is_decided() -> None:
    log = local_log(7)
    found = next_to_copy(log, NOW_MS)
    assert found is not None
    assert (found.segment.base_offset, found.following) == (0, 2)
    new = describe(found, PARTITION, b"i" * 16, Publisher(1, lambda: NOW_MS))
    assert (new.start_offset, new.end_offset, new.epochs, new.size) == (0, 1, ((0, 0),), found.segment.size)
    log.tiered_to = 2
    found = next_to_copy(log, NOW_MS)
    assert found is not None
    assert found.segment.base_offset == 2
    log.high_watermark = 3
    assert next_to_copy(log, NOW_MS) is None
    log.tiered_to = None
    assert next_to_copy(log, NOW_MS) is None, "nobody knows what is there"


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ([(0, 0), (3, 3)], ((0, 2), (3, 3))),
        ([(0, 0), (1, 1), (2, 2)], ((2, 2),)),
        ([(4, 3)], ((4, 2),)),
    ],
)
def test_a_copy_says_which_epochs_wrote_it(
    epochs: list[tuple[int, int]], expected: tuple[tuple[int, int], ...]
) -> None:
    log = local_log(7, epochs=epochs)
    log.tiered_to = 2
    found = next_to_copy(log, NOW_MS)
    assert found is not None
    assert describe(found, PARTITION, b"i" * 16, Publisher(1, lambda: 0)).epochs == expected
