"""Indexes of remote segments on this disk: fetched once, bounded, there after a restart, never wrong."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import patch

import pytest

from headrace.base.ids import uuid_text
from headrace.log.file_names import INDEX, TIME_INDEX, TXN_INDEX
from headrace.log.unified_log import UnifiedLog
from headrace.tiered.remote_storage import RemoteStorageError
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata
from tests.log.building import append, append_marker, batch_of, sequenced
from tests.tiered.reading import Tiered
from tests.tiered.test_reader import simulated

FOLDER = "/data/remote-log-index-cache"


def with_segments(tiers: Tiered) -> tuple[UnifiedLog, list[RemoteLogSegmentMetadata]]:
    log = tiers.open(segment_bytes=5_000, index_interval_bytes=300)
    append(log, sequenced(7, 0, 0, 3, transactional=True))
    append_marker(log, 7, 0, commit=False)
    for number in range(200):
        append(log, batch_of(2, timestamp=1_000 + number))
    return log, tiers.copy(log)


@simulated
async def test_an_index_is_fetched_once_and_is_there_after_a_restart() -> None:
    tiers = Tiered()
    log, segments = with_segments(tiers)
    for cache in (tiers.indexes, tiers.indexes, tiers.new_indexes()):
        for segment, local in zip(segments, log.segments, strict=False):
            assert cache.offsets(segment).data == local.offset_index().data
            assert cache.times(segment).data == local.time_index().data
            assert cache.aborted(segment) == local.indexes.aborted()
    assert len(tiers.store.reads) == 2 * len(segments) + 1
    assert "00000000000000000000_AAAAAAAAAAAAAAAAAAAAAQ.index" in tiers.disk.list(FOLDER)
    assert cache.size_bytes == sum(tiers.disk.size(f"{FOLDER}/{name}") for name in tiers.disk.list(FOLDER))


@simulated
async def test_the_longest_unused_go_first() -> None:
    tiers = Tiered()
    _, segments = with_segments(tiers)
    size = len(tiers.indexes.offsets(segments[0]).data)
    tiers.cache_bytes = 3 * size + 8
    for segment in segments[1:3]:
        tiers.indexes.offsets(segment)
    tiers.indexes.offsets(segments[0])
    tiers.indexes.offsets(segments[3])
    assert len(tiers.disk.list(FOLDER)) == 3
    tiers.store.reads.clear()
    tiers.indexes.offsets(segments[0])
    assert not tiers.store.reads
    tiers.indexes.offsets(segments[1])
    assert tiers.store.reads
    tiers.cache_bytes = size + 8
    cache = tiers.new_indexes()
    cache.offsets(segments[1])
    assert len(tiers.disk.list(FOLDER)) == 1


@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_a_damaged_file_is_fetched_again(damage: str) -> None:
    @simulated
    async def script() -> None:
        tiers = Tiered()
        _, segments = with_segments(tiers)
        for suffix, get in (
            (INDEX, lambda cache: cache.offsets(segments[0]).data),
            (TIME_INDEX, lambda cache: cache.times(segments[0]).data),
            (TXN_INDEX, lambda cache: cache.aborted(segments[0])),
        ):
            whole = get(tiers.indexes)
            path = next(f"{FOLDER}/{name}" for name in tiers.disk.list(FOLDER) if name.endswith(suffix))
            if damage == "gone":
                tiers.disk.remove(path)
            elif damage == "cut":
                tiers.disk.replace_file(path, tiers.disk.read_file(path)[:-1])
            else:
                tiers.disk.replace_file(path, bytes([0x7F]) * tiers.disk.size(path))
            assert get(tiers.indexes) == whole
            assert get(tiers.new_indexes()) == whole

    script()


@simulated
async def test_an_index_that_leads_astray_is_fetched_again() -> None:
    tiers = Tiered()
    log, segments = with_segments(tiers)
    tiers.drop_local(log, 3)
    tiers.indexes.offsets(segments[0])
    path = next(f"{FOLDER}/{name}" for name in tiers.disk.list(FOLDER) if name.endswith(INDEX))
    data = bytearray(tiers.disk.read_file(path))
    data[7] ^= 1  # the first entry's position
    tiers.disk.replace_file(path, bytes(data))
    assert (await tiers.read(log, log.segments.first.base_offset - 1)).records
    first_entry = tiers.indexes.offsets(segments[0]).entry(0)[0]
    assert (await tiers.read(log, first_entry, max_bytes=1)).upper_offset == first_entry + 1


@simulated
async def test_an_index_that_is_damaged_in_the_store_is_an_error() -> None:
    tiers = Tiered()
    _, segments = with_segments(tiers)
    tiers.store.short = True
    with pytest.raises(RemoteStorageError, match="damaged"):
        tiers.indexes.aborted(segments[0])
    assert not tiers.disk.list(FOLDER)


@simulated
async def test_what_a_cut_off_write_left_is_removed() -> None:
    tiers = Tiered()
    _, segments = with_segments(tiers)
    tiers.disk.make_folder(FOLDER)
    tiers.disk.open(f"{FOLDER}/00000000000000000000_AAAAAAAAAAAAAAAAAAAAAQ.index.tmp", create=True)
    tiers.indexes.offsets(segments[0])
    assert tiers.disk.list(FOLDER) == ["00000000000000000000_AAAAAAAAAAAAAAAAAAAAAQ.index"]


@simulated
async def test_it_keeps_to_a_bound_that_was_lowered_and_forgets_what_it_is_told_to() -> None:
    tiers = Tiered()
    _, segments = with_segments(tiers)
    for segment in segments[:4]:
        tiers.indexes.offsets(segment)
    tiers.indexes.times(segments[2])
    assert tiers.indexes.segment_ids() == {uuid_text(each.segment_id) for each in segments[:4]}
    tiers.indexes.forget({uuid_text(segments[1].segment_id), uuid_text(segments[2].segment_id)})
    assert len(tiers.disk.list(FOLDER)) == 2
    tiers.cache_bytes = tiers.indexes.size_bytes - 1
    tiers.indexes.trim()
    (left,) = tiers.disk.list(FOLDER)
    assert left.startswith(f"{segments[3].start_offset:020}")
    assert tiers.indexes.size_bytes == tiers.disk.size(f"{FOLDER}/{left}")
    assert tiers.new_indexes().segment_ids() == {uuid_text(segments[3].segment_id)}


@simulated
async def test_an_index_that_the_store_does_not_give_keeps_no_other_waiting() -> None:
    tiers = Tiered()
    _, segments = with_segments(tiers)
    others = [replace(segments[1], segment_id=number.to_bytes(16, "big")) for number in range(100, 900)]
    for each in others:
        tiers.store.put_bytes(each.object_name(INDEX), b"")
    hangs, gate = threading.Event(), threading.Event()
    read = tiers.store.read

    def read_late(name: str, start: int, end: int) -> bytes:
        if name == segments[0].object_name(INDEX):
            hangs.set()
            assert gate.wait(60)
        return read(name, start, end)

    with patch.object(tiers.store, "read", read_late), ThreadPoolExecutor(2) as threads:
        late = threads.submit(tiers.indexes.offsets, segments[0])
        assert hangs.wait(60)
        try:
            threads.submit(lambda: [tiers.indexes.offsets(each) for each in others]).result(60)
            assert not late.done()
        finally:
            gate.set()
        assert late.result().data
    assert not tiers.indexes._turns
