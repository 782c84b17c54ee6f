"""Direct reading as the readers use it: manifests on the driver, rows in the tasks.

driver   ranges ─► `DirectReading.plan`: a manifest for each partition, ranges cut by files
task     `read_segments`: rows out of files; what they lack through a broker, where there is one
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.log.batch_scan import OldFormatError, scan_headers
from headrace.log.disk import Disk
from headrace.log.offset_index import OffsetIndex
from headrace.log.system_disk import SystemDisk
from headrace.spark.data_loss import report_data_loss
from headrace.spark.offsets import PartitionOffsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow, split
from headrace.spark.reading import read_range
from headrace.spark.segments.broker_manifests import BrokerManifests
from headrace.spark.segments.errors import NotInFilesError
from headrace.spark.segments.folders import FolderOffsets
from headrace.spark.segments.listing import ListedSegment, number_of
from headrace.spark.segments.manifest import PartitionManifest, check_identity
from headrace.spark.segments.places import leads_to_batch, load_index, open_segment
from headrace.spark.segments.remote_tier import RemoteTier, TieredDisk, open_remote
from headrace.spark.segments.rows import PartitionRows

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# As much as Spark gives a task that reads other files: half a second of work or more, beside which the tenth
# of a second that a Python task costs does not count for much.
TASK_BYTES: Final = 128 << 20
# A walk over as many bytes takes a task less than opening the file does.
INTERVAL_BYTES: Final = 64 << 10


class DirectReading:
    """Plans of one query; it remembers where the brokers' folders are."""

    def __init__(self, options: ReadOptions, disk: Disk | None = None) -> None:
        self._options = options
        self._disk = disk or SystemDisk()
        self._brokers = BrokerManifests(options, self._disk)
        self._places = KnownPlaces(self._disk)

    def plan(
        self, asked: PartitionOffsets, ranges: Iterable[OffsetRange]
    ) -> list[tuple[OffsetRange, PartitionManifest]]:
        """What each task reads, and of which files."""
        wanted = [each for each in ranges if each.size > 0]
        manifests = self.manifests(asked, [each.topic_partition for each in wanted])
        self._places.show_remote({each.folder: each.remote for each in manifests.values() if each.remote})
        pieces = split(
            split_by_files(wanted, manifests, self._places),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [(each, self._task_manifest(each, manifests[each.topic_partition])) for each in pieces]

    def _task_manifest(self, piece: OffsetRange, manifest: PartitionManifest) -> PartitionManifest:
        is_remote = manifest.remote is not None and piece.start < manifest.remote.end_offset
        # A segment in the remote store has a whole index.
        hint = None if is_remote else self._places.hint(manifest, piece.start)
        return replace(manifest.within(piece.start, piece.end), hint=hint)

    def manifests(
        self, asked: PartitionOffsets, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, PartitionManifest]:
        """The files of these partitions, and how far they may be read now."""
        if isinstance(asked, FolderOffsets):
            return asked.manifests(dict.fromkeys(partitions))
        return self._brokers.of(asked.admin, partitions) if partitions else {}


def read_segments(
    wanted: OffsetRange,
    options: ReadOptions,
    manifest: PartitionManifest,
    window: TimeWindow | None = None,
    disk: Disk | None = None,
) -> "Iterator[pa.RecordBatch]":
    """The rows of a range out of files, and from where those do not have it on, through a broker."""
    disk = disk or SystemDisk()
    left = wanted
    while left.size > 0:
        rows = PartitionRows(disk, manifest, left, options, window)
        try:
            check_identity(disk, manifest)
            yield from rows.read()
            return
        except NotInFilesError as error:
            left = replace(left, start=rows.next_offset)
            if manifest.has_broker:
                log.warning("%s are fetched from a broker, as they are not in the files: %s", left, error)
                yield from read_range(left, options, window)
                return
            report_data_loss(
                f"{left} are not in the files: {error}. What of a tiered topic has left the disk is in its "
                "brokers' remote store: to read it, name store.url too",
                options,
            )
            left = replace(left, start=min(left.end, error.resume_at or left.end))


class KnownPlaces:
    """Where batches start in a segment whose index is not on disk yet: found on the driver, told to tasks.

    headrace writes the index of an active segment when it rolls. A task that starts inside of one would have
    to walk there over all headers from the file's first byte, and a stream would do so for every micro-batch.
    The driver walks instead, each time only over what is new, and keeps what it has found in the index's own
    format: of each folder, the index of the segment that was looked at last and had none of its own.
    """

    def __init__(self, disk: Disk) -> None:
        self._local = self._disk = disk
        self._kept: dict[str, OffsetIndex] = {}

    def show_remote(self, tiers: Mapping[str, RemoteTier]) -> None:
        """Folders of which a part is in a remote store, the same one for all."""
        self._disk = self._local
        for tier in tiers.values():
            self._disk = TieredDisk(self._local, open_remote(tier.store), tiers)
            break

    def index(self, folder: str, base_offset: int, upto: int) -> OffsetIndex:
        """A segment's index, made up for where its own does not reach offset `upto`."""
        try:
            file = open_segment(self._disk, folder, base_offset)
        except NotInFilesError:
            return OffsetIndex(base_offset, b"")
        found = load_index(self._disk, folder, base_offset, file)
        kept = self._kept.get(folder)
        if kept is not None and kept.base_offset == base_offset and _last(kept)[1] > _last(found)[1]:
            found = kept if leads_to_batch(file, *_last(kept)) else found
        last_offset, position = _last(found)
        grown = OffsetIndex(base_offset, bytearray(found.data))
        with contextlib.suppress(InvalidBytesError, OldFormatError):
            for at, header in scan_headers(file, position, file.size()):
                if header.next_offset > upto:
                    break
                if at - position >= INTERVAL_BYTES and header.last_offset > last_offset:
                    grown.append(header.last_offset, at)
                    last_offset, position = header.last_offset, at
        if len(grown) > len(found):
            self._kept[folder] = grown
        return grown

    def hint(self, manifest: PartitionManifest, offset: int) -> tuple[int, int] | None:
        """(offset, position) of a batch at or a little before `offset`, where the files' own index is no
        help."""
        number = number_of(manifest.segments, offset)
        if number < 0:
            return None
        base_offset = manifest.segments[number].base_offset
        place = self.index(manifest.folder, base_offset, offset).lookup(offset)
        return place if place[1] else None


def _last(index: OffsetIndex) -> tuple[int, int]:
    """The last entry; the segment's start where there is none."""
    return index.entry(len(index) - 1) if len(index) else (index.base_offset - 1, 0)


def split_by_files(
    ranges: Iterable[OffsetRange],
    manifests: Mapping[TopicPartition, PartitionManifest],
    places: KnownPlaces,
) -> list[OffsetRange]:
    """The ranges, large ones in pieces of about TASK_BYTES, as Spark cuts files.

    A task that starts with a segment starts at its first byte. Inside of a segment, cuts lie on entries of
    its index.
    """
    pieces: list[OffsetRange] = []
    for each in ranges:
        cuts = _cuts(each, manifests[each.topic_partition], places)
        bounds = [each.start, *cuts, each.end]
        pieces += [OffsetRange(each.topic, each.partition, *piece) for piece in pairwise(bounds)]
    return pieces


def _cuts(wanted: OffsetRange, manifest: PartitionManifest, places: KnownPlaces) -> list[int]:
    """Offsets inside of the range, in order, at which pieces start."""
    segments = manifest.segments
    cuts: list[int] = []
    for number in range(max(number_of(segments, wanted.start), 0), len(segments)):
        segment = segments[number]
        if segment.base_offset >= wanted.end:
            break
        cuts.append(segment.base_offset)
        pieces = max(1, round(segment.size / TASK_BYTES))
        if pieces > 1:
            cuts += _inside(places.index(manifest.folder, segment.base_offset, wanted.end), segment, pieces)
    cuts = sorted({cut for cut in cuts if wanted.start < cut < wanted.end})
    return _thinned(cuts, segments, wanted)


def _inside(index: OffsetIndex, segment: ListedSegment, pieces: int) -> list[int]:
    """Offsets that cut a segment into so many pieces of about the same size."""
    entries = (index.offset_before(segment.size * piece // pieces) for piece in range(1, pieces))
    # An entry names the last offset of a batch: the next batch starts behind it.
    return [offset + 1 for offset in entries if offset > segment.base_offset]


def _thinned(cuts: list[int], segments: tuple[ListedSegment, ...], wanted: OffsetRange) -> list[int]:
    """Without cuts between segments so small that several make one task."""
    kept: list[int] = []
    last = wanted.start
    for cut in cuts:
        if _bytes_between(segments, last, cut) >= TASK_BYTES // 2:
            kept.append(cut)
            last = cut
    return kept


def _bytes_between(segments: tuple[ListedSegment, ...], start: int, end: int) -> float:
    """About how many bytes lie between two offsets, as if each segment's were spread evenly."""
    total = 0.0
    for number in range(max(number_of(segments, start), 0), len(segments)):
        base_offset, size, _ = segments[number]
        if base_offset >= end:
            break
        is_last = number + 1 == len(segments)
        following = max(end, base_offset + 1) if is_last else segments[number + 1].base_offset
        inside = min(end, following) - max(start, base_offset)
        total += size * inside / (following - base_offset)
    return total
