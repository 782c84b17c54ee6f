"""What is known of a partition's remote segments."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.remote_log.steps import Publisher
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, RemotePartitionMetadataStore, lineage_end
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tests.tiered.building import PARTITION, remote_segment

STARTED, FINISHED = RemoteLogSegmentState.COPY_STARTED, RemoteLogSegmentState.COPY_FINISHED
DELETING, DELETED = RemoteLogSegmentState.DELETE_STARTED, RemoteLogSegmentState.DELETE_FINISHED
ONE = LeaderEpochFileCache([(0, 0)])


def test_only_finished_copies_are_found() -> None:
    log = RemoteLogMetadataCache()
    first = remote_segment(1, 0, 9, state=STARTED)
    log.apply(first)
    assert log.find(ONE, 5) is None
    assert log.end_offset(ONE) is None
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, first.segment_id, FINISHED, 1, 6))
    found = log.find(ONE, 5)
    assert found is not None
    assert (found.segment_id, found.state, found.event_ms) == (first.segment_id, FINISHED, 6)
    assert log.end_offset(ONE) == 10
    assert log.find(ONE, 10) is None


@pytest.mark.parametrize(
    ("states", "left"),
    [
        ((STARTED, DELETING, FINISHED), DELETING),
        ((STARTED, FINISHED, STARTED), FINISHED),
        ((STARTED, DELETED), STARTED),
        ((STARTED, FINISHED, DELETING, DELETED, FINISHED), None),
        ((STARTED, DELETING, DELETED, STARTED, FINISHED), None),  # the first tries of a writer that is gone
        ((DELETED,), None),
    ],
)
def test_nothing_goes_back(
    states: tuple[RemoteLogSegmentState, ...], left: RemoteLogSegmentState | None
) -> None:
    log = RemoteLogMetadataCache()
    for state in states:
        log.update(RemoteLogSegmentMetadataUpdate(PARTITION, (1).to_bytes(16, "big"), state, 1, 6))
        if state is STARTED or len(states) == 1:
            log.apply(remote_segment(1, 0, 9, state=state))
    known = log.get((1).to_bytes(16, "big"))
    assert (None if known is None else known.state) == left


def test_a_custom_note_stays_with_the_segment() -> None:
    log = RemoteLogMetadataCache()
    log.apply(remote_segment(1, 0, 9, state=STARTED))
    segment_id = (1).to_bytes(16, "big")
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, segment_id, FINISHED, 1, 6, b"note"))
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, segment_id, DELETING, 1, 7))
    known = log.get(segment_id)
    assert known is not None
    assert known.custom_metadata == b"note"


def test_the_next_one_is_found_across_gaps_and_overlaps() -> None:
    log = RemoteLogMetadataCache()
    first, second, third = (
        remote_segment(1, 0, 9),
        remote_segment(2, 7, 19),
        remote_segment(3, 30, 39),
    )
    for segment in (third, first, second):
        log.apply(segment)
    assert log.readable(ONE) == [first, second, third]
    assert log.find(ONE, 8) == second
    assert log.after(ONE, first) == second
    assert log.after(ONE, second) == third
    assert log.after(ONE, third) is None
    assert log.find(ONE, 25) is None


def test_copies_cover_what_they_hold_without_a_hole() -> None:
    log = RemoteLogMetadataCache()
    for number, (start, end) in enumerate([(0, 4), (5, 9), (8, 12), (15, 20)]):
        log.apply(remote_segment(number, start, end))
    assert [log.covered_to(ONE, start) for start in (0, 3, 9, 13, 15, 21)] == [13, 13, 13, 13, 21, 21]
    assert log.end_offset(ONE) == 21
    later = LeaderEpochFileCache([(0, 0), (1, 7)])  # from there on they are another lineage's
    assert log.covered_to(later, 0) == 7


def test_a_long_copy_is_found_behind_shorter_ones_within_it() -> None:
    log = RemoteLogMetadataCache()
    long, short = remote_segment(1, 0, 99), remote_segment(2, 10, 19)
    log.apply(long)
    log.apply(short)
    assert log.find(ONE, 50) == long
    assert log.find(ONE, 15) == short


def test_another_lineage_does_not_count() -> None:
    """An unclean leader of epoch 2 begins at 15, where the one of epoch 1 had written on and copied."""
    log = RemoteLogMetadataCache()
    common, lost = remote_segment(1, 0, 9, (0, 0)), remote_segment(2, 10, 29, (0, 10), (1, 12))
    log.apply(common)
    log.apply(lost)
    ours = LeaderEpochFileCache([(0, 0), (1, 12), (2, 15)])
    assert lineage_end(ours, lost) == 15
    assert log.find(ours, 14) == lost
    assert log.find(ours, 15) is None
    assert log.end_offset(ours) == 15
    theirs = LeaderEpochFileCache([(0, 0), (3, 10)])
    assert log.readable(theirs) == [common]
    assert log.end_offset(theirs) == 10
    ours_copied = remote_segment(3, 15, 40, (2, 15))
    log.apply(ours_copied)
    assert log.after(ours, lost) == ours_copied


def test_what_lies_before_the_first_known_epoch_is_no_contradiction() -> None:
    epochs = LeaderEpochFileCache([(4, 20)])
    assert lineage_end(epochs, remote_segment(1, 10, 29, (3, 10), (4, 15))) == 30
    assert lineage_end(epochs, remote_segment(1, 10, 19, (4, 10))) == 10
    assert lineage_end(LeaderEpochFileCache(), remote_segment(1, 10, 19, (4, 10))) == 10


def test_one_finish_replaces_all_within() -> None:
    log = RemoteLogMetadataCache()
    old = [remote_segment(number, number * 10, number * 10 + 9) for number in range(4)]
    for segment in old:
        log.apply(segment)
    log.apply(remote_segment(9, 0, 29, state=STARTED))
    assert log.readable(ONE) == old
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, (9).to_bytes(16, "big"), FINISHED, 1, 6))
    assert [segment.start_offset for segment in log.readable(ONE)] == [0, 30]
    assert log.replaced() == old[:3] or set(log.replaced()) == set(old[:3])
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, (9).to_bytes(16, "big"), DELETING, 1, 7))
    assert log.find(ONE, 5) is None, "what was replaced must not come back"
    for segment in old[:3]:
        log.update(RemoteLogSegmentMetadataUpdate(PARTITION, segment.segment_id, DELETING, 1, 8))
    assert log.replaced() == []


def test_a_leader_of_the_past_replaces_nothing_of_later_ones() -> None:
    log = RemoteLogMetadataCache()
    newer = remote_segment(1, 10, 19, (5, 10))
    log.apply(newer)
    log.apply(remote_segment(2, 0, 29, (4, 0)))
    assert log.replaced() == []
    log.apply(remote_segment(3, 0, 29, (4, 0), (6, 8)))
    assert newer in log.replaced()


def test_a_partition_is_there_once_it_is_read() -> None:
    logs = RemotePartitionMetadataStore()
    logs.apply(remote_segment(1, 0, 9))
    assert logs.get(PARTITION) is None
    logs.load(PARTITION)
    log = logs.get(PARTITION)
    assert log is not None
    assert len(log) == 1
    assert logs.partitions() == [PARTITION]
    logs.unload(PARTITION)
    assert logs.get(PARTITION) is None
    assert logs.partitions() == []


def give_up_by_mark(log: RemoteLogMetadataCache, segment: RemoteLogSegmentMetadata) -> None:
    told = Publisher(2, lambda: 6).give_up(segment).record
    assert isinstance(told, RemoteLogSegmentMetadata)
    log.apply(told)


def give_up_as_before(log: RemoteLogMetadataCache, segment: RemoteLogSegmentMetadata) -> None:
    """Existing logs have such updates; Kafka's classes refuse them."""
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, segment.segment_id, STARTED, 2, 6))


