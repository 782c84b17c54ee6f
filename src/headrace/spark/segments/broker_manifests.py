"""Manifests of a cluster that runs: stock requests tell where files are and how far they may be read.

Metadata has the leaders and in-sync replicas, ListOffsets the high watermark or last stable offset, and
DescribeLogDirs the folders of the leaders' replicas; Apache Kafka answers them as well. Folders do not move
often, so they are asked for once, and again when a leader has changed or a folder is gone. What a tiered
topic has in a remote store is added where the user says how to reach it.
"""

import contextlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.clients import OffsetAndTimestamp, OffsetSpec
from headrace.clients.errors import RefusedError
from headrace.clients.remote_logs import ClusterRemoteLogs
from headrace.log.disk import Disk
from headrace.spark.options import ReadOptions
from headrace.spark.segments.errors import NotInFilesError
from headrace.spark.segments.folders import partition_folders
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.remote_tier import (
    RemoteLineages,
    RemoteTier,
    StoreAddress,
    open_remote,
    without_gaps,
)
from headrace.tiered.metadata_cache import RemoteLogMetadataCache
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)

if TYPE_CHECKING:  # tasks have no use for an administrator
    from headrace.clients import Admin, LogDirDescription, TopicPartitionInfo

log = logging.getLogger(__name__)

NEEDS_DESCRIBE: Final = (
    "direct reading needs DESCRIBE on the cluster: have it granted with `headrace acl add --principal "
    "User:NAME --operation describe --cluster`, name the folders with the option `path`, or leave "
    "read.mode out"
)


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
        bounds = admin.list_offsets(
            dict.fromkeys(partitions, OffsetSpec.LATEST), is_committed=self._options.is_committed
        )
        starts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
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
        described: "TopicPartitionInfo",
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
        for log_dir in _log_dirs(admin, node):
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


def _log_dirs(admin: "Admin", node: int) -> "list[LogDirDescription]":
    """RefusedError with the right that is missing, which no rule about topics gives."""
    try:
        return admin.describe_log_dirs(node)
    except RefusedError as refused:
        if refused.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        raise RefusedError(
            refused.code, f"cannot ask broker {node} for its folders", NEEDS_DESCRIBE
        ) from None


class RemoteTiers:
    """Which segments of tiered partitions are in the remote store, and are the ones to be read.

    ListOffsets tells where a partition's local part starts and how far the remote one reaches, with the epoch
    of its last record; the records of `__remote_log_metadata` tell the segments, and the epochs beside the
    last one in the store which of them are this log's.

    It asks through an administrator that somebody else keeps, and remembers what it has read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._address = StoreAddress(options.store_url, options.store_class, options.store_settings)
        self._lineages = RemoteLineages(open_remote(self._address))
        self._logs = ClusterRemoteLogs(options.settings)

    def of(
        self, admin: "Admin", starts: Mapping[TopicPartition, OffsetAndTimestamp]
    ) -> dict[TopicPartition, RemoteTier]:
        """What lies in front of the local parts of partitions whose logs start there."""
        try:
            local_starts = admin.list_offsets(dict.fromkeys(starts, OffsetSpec.EARLIEST_LOCAL))
            tiered = [each for each in starts if starts[each].offset < local_starts[each].offset]
            ends = admin.list_offsets(dict.fromkeys(tiered, OffsetSpec.LATEST_TIERED)) if tiered else {}
        except RefusedError as error:
            log.warning("brokers do not tell of tiers, records are read without the store: %s", error)
            return {}
        wanted = [each for each in tiered if ends[each].offset >= 0]
        if not wanted:
            return {}
        topics = admin.describe_topics(sorted({each.topic for each in wanted}))
        ids = {topic.name: topic.topic_id for topic in topics}
        whole = {each: TopicIdPartition(TopicId(uuid_bytes(ids[each.topic])), each) for each in wanted}
        logs = self._logs.of(admin, whole.values())
        found = {}
        for partition, with_id in whole.items():
            segments = self._readable(logs[with_id], ends[partition])
            kept = without_gaps(segments, local_starts[partition].offset)
            if kept:
                found[partition] = RemoteTier(self._address, kept)
        return found

    def _readable(
        self, remote: RemoteLogMetadataCache, end: OffsetAndTimestamp
    ) -> list[RemoteLogSegmentMetadata]:
        """Those of the log whose remote part ends with this record."""
        last = [
            each
            for each in remote.in_states(RemoteLogSegmentState.COPY_FINISHED)
            if each.start_offset <= end.offset <= each.end_offset and each.epoch_at(end.offset) == end.epoch
        ]
        return self._lineages.readable(remote, last[-1]) if last else []
