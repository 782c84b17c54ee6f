"""Direct reading as the readers use it: manifests on the driver, rows in the tasks.

driver   ranges ─► `DirectReading.plan`: a manifest for each partition, ranges cut by files
task     `read_segments`: rows out of files; what they lack through a broker, where there is one
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.base.ids import TopicPartition
from headrace.log.disk import Disk
from headrace.log.system_disk import SystemDisk
from headrace.spark.data_loss import report_data_loss
from headrace.spark.offsets import PartitionOffsets
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow, split
from headrace.spark.reading import read_range
from headrace.spark.segments.broker_manifests import BrokerManifests
from headrace.spark.segments.errors import NotInFilesError
from headrace.spark.segments.folder_offsets import FolderOffsets
from headrace.spark.segments.known_places import KnownPlaces
from headrace.spark.segments.manifest import PartitionManifest, check_identity
from headrace.spark.segments.rows import PartitionRows
from headrace.spark.segments.splitting import split_by_files

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


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
            report_data_loss(f"{left} are not in the files: {error}", options)
            left = replace(left, start=min(left.end, error.resume_at or left.end))