GIVING_UP = pytest.mark.parametrize("give_up", [give_up_by_mark, give_up_as_before])
GiveUp = Callable[[RemoteLogMetadataCache, RemoteLogSegmentMetadata], None]


@GIVING_UP
def test_a_copy_that_was_given_up_cannot_be_finished(give_up: GiveUp) -> None:
    log = RemoteLogMetadataCache()
    segment = remote_segment(1, 0, 9, state=STARTED)
    log.apply(segment)
    log.apply(segment)
    assert not log.is_given_up(segment), "an announcement that was repeated is no new leader's word"
    finish = RemoteLogSegmentMetadataUpdate(PARTITION, segment.segment_id, FINISHED, 1, 7)
    give_up(log, segment)
    assert log.is_given_up(segment)
    log.update(finish)
    assert log.end_offset(ONE) is None
    for state in (DELETING, DELETED):
        log.update(RemoteLogSegmentMetadataUpdate(PARTITION, segment.segment_id, state, 2, 8))
    give_up(log, segment)
    assert len(log) == 0, "the first try of a writer that is gone"


@GIVING_UP
def test_what_is_given_up_stays_as_it_was_announced(give_up: GiveUp) -> None:
    log = RemoteLogMetadataCache()
    segment = remote_segment(1, 0, 9, state=STARTED)
    give_up(log, segment)
    assert len(log) == 0, "nothing was announced"
    log.apply(segment)
    give_up(log, segment)
    assert list(log) == [segment]


@GIVING_UP
def test_a_copy_that_is_finished_cannot_be_given_up(give_up: GiveUp) -> None:
    log = RemoteLogMetadataCache()
    segment = remote_segment(1, 0, 9, state=STARTED)
    log.apply(segment)
    log.update(RemoteLogSegmentMetadataUpdate(PARTITION, segment.segment_id, FINISHED, 1, 7))
    give_up(log, segment)
    assert not log.is_given_up(segment)
    assert log.end_offset(ONE) == 10


def test_a_cleaned_segment_is_of_a_lineage_that_has_no_later_epoch_there() -> None:
    """Compaction has taken the first batches of epoch 2, in the log or in the copy."""
    log = RemoteLogMetadataCache()
    cleaned = replace(remote_segment(1, 0, 99, (0, 0), (2, 43)), custom_metadata=b"clean-to=100")
    log.apply(cleaned)
    for epochs in (
        LeaderEpochFileCache([(0, 5), (2, 40)]),
        LeaderEpochFileCache([(0, 0), (2, 60)]),
        LeaderEpochFileCache([(2, 60)]),
    ):
        assert log.find(epochs, 0) == cleaned
        assert log.end_offset(epochs) == 100
    diverged = LeaderEpochFileCache([(0, 0), (3, 90)])
    assert log.find(diverged, 0) is None
    assert log.end_offset(diverged) is None
