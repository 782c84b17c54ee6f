"""Partitions found in folders, with no broker to ask: which there are, and how far they can be read.

A path is a log directory, a partition's folder, or several of either with commas between. A partition that
lies in more than one of them is taken where it reaches furthest.

How far records may be read is said by the high watermark. A broker writes it down every few seconds and when
it stops (`replication-offset-checkpoint` of the log directory), so what a killed broker wrote last may lie
behind it and is not shown: nobody knows whether it was replicated. Where there is no such file, as in a copy
of a single partition's folder, the log is read to the end of its last whole batch.

Of a tiered topic a folder holds the end only. Where the user names the store, what is in front of it is read
there (`folder_tiers.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition, uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.clients import OffsetSpec
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.checkpoints import decode_offsets, decode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.file_names import (
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    TIME_INDEX,
    parse_partition_folder,
)
from headrace.log.system_disk import SystemDisk
from headrace.log.time_index import TimeIndex, without_reserve
from headrace.records.batch import find_record
from headrace.spark.offsets import Offsets, PartitionOffsets, TopicPartitions
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions
from headrace.spark.segments.errors import DamagedSegmentError
from headrace.spark.segments.folder_tiers import FolderTiers
from headrace.spark.segments.listing import ListedSegment, list_segments, segment_stem
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.places import end_of_batches, open_segment, position_of
from headrace.spark.segments.transactions import decide

INTERNAL_PREFIX: Final = "__"


class FoundFolder(NamedTuple):
    """A partition's folder and what its log directory remembers of it; None where it does not."""

    path: str
    log_start: int | None
    high_watermark: int | None


def partition_folders(disk: Disk, path: str) -> dict[TopicPartition, list[FoundFolder]]:
    """All partitions in a path; OptionError where it is not there or has none."""
    found: dict[TopicPartition, list[FoundFolder]] = {}
    for each in filter(None, map(str.strip, path.split(","))):
        folder = each.rstrip("/") or "/"
        if not disk.is_folder(folder):
            raise OptionError(f"option path: {folder} is not a folder that can be reached from here")
        here = _in_folder(disk, folder)
        if not here:
            raise OptionError(
                f"option path: {folder} is neither a log directory with partitions nor a partition's folder"
            )
        for partition, place in here.items():
            found.setdefault(partition, []).append(place)
    return found


def _in_folder(disk: Disk, folder: str) -> dict[TopicPartition, FoundFolder]:
    parent, _, name = folder.rpartition("/")
    own = parse_partition_folder(name)
    if own is not None and any(each.endswith(".log") for each in disk.list(folder)):
        return _with_checkpoints(disk, parent or "/", {own.topic_partition: folder})
    folders = {}
    for child in disk.list(folder):
        parsed = parse_partition_folder(child)
        path = f"{folder}/{child}"
        if parsed is None or parsed.state or parsed.topic_partition == CLUSTER_METADATA:
            continue
        if disk.is_folder(path):
            folders[parsed.topic_partition] = path
    return _with_checkpoints(disk, folder, folders)


def _with_checkpoints(
    disk: Disk, log_dir: str, folders: Mapping[TopicPartition, str]
) -> dict[TopicPartition, FoundFolder]:
    starts, watermarks = _offsets(disk, log_dir, LOG_STARTS), _offsets(disk, log_dir, HIGH_WATERMARKS)
    return {
        partition: FoundFolder(path, starts.get(partition), watermarks.get(partition))
        for partition, path in folders.items()
    }


def _offsets(disk: Disk, log_dir: str, name: str) -> Mapping[TopicPartition, int]:
    try:
        return decode_offsets(disk.read_file(f"{log_dir}/{name}"))
    except (OSError, InvalidBytesError):
        return {}


class FolderManifests:
    """Says what can be read of folders; it remembers where logs ended that have not grown since."""

    def __init__(self, disk: Disk, *, is_committed: bool, tiers: FolderTiers | None = None) -> None:
        self._disk, self._is_committed, self._tiers = disk, is_committed, tiers
        self._ends: dict[str, tuple[ListedSegment, tuple[int, bool]]] = {}

    def of(self, partition: TopicPartition, places: Iterable[FoundFolder]) -> PartitionManifest:
        """Of a partition, from that of its folders that reaches furthest."""
        return max((self._manifest(partition, each) for each in places), key=lambda each: each.bound)

    def _manifest(self, partition: TopicPartition, place: FoundFolder) -> PartitionManifest:
        local = list_segments(self._disk, place.path)
        first = local[0].base_offset if local else 0
        # A log that begins before its first file is a tiered one: what is missing is in the brokers' store,
        # and who reads it here without that is told so.
        start = first if place.log_start is None else place.log_start
        bound = max(start, self._bound(place, local))
        found = PartitionManifest(place.path, start, bound, local)
        if self._tiers is not None and (place.log_start is None or start < first):
            found = self._with_remote(self._tiers, partition, found, first)
        if not self._is_committed:
            return found
        decided = decide(found.disk(self._disk), place.path, found.segments, bound)
        stable = max(found.start, decided.last_stable_offset)
        return replace(found, bound=stable, aborted=decided.aborted)

    def _with_remote(
        self, tiers: FolderTiers, partition: TopicPartition, local: PartitionManifest, first: int
    ) -> PartitionManifest:
        remote = tiers.of(partition, local.folder, first)
        if remote is None:
            return local
        start, begins = local.start, remote.segments[0].start_offset
        if start == first or start < begins <= tiers.removed_to(partition, local.folder):
            start = begins  # nobody wrote it down, or the store has let go of more since then
        return replace(local, start=start, remote=remote).listed(self._disk)

    def _bound(self, place: FoundFolder, segments: tuple[ListedSegment, ...]) -> int:
        """The high watermark, or where the batches end if that is known to be less, or all there is to know.

        Damage below the high watermark does not move it: whoever reads that far is to be told.
        """
        if not segments:
            return 0
        end, is_damaged = self._end(place.path, segments[-1])
        if place.high_watermark is None:
            return end
        return place.high_watermark if is_damaged else min(place.high_watermark, end)

    def _end(self, path: str, last: ListedSegment) -> tuple[int, bool]:
        """See `end_of_batches`, which reads much where an index is missing."""
        known = self._ends.get(path)
        if known is None or known[0] != last:
            known = self._ends[path] = last, end_of_batches(self._disk, path, last.base_offset)
        return known[1]


