"""Partitions found in folders, with no broker to ask: which there are, and how far they can be read.

A path is a log directory, a partition's folder, or several of either with commas between. A partition that
lies in more than one of them is taken where it reaches furthest.

How far records may be read is said by the high watermark. A broker writes it down every few seconds and when
it stops (`replication-offset-checkpoint` of the log directory), so what a killed broker wrote last may lie
behind it and is not shown: nobody knows whether it was replicated. Where there is no such file, as in a copy
of a single partition's folder, the log is read to the end of its last whole batch.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.log.disk import Disk
from headrace.log.file_names import CLUSTER_METADATA, HIGH_WATERMARKS, LOG_STARTS, parse_partition_folder
from headrace.spark.option_values import OptionError
from headrace.spark.segments.listing import ListedSegment, list_segments
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.places import end_of_batches
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

    def __init__(self, disk: Disk, *, is_committed: bool) -> None:
        self._disk, self._is_committed = disk, is_committed
        self._ends: dict[str, tuple[ListedSegment, tuple[int, bool]]] = {}

    def of(self, places: Iterable[FoundFolder]) -> PartitionManifest:
        """Of a partition, from that of its folders that reaches furthest."""
        return max(map(self._manifest, places), key=lambda each: each.bound)

    def _manifest(self, place: FoundFolder) -> PartitionManifest:
        segments = list_segments(self._disk, place.path)
        start = max(place.log_start or 0, segments[0].base_offset if segments else 0)
        bound = max(start, self._bound(place, segments))
        if not self._is_committed:
            return PartitionManifest(place.path, start, bound, segments)
        decided = decide(self._disk, place.path, segments, bound)
        stable = max(start, decided.last_stable_offset)
        return PartitionManifest(place.path, start, stable, segments, decided.aborted)

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
