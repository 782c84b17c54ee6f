"""Offsets by time in the remote tier: the answers that the local log gave, and no store where it can be told
without."""

import asyncio

import pytest

from headrace.base.errors import ApiError
from headrace.log.file_names import LOG
from headrace.log.unified_log import TimestampAndOffset, UnifiedLog
from headrace.tiered.offset_reader import RemoteLogOffsetReader
from headrace.tiered.remote_storage import RemoteStorageError
from tests.log.building import append, batch_of
from tests.tiered.reading import Tiered
from tests.tiered.test_reader import simulated

START_MS = 1_000


def times_of(tiers: Tiered) -> RemoteLogOffsetReader:
    return RemoteLogOffsetReader(
        tiers.store,
        tiers.indexes,
        tiers.remote_logs,
        loop=asyncio.get_running_loop(),
        executor=None,
        threads=lambda: tiers.threads,
    )


def with_times(tiers: Tiered) -> UnifiedLog:
    """Batches of five records, ten milliseconds apart, whose times go back now and then."""
    log = tiers.open(segment_bytes=4_000, index_interval_bytes=300)
    for number in range(200):
        append(log, batch_of(5, timestamp=START_MS + 10 * number - 35 * (number % 7 == 0)))
    tiers.copy(log)
    return log


async def find(times: RemoteLogOffsetReader, log: UnifiedLog, timestamp: int) -> TimestampAndOffset | None:
    found = times.find(log, timestamp)
    remote = None if found is None else await found
    return remote or log.offset_for_timestamp(timestamp)


@simulated
async def test_both_tiers_together_answer_as_one_log() -> None:
    tiers = Tiered()
    log = with_times(tiers)
    wanted = [0, *range(START_MS - 40, START_MS + 2_100, 7)]
    before = {timestamp: log.offset_for_timestamp(timestamp) for timestamp in wanted}
    tiers.drop_local(log, len(log.segments) // 2)
    times = times_of(tiers)
    for timestamp in wanted:
        assert await find(times, log, timestamp) == before[timestamp], timestamp
    log.maybe_increment_log_start_offset(123)
    assert (await find(times, log, 0)) == TimestampAndOffset(START_MS + 243, 123, 0)


@simulated
async def test_the_store_is_not_asked_where_no_segment_in_it_can_hold_the_record() -> None:
    tiers = Tiered()
    log = with_times(tiers)
    tiers.drop_local(log, len(log.segments) // 2)
    times = times_of(tiers)
    assert times.find(log, START_MS + 1_990) is None
    assert times.largest(log, START_MS + 1_994) is None
    assert not tiers.store.reads
    untiered = Tiered()
    local = with_times(untiered)
    assert times_of(untiered).find(local, 0) is None


@simulated
async def test_the_largest_timestamp_may_be_in_the_remote_tier() -> None:
    tiers = Tiered()
    log = tiers.open(segment_bytes=1_000)
    for number in range(40):
        append(log, batch_of(2, timestamp=START_MS + (5_000 if number == 7 else number)))
    expected = log.offset_of_max_timestamp()
    tiers.copy(log)
    tiers.drop_local(log, len(log.segments) - 1)
    local = log.offset_of_max_timestamp()
    assert local is not None
    found = times_of(tiers).largest(log, local.timestamp)
    assert found is not None
    assert await found == expected == TimestampAndOffset(START_MS + 5_001, 15, 0)
    log.maybe_increment_log_start_offset(16)  # within that segment: what is left of it is older
    found = times_of(tiers).largest(log, -1)
    assert found is not None
    last = log.segments.first.base_offset - 1
    assert await found == TimestampAndOffset(START_MS + last // 2 + 1, last, 0)


def with_a_lost_tail(tiers: Tiered) -> UnifiedLog:
    """The store has offsets 0 to 99 of epoch 0; a leader that had only half of them went on in epoch 1, and
    all that is closed was copied and left the disk.
    """
    log = tiers.open(segment_bytes=100_000, index_interval_bytes=300)
    for number in range(100):
        append(log, batch_of(1, timestamp=START_MS + 10 * number))
    log.roll(0)
    tiers.copy(log)
    log.truncate_to(50, now_ms=0)
    for number in range(50, 120):
        append(log, batch_of(1, timestamp=START_MS + 600 + number), leader_epoch=1)
    log.roll(0)
    append(log, batch_of(1, timestamp=START_MS), leader_epoch=1)
    return log


@simulated
async def test_what_a_lost_lineage_left_in_a_segment_is_no_answer() -> None:
    tiers = Tiered()
    log = with_a_lost_tail(tiers)
    wanted = range(START_MS - 10, START_MS + 1_100, 3)
    before = {timestamp: log.offset_for_timestamp(timestamp) for timestamp in wanted}
    largest = log.offset_of_max_timestamp()
    log.tiered_to = 50
    tiers.copy(log)
    tiers.drop_local(log, len(log.segments) - 1)
    assert log.local_start_offset == 120
    assert [each.end_offset for each in tiers.remote.finished()] == [99, 119]
    times = times_of(tiers)
    for timestamp in wanted:
        assert await find(times, log, timestamp) == before[timestamp], timestamp
    found = times.largest(log, START_MS)
    assert found is not None
    assert await found == largest == TimestampAndOffset(START_MS + 719, 119, 1)


@simulated
async def test_the_largest_timestamp_is_not_one_that_was_deleted_or_lost() -> None:
    tiers = Tiered()
    log = with_a_lost_tail(tiers)
    log.tiered_to = 50
    tiers.copy(log)
    tiers.drop_local(log, len(log.segments) - 1)
    times = times_of(tiers)
    log.leader_epoch_cache.truncate_from_end(110)  # of the second copy, too, only a part is this log's
    log.leader_epoch_cache.assign(2, 110)
    found = times.largest(log, START_MS)
    assert found is not None
    assert await found == TimestampAndOffset(START_MS + 709, 109, 1)
    found = times.largest(log, START_MS + 800)
    assert found is not None
    assert await found is None, "the local part has a younger one"


@simulated
async def test_no_more_lookups_at_once_and_who_gives_up_leaves_no_job_behind() -> None:
    tiers = Tiered(threads=2)
    log = with_times(tiers)
    tiers.drop_local(log, len(log.segments) // 2)
    times = times_of(tiers)
    found = [times.find(log, START_MS) for _ in range(90)]
    assert (times.jobs.running, times.jobs.waiting) == (2, 88)
    for each in found[:-1]:
        assert each is not None
        each.cancel()
    last = found[-1]
    assert last is not None
    await asyncio.sleep(0)
    assert (times.jobs.running, times.jobs.waiting) == (2, 1)
    first = await last
    assert first is not None
    assert first.offset == 5
    while times.jobs.running:
        await asyncio.sleep(1)
    assert times.jobs.waiting == 0


@simulated
async def test_a_store_that_fails_is_told() -> None:
    tiers = Tiered()
    log = with_times(tiers)
    tiers.drop_local(log, len(log.segments) // 2)
    tiers.store.failing.add(LOG)
    found = times_of(tiers).find(log, START_MS)
    assert found is not None
    with pytest.raises(RemoteStorageError):
        await found
    tiers.remote_logs._loaded.clear()
    with pytest.raises(ApiError):
        times_of(tiers).find(log, START_MS)