class FolderOffsets(PartitionOffsets):
    """Looks into the folders each time it is asked: a broker that runs elsewhere may write on."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        assert options.path is not None
        self._path = options.path
        self._disk = SystemDisk()
        self._tiers = FolderTiers(options, self._disk) if options.has_store else None
        self._manifests = FolderManifests(self._disk, is_committed=options.is_committed, tiers=self._tiers)

    def _topics(self, names: Sequence[str] | None = None) -> dict[str, TopicPartitions]:
        numbers: dict[str, list[int]] = {}
        ids: dict[str, str | None] = {}
        for (topic, number), places in sorted(partition_folders(self._disk, self._path).items()):
            numbers.setdefault(topic, []).append(number)
            if topic not in ids:
                ids[topic] = self._topic_id(places[0].path)
        return {
            topic: TopicPartitions(found, topic.startswith(INTERNAL_PREFIX), ids[topic])
            for topic, found in numbers.items()
        }

    def _topic_id(self, folder: str) -> str | None:
        """As the broker has written it down; None in a copy that leaves that out."""
        try:
            return uuid_text(
                decode_partition_metadata(self._disk.read_file(f"{folder}/{PARTITION_METADATA}"))
            )
        except (OSError, InvalidBytesError):
            return None

    def _at(self, times: Mapping[TopicPartition, int]) -> Offsets:
        manifests = self.manifests(times)
        return {partition: self._find(manifests[partition], time) for partition, time in times.items()}

    def manifests(
        self, partitions: Mapping[TopicPartition, object]
    ) -> dict[TopicPartition, PartitionManifest]:
        """What can be read of these partitions now."""
        folders = partition_folders(self._disk, self._path)
        missing = set(partitions).difference(folders)
        if missing:
            raise OptionError(f"option path: {self._path} has no partition {min(missing)}")
        if self._tiers is not None:
            self._tiers.read(self._remote_log_metadata(folders))
        return {each: self._manifests.of(each, folders[each]) for each in partitions}

    def _remote_log_metadata(
        self, folders: Mapping[TopicPartition, Sequence[FoundFolder]]
    ) -> dict[TopicPartition, PartitionManifest]:
        """To the last whole batch, wherever the high watermark is."""
        manifests = FolderManifests(self._disk, is_committed=False)
        found = {
            each: manifests.of(each, [place._replace(high_watermark=None) for place in places])
            for each, places in folders.items()
            if each.topic == REMOTE_LOG_TOPIC
        }
        if not found:
            raise OptionError(
                f"option path: {self._path} has no partition of {REMOTE_LOG_TOPIC}, which tells what is in "
                "the store: name a whole log directory, or kafka.bootstrap.servers to ask the brokers"
            )
        return found

    def _find(self, manifest: PartitionManifest, time: int) -> int:
        if time == OffsetSpec.EARLIEST:
            return manifest.start
        if time == OffsetSpec.LATEST:
            return manifest.bound
        found = first_at(
            manifest.disk(self._disk),
            manifest.folder,
            manifest.segments,
            time,
            start=manifest.start,
            bound=manifest.bound,
        )
        return -1 if found is None else found[0]


def first_at(
    disk: Disk, folder: str, segments: Sequence[ListedSegment], timestamp: int, *, start: int, bound: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record in [start, bound) that is not older; None without one.

    Found as a broker does it: by the time indexes, then over a few batches.
    """
    for number, segment in enumerate(segments):
        if segment.base_offset >= bound:
            return None
        index = _load(disk, folder, segment.base_offset)
        is_last = number + 1 == len(segments)
        if not is_last and (segments[number + 1].base_offset <= start or 0 <= index.last()[0] < timestamp):
            continue
        # No record before this offset is young enough. Records of the same time may precede the entry's.
        search_from = max(index.lookup(timestamp - 1)[1], start)
        found = _search(disk, folder, segment.base_offset, timestamp, search_from, start)
        if found is not None:
            return found if found[0] < bound else None
    return None


def _load(disk: Disk, folder: str, base_offset: int) -> TimeIndex:
    """A segment's time index, empty where it is missing or not one."""
    try:
        data = without_reserve(disk.read_file(segment_stem(folder, base_offset) + TIME_INDEX))
        index = TimeIndex(base_offset, data)
        index.check()
    except (OSError, InvalidBytesError):
        return TimeIndex(base_offset, b"")
    return index


def _search(
    disk: Disk, folder: str, base_offset: int, timestamp: int, search_from: int, start: int
) -> tuple[int, int] | None:
    file = open_segment(disk, folder, base_offset)
    position = position_of(disk, folder, base_offset, file, search_from)
    try:
        for at, header in scan_headers(file, position, file.size()):
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            batch = file.read(at, header.size)
            found = find_record(batch, timestamp_min=timestamp, offset_min=start)
            if found is not None:
                return found
    except (InvalidBytesError, OldFormatError) as error:
        raise DamagedSegmentError(f"{file.path}, searched for time {timestamp}: {error}") from None
    return None
