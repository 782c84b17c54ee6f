"""A round of compaction in the remote store; whole nodes do it in `tests/remote_log/test_compaction.py`."""

import random
from dataclasses import dataclass, replace
from itertools import count

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.compaction.cleaner import CleanerLimits
from headrace.log.disk import File
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage
from headrace.records.batch import Record, batches, build_batch, read_records
from headrace.records.compaction.offset_map import OffsetMap
from headrace.remote_log import compactor
from headrace.remote_log.compactor import RemoteCleanable, SegmentCut, Tools, compact
from headrace.remote_log.steps import AwaitQuota, Publish, Publisher
from headrace.settings.topic import TopicConfig
from headrace.testing.disk import VirtualDisk, VirtualFile
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata
from headrace.tiered.stores.folder import FolderStore
from tests.tiered.building import remote_segment

NOW_MS = 1_000_000


def batch_at(offset: int, size: int = 1) -> bytes:
    rows = [Record(timestamp=NOW_MS, key=b"k%d" % each, value=b"v") for each in range(offset, offset + size)]
    return bytes(build_batch(rows, base_offset=offset))


@dataclass
class Scene:
    """A partition with copies in a store; what blocks is only done between two steps."""

    disk: VirtualDisk
    store: FolderStore
    remote: RemoteLogMetadataCache
    found: RemoteCleanable
    is_in_thread: bool = False

    def run(self) -> bool:
        ids = count(100)
        tools = Tools(
            store=self.store,
            publisher=Publisher(1, lambda: NOW_MS),
            disk=self.disk,
            scratch="/scratch",
            table=OffsetMap(1 << 20, 0.9, (1, 2)),
            limits=CleanerLimits(buffer_bytes=1 << 16),
            new_id=lambda: next(ids).to_bytes(16, "big"),
            is_leading=lambda: True,
        )
        steps = compact(self.found, self.remote, tools)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Publish):
                    if isinstance(step.record, RemoteLogSegmentMetadata):
                        self.remote.apply(step.record)
                    else:
                        self.remote.update(step.record)
                    step = steps.send(1)
                    continue
                if isinstance(step, AwaitQuota):
                    step = steps.send(0)
                    continue
                self.is_in_thread = True
                moved = step()
                self.is_in_thread = False
                step = steps.send(moved)
        except StopIteration as stop:
            return bool(stop.value)

    def offsets(self) -> list[int]:
        found = []
        for segment in self.remote.finished():
            data = self.store.read(segment.object_name(".log"), 0, 1 << 20)
            found += [record.offset for at, _ in batches(data) for record in read_records(data, at)]
        return found


def scene(*spans: tuple[int, int]) -> Scene:
    """Copies of so many offsets, each in a batch of its own; each key is there once."""
    disk = VirtualDisk(rng=random.Random(1))
    disk.make_folder("/remote")
    config = TopicConfig(remote_storage_enable=True, cleanup_policy=frozenset({"compact"}))
    storage = Storage(disk, random.Random(1))
    log = open_log(storage, "/rows-3", TopicPartition("rows", 3), config, now_ms=NOW_MS)
    store, remote, segments = FolderStore(disk, "/remote"), RemoteLogMetadataCache(), []
    for number, (start, end) in enumerate(spans):
        data = b"".join(batch_at(offset) for offset in range(start, end + 1))
        segment = replace(remote_segment(number, start, end, size=len(data)), has_aborted=False)
        store.put_bytes(segment.object_name(".log"), data)
        for suffix in (".snapshot", ".epochs"):
            store.put_bytes(segment.object_name(suffix), b"")
        remote.apply(segment)
        segments.append(segment)
    return Scene(disk, store, remote, RemoteCleanable(log, segments, 0, sum(each.size for each in segments)))


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is walked over to find where a neighbour starts."""
    found: list[int] = []
    walk = compactor.walk_batches

    def noted(data: bytes) -> object:
        found.append(len(data))
        return walk(data)

    monkeypatch.setattr(compactor, "walk_batches", noted)
    return found


def test_files_are_read_in_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of 64 MiB in small batches had been read on the event loop, for more than a second."""
    round_ = scene((0, 9), (5, 14))
    read = VirtualFile.read

    def guarded(self: VirtualFile, position: int, count: int) -> bytes:
        assert round_.is_in_thread
        return read(self, position, count)

    monkeypatch.setattr(VirtualFile, "read", guarded)
    assert round_.run()
    monkeypatch.undo()
    assert round_.offsets() == list(range(15))
    assert len(round_.remote.finished()) == 1


def test_a_neighbour_that_starts_behind_is_not_looked_for(walks: list[int]) -> None:
    round_ = scene((0, 9), (10, 14))
    assert round_.run()
    assert round_.offsets() == list(range(15))
    assert walks == []


def file_of(*written: bytes) -> tuple[File, int]:
    disk = VirtualDisk()
    file = disk.open("/a.log", create=True)
    return file, file.write(0, list(written))


@pytest.mark.parametrize("piece_bytes", [80, 200, 1 << 20])
def test_where_to_cut(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(compactor, "PIECE_BYTES", piece_bytes)
    first, second, third = batch_at(0), batch_at(3, 4), batch_at(10)
    file, size = file_of(first, second, third)
    two, three = len(first), len(first + second)
    expected = {0: 0, 1: two, 3: two, 4: three, 6: three, 7: three, 10: three, 11: size}
    for offset, at in expected.items():
        cut = SegmentCut(file, size, offset)
        assert cut.find() == 0
        assert cut.size == at, offset
    with pytest.raises(InvalidBytesError, match="cut off"):
        SegmentCut(file, size - 1, 11).find()
