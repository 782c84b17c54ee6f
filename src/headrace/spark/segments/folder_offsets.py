"""The partitions of a path and their offsets, in the place of a cluster's."""

from collections.abc import Mapping, Sequence

from headrace.base.ids import TopicPartition
from headrace.clients.places import Place
from headrace.log.system_disk import SystemDisk
from headrace.spark.offsets import Offsets, PartitionOffsets, TopicPartitions
from headrace.spark.option_values import OptionError
from headrace.spark.options import ReadOptions
from headrace.spark.segments.folders import INTERNAL_PREFIX, FolderManifests, partition_folders
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.times import first_at


class FolderOffsets(PartitionOffsets):
    """Looks into the folders each time it is asked: a broker that runs elsewhere may write on."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        assert options.path is not None
        self._path = options.path
        self._disk = SystemDisk()
        self._manifests = FolderManifests(self._disk, is_committed=options.is_committed)

    def _topics(self, names: Sequence[str] | None = None) -> dict[str, TopicPartitions]:
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(partition_folders(self._disk, self._path)):
            numbers.setdefault(topic, []).append(number)
        return {
            topic: TopicPartitions(found, topic.startswith(INTERNAL_PREFIX))
            for topic, found in numbers.items()
        }

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
        return {each: self._manifests.of(folders[each]) for each in partitions}

    def _find(self, manifest: PartitionManifest, time: int) -> int:
        if time == Place.EARLIEST:
            return manifest.start
        if time == Place.LATEST:
            return manifest.bound
        found = first_at(
            self._disk,
            manifest.folder,
            manifest.segments,
            time,
            start=manifest.start,
            bound=manifest.bound,
        )
        return -1 if found is None else found[0]
