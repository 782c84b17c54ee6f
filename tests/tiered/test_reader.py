"""Reading from the remote tier: what comes, in which pieces, at what price, and what where it fails."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.log.file_names import INDEX, LOG, TXN_INDEX
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import batches
from headrace.testing.world import World
from headrace.tiered.remote_storage import WINDOW_BYTES_MAX
from headrace.tiered.segment_metadata import RemoteLogSegmentState
from headrace.tiered.window_memory import WindowMemory
from tests.log.building import append, append_marker, batch_of, offsets_of, sequenced
from tests.tiered.reading import Tiered

Script = Callable[[], Coroutine[Any, Any, None]]


def simulated(script: Script) -> Callable[[], None]:
    @functools.wraps(script)
    def run() -> None:
        World(1).run(script())

    return run


def filled(tiers: Tiered, *, count: int = 100, value_bytes: int = 400, **settings: Any) -> UnifiedLog:
    """Batches of five records, in segments of some ten batches, all closed ones copied."""
    log = tiers.open(**{"segment_bytes": 20_000, "index_interval_bytes": 1_000, **settings})
    for number in range(count):
        append(log, batch_of(5, value=b"%04d" % number * (value_bytes // 4)))
    tiers.copy(log)
    return log


@simulated
async def test_a_log_is_read_over_both_tiers_without_a_gap() -> None:
    tiers = Tiered()
    log = filled(tiers)
    assert len(log.segments) > 6
    tiers.drop_local(log, len(log.segments) - 2)
    assert offsets_of(await tiers.read_all(log)) == list(range(500))


@simulated
async def test_a_read_starts_with_the_batch_that_holds_its_offset_and_keeps_to_its_bounds() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    for offset in (0, 4, 7, 52, log.local_start_offset - 1):
        found = await tiers.read(log, offset, max_bytes=1)
        heads = [header for _, header in batches(found.records)]
        assert [head.base_offset for head in heads] == [offset // 5 * 5]
        assert found.upper_offset == heads[0].next_offset
    size = len(found.records)
    found = await tiers.read(log, 0, max_bytes=3 * size + 1)
    assert len(found.records) == 3 * size
    found = await tiers.read(log, 0, max_bytes=size - 1, at_least_one=False)
    assert (len(found.records), found.upper_offset) == (0, 0)
    found = await tiers.read(log, 0, max_offset=12)
    assert (len(found.records), found.upper_offset) == (2 * size, 10)


@simulated
async def test_a_window_is_read_once_for_all_its_readers() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    for offset in (0, 3, 10, 30):
        await tiers.read(log, offset, max_bytes=1)
    assert len(tiers.store.reads_of(LOG)) == 1


@simulated
async def test_a_sequential_reader_finds_the_next_window_there_also_over_the_border_of_a_segment() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    first = await tiers.read(log, 0, max_bytes=1)
    assert len(tiers.store.reads_of(LOG)) == 1
    second = await tiers.read(log, first.upper_offset, max_bytes=1)
    third = await tiers.read(log, log.segments.first.base_offset - 1)  # lets some time pass
    assert third.records
    before = len(tiers.store.reads_of(LOG))
    offset = second.upper_offset
    base = tiers.remote.readable(log.leader_epoch_cache)[1].start_offset
    while offset < base + 5:
        found = tiers.reader.read(log, offset, max_bytes=1, max_offset=log.high_watermark)
        assert found is not None, f"offset {offset} was not read ahead"
        offset = found.upper_offset
    assert before >= 2


@simulated
async def test_a_log_larger_than_the_memory_is_read_by_many_within_it() -> None:
    memory = WindowMemory(3 << 20)
    tiers = Tiered(memory=memory)
    log = filled(tiers, count=1500, value_bytes=3_000, segment_bytes=1 << 20)
    tiers.drop_local(log, len(log.segments) - 1)
    assert log.local_start_offset > 6000
    offsets = {number: number * 731 for number in range(9)}
    while offsets:
        for number, offset in list(offsets.items()):
            found = await tiers.read(log, offset, max_bytes=100_000)
            assert next(batches(found.records))[1].base_offset <= offset
            assert memory.bytes_held <= 3 << 20
            offsets[number] = found.upper_offset
            if found.upper_offset >= log.local_start_offset:
                del offsets[number]
    assert len(memory) > 1


@simulated
async def test_as_much_is_read_at_once_as_suits_the_store() -> None:
    """Little from files, where it only keeps a core busy; much where each read waits for a network."""
    largest = []
    for window_bytes_max in (None, WINDOW_BYTES_MAX):
        tiers = Tiered(window_bytes_max=window_bytes_max)
        log = filled(tiers, count=1000, value_bytes=3_000, segment_bytes=12 << 20)
        tiers.drop_local(log, 1)
        assert offsets_of(await tiers.read_all(log)) == list(range(5000))
        largest.append(max(end - start for _, start, end in tiers.store.reads_of(LOG)))
    assert largest == [2 << 20, 8 << 20]


@simulated
async def test_a_batch_larger_than_a_window_comes_whole() -> None:
    tiers = Tiered(memory=WindowMemory(1 << 20))
    log = tiers.open(segment_bytes=1 << 20, max_message_bytes=1 << 20)
    for _ in range(4):
        append(log, batch_of(1, value=b"x" * 600_000))
    tiers.copy(log)
    tiers.drop_local(log, 2)
    assert offsets_of(await tiers.read_all(log)) == [0, 1, 2, 3]


@simulated
async def test_reading_keeps_to_its_pace() -> None:
    tiers = Tiered(bytes_per_second=1 << 18, memory=WindowMemory(3 << 20))
    log = filled(tiers, count=400, value_bytes=3_000, segment_bytes=1 << 20)
    tiers.drop_local(log, len(log.segments) - 1)
    loop = tiers.waiting._loop
    started = loop.time()
    await tiers.read_all(log)
    assert loop.time() - started > log.segments.first.base_offset * 3000 / (1 << 18) - 10


@simulated
async def test_the_pace_counts_what_is_read_and_not_what_could_have_been() -> None:
    tiers = Tiered(bytes_per_second=100_000)
    log = filled(tiers, count=200)
    tiers.drop_local(log, len(log.segments) - 1)
    size = sum(segment.size for segment in tiers.remote.readable(log.leader_epoch_cache))
    assert len(tiers.remote.readable(log.leader_epoch_cache)) > 10
    loop = tiers.waiting._loop
    started = loop.time()
    await tiers.read_all(log)
    assert size / 100_000 - 2 < loop.time() - started < size / 100_000 + 2
    # Who begins inside of a segment pays for what is behind that.
    started = loop.time()
    last = tiers.remote.readable(log.leader_epoch_cache)[-1]
    for _ in range(5):
        tiers.reader._memory = WindowMemory()
        await tiers.read(log, last.end_offset)
    assert loop.time() - started < last.size / 100_000 + 1


@simulated
async def test_no_more_reads_at_once_and_none_forgotten() -> None:
    tiers = Tiered(threads=1, pending_max=1)
    log = filled(tiers)
    tiers.drop_local(log, 6)
    starts = [segment.start_offset for segment in tiers.remote.readable(log.leader_epoch_cache)][:6]
    pending = [tiers.read(log, start) for start in starts]
    for start, read in zip(starts, pending, strict=True):
        assert next(batches((await read).records))[1].base_offset == start


@simulated
async def test_a_store_that_fails_is_told_to_who_waits_and_asked_again_later() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    tiers.store.failing.add(LOG)
    assert (await tiers.refused(log, 0)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    reads = len(tiers.store.reads)
    assert tiers.reader.read(log, 0, max_bytes=1, max_offset=99) is None, "who comes later waits"
    assert len(tiers.store.reads) == reads
    tiers.store.failing.clear()
    assert (await tiers.read(log, 0)).records


@simulated
async def test_bytes_that_are_not_what_was_put_are_no_answer() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    tiers.store.flips[LOG] = 3_000
    assert (await tiers.refused(log, 0)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    tiers.store.flips.clear()
    tiers.store.short = True
    assert (await tiers.refused(log, 0)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    tiers.store.short = False
    assert (await tiers.read(log, 0)).records


@simulated
async def test_a_segment_that_retention_removes_meanwhile_is_out_of_range() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    first = tiers.remote.readable(log.leader_epoch_cache)[0]
    tiers.remove(first)
    assert (await tiers.refused(log, 0)).code is ErrorCode.UNKNOWN_SERVER_ERROR, "the record says it is there"
    tiers.remote.apply(first.moved_to(RemoteLogSegmentState.DELETE_STARTED, broker_id=1, event_ms=6))
    assert (await tiers.refused(log, 0)).code is ErrorCode.OFFSET_OUT_OF_RANGE


@simulated
async def test_what_is_in_the_store_is_not_known_yet() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    tiers.remote_logs._loaded.clear()
    assert tiers.reader.read(log, 0, max_bytes=1, max_offset=99) is None


@simulated
async def test_aborted_transactions_are_found_in_this_and_later_segments_and_on_this_disk() -> None:
    tiers = Tiered()
    log = tiers.open(segment_bytes=2_000, index_interval_bytes=500)
    append(log, sequenced(7, 0, 0, 3, transactional=True))  # aborted in the same segment
    append_marker(log, 7, 0, commit=False)
    append(log, sequenced(8, 0, 0, 3, transactional=True))  # aborted some segments later
    append(log, sequenced(9, 0, 0, 3, transactional=True))  # aborted on this disk
    append(log, sequenced(10, 0, 0, 3, transactional=True))  # committed
    append_marker(log, 10, 0, commit=True)
    for _ in range(60):
        append(log, batch_of(2))
    append_marker(log, 8, 0, commit=False)
    for _ in range(60):
        append(log, batch_of(2))
    tiers.copy(log)
    tiers.drop_local(log, len(log.segments) - 1)
    append_marker(log, 9, 0, commit=False)
    log.maybe_increment_high_watermark(log.log_end_offset)
    found = await tiers.read(log, 0, committed=True)
    assert sorted(found.aborted) == [(7, 0), (8, 4), (9, 7)]
    found = await tiers.read(log, 5, committed=True)
    assert sorted(found.aborted) == [(8, 4), (9, 7)]
    # The marker on this disk is copied, and leaves: it is found there too.
    append(log, batch_of(2))
    log.roll(0)
    tiers.copy(log)
    tiers.drop_local(log, len(log.segments) - 1)
    found = await tiers.read(log, 5, committed=True)
    assert sorted(found.aborted) == [(8, 4), (9, 7)]
    assert len(tiers.store.reads_of(TXN_INDEX)) <= len(tiers.remote.readable(log.leader_epoch_cache))


@simulated
async def test_offsets_that_compaction_took_are_passed_over() -> None:
    tiers = Tiered()
    log = filled(tiers)
    tiers.drop_local(log, 5)
    first, second = tiers.remote.readable(log.leader_epoch_cache)[:2]
    data = tiers.store.read(first.object_name(LOG), 0, 1 << 20)
    kept = data[: next(iter([header.size for _, header in batches(data)])) * 3]
    shorter = first.__class__(
        first.partition, b"z" * 16, first.start_offset, first.end_offset, first.max_timestamp, len(kept),
        first.epochs, first.state, 1, 6, has_aborted=False,
    )  # fmt: skip
    tiers.store.put_bytes(shorter.object_name(LOG), kept)
    tiers.store.put_bytes(shorter.object_name(INDEX), b"")
    tiers.remote.apply(shorter)
    found = await tiers.read(log, 16)
    assert next(batches(found.records))[1].base_offset == second.start_offset
    offsets = offsets_of(await tiers.read_all(log))
    assert offsets == [*range(15), *range(second.start_offset, 500)]


@simulated
async def test_what_was_given_to_a_reply_stays_what_it_was() -> None:
    tiers = Tiered(memory=WindowMemory(2 << 20))
    log = filled(tiers, count=600, value_bytes=3_000, segment_bytes=1 << 20)
    tiers.drop_local(log, len(log.segments) - 1)
    held = []
    offset = 0
    while offset < log.local_start_offset:
        found = await tiers.read(log, offset, max_bytes=50_000)
        if len(held) < 8:
            held.append((found.records, bytes(found.records)))
        offset = found.upper_offset
    assert len(tiers.store.reads_of(LOG)) > 8
    assert all(view == copy for view, copy in held)
