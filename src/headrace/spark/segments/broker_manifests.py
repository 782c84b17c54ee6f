"""Manifests of a cluster that runs: stock requests tell where files are and how far they may be read.

Metadata has the leaders and in-sync replicas, ListOffsets the high watermark or last stable offset, and
DescribeLogDirs the folders of the leaders' replicas; Apache Kafka answers them as well. Folders do not move
often, so they are asked for once, and again when a leader has changed or a folder is gone. What a tiered
topic has in a remote store is added where the user says how to reach it.
"""

import contextlib
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.clients.places import Place
from headrace.log.disk import Disk
from headrace.spark.options import ReadOptions
from headrace.spark.segments.errors import NotInFilesError
from headrace.spark.segments.folders import partition_folders
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.remote_manifests import RemoteTiers

if TYPE_CHECKING:  # tasks have no use for an administrator
    from headrace.clients import Admin
    from headrace.clients.administering.topics import PartitionDescription


class BrokerManifests:
    """Asks through an administrator that somebody else keeps; remembers folders by leader."""

    def __init__(self, options: ReadOptions, disk: Disk) -> None:
        self._options, self._disk = options, disk
        self._folders: dict[tuple[int, TopicPartition], str] = {}
        self._seen: set[str] = set()
        self._remote = RemoteTiers(options) if options.has_store else None

    def of(
        self, admin: "Admin", partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionManifest]:
        """What can be read of these partitions now."""
        bounds = admin.find_offsets(
            dict.fromkeys(partitions, Place.LATEST), is_committed=self._options.is_committed
        )
        starts = admin.find_offsets(dict.fromkeys(partitions, Place.EARLIEST))
        tiers = {} if self._remote is None else self._remote.of(admin, starts)
        found = {}
        for topic in admin.describe_topics(sorted({each.topic for each in partitions})):
            for described in topic.partitions:
                partition = TopicPartition(topic.name, described.number)
                if partition in bounds:
                    manifest = PartitionManifest(
                        folder="",
                        start=starts[partition].offset,
                        bound=bounds[partition].offset,
                        aborted=() if self._options.is_committed else None,
                        topic_id=TopicId(uuid_bytes(topic.topic_id)),
                        has_broker=True,
                        remote=tiers.get(partition),
                    )
                    found[partition] = self._located(admin, partition, described, manifest)
        return found

    def _located(
        self,
        admin: "Admin",
        partition: TopicPartition,
        described: "PartitionDescription",
        manifest: PartitionManifest,
    ) -> PartitionManifest:
        """The manifest with its folder, and with the segments in it where they can be seen from here."""
        if self._options.path is not None:
            return self._in_path(self._options.path, partition, manifest)
        key = described.leader, partition
        if key not in self._folders or self._is_gone(self._folders[key]):
            self._learn_folders(admin, described.leader)
        folder = self._folders.setdefault(key, "")
        nodes = tuple({described.leader: None, **dict.fromkeys(described.isr)})
        return self._listed(replace(manifest, folder=folder, nodes=nodes))

    def _is_gone(self, folder: str) -> bool:
        """Whether a folder that was seen from here before is not there any more."""
        return folder in self._seen and not self._disk.is_folder(folder)

    def _learn_folders(self, admin: "Admin", node: int) -> None:
        """A replica that is being moved is in two folders, and only where it was does it have its name."""
        for log_dir in admin.describe_log_dirs(node):
            for partition in log_dir.partitions:
                folder = f"{log_dir.path.rstrip('/')}/{partition}"
                if self._disk.is_folder(folder):
                    self._seen.add(folder)
                    self._folders[node, partition] = folder
                elif self._folders.get((node, partition)) not in self._seen:
                    self._folders[node, partition] = folder

    def _in_path(
        self, path: str, partition: TopicPartition, manifest: PartitionManifest
    ) -> PartitionManifest:
        places = partition_folders(self._disk, path).get(partition, ())
        listed = [self._listed(replace(manifest, folder=place.path)) for place in places]
        return max(listed, key=lambda each: each.segments[-1:], default=manifest)

    def _listed(self, manifest: PartitionManifest) -> PartitionManifest:
        with contextlib.suppress(NotInFilesError):
            return manifest.listed(self._disk)
        return manifest
