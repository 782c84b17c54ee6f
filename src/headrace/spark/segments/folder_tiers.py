"""What lies in a remote store of partitions that are found in folders, with no broker to ask.

Brokers live by the records of `__remote_log_metadata`, whose partitions are folders of their log directories
like any other's. They are read to their last whole batch, whatever the high watermark was written down as: a
record that a new leader would cut off tells of a copy that is in the store all the same, made of records that
were replicated, and a segment that has left the disk was told of before.

A folder tells by its `leader-epoch-checkpoint` which copy is the end of its remote part, and the copy's own
epochs which of those before it are of the same log.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_EPOCH, TopicPartition
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.log.checkpoints import decode_epochs, decode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.file_names import LEADER_EPOCHS, PARTITION_METADATA
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange
from headrace.spark.segments.manifest import PartitionManifest
from headrace.spark.segments.remote_tier import (
    RemoteLineages,
    RemoteTier,
    StoreAddress,
    open_remote,
    without_gaps,
)
from headrace.spark.segments.rows import PartitionRows
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import known_record
from headrace.tiered.segment_metadata import TopicIdPartition

if TYPE_CHECKING:
    from headrace.tiered.segment_metadata import RemoteLogSegmentMetadata

log = logging.getLogger(__name__)


class FolderTiers:
    """Remembers what it has read of the topic of metadata, and reads on from there."""

    def __init__(self, options: ReadOptions, disk: Disk) -> None:
        self._disk = disk
        self._address = StoreAddress(options.store_url, options.store_class, options.store_settings)
        self._lineages = RemoteLineages(open_remote(self._address))
        self._reading = replace(options, columns=("value",), settings={})
        self._logs = RemotePartitionMetadataStore()
        self._read_to: dict[TopicPartition, int] = {}

    def read(self, logs: Mapping[TopicPartition, PartitionManifest]) -> None:
        """Take in what is new in the partitions of `__remote_log_metadata`."""
        for partition, manifest in logs.items():
            assert partition.topic == REMOTE_LOG_TOPIC
            start = max(self._read_to.get(partition, 0), manifest.start)
            wanted = OffsetRange(*partition, start, manifest.bound)
            for batch in PartitionRows(self._disk, manifest, wanted, self._reading).read():
                for value in batch.column("value").to_pylist():
                    self._apply(value)
            self._read_to[partition] = max(start, manifest.bound)

    def of(self, partition: TopicPartition, folder: str, local_start: int) -> RemoteTier | None:
        """What lies in front of a folder that begins there; None where nothing is known to."""
        remote = self._known(partition, folder)
        segments = self._readable(remote, folder)
        kept = without_gaps(segments, local_start)
        return RemoteTier(self._address, kept) if kept else None

    def removed_to(self, partition: TopicPartition, folder: str) -> int:
        """Below this, segments were removed because of their age or the log's size."""
        return self._known(partition, folder).removed_to

    def _known(self, partition: TopicPartition, folder: str) -> RemoteLogMetadataCache:
        try:
            topic_id = decode_partition_metadata(self._disk.read_file(f"{folder}/{PARTITION_METADATA}"))
        except (OSError, InvalidBytesError):
            log.warning(
                "%s is read without the remote store: %s, which has its topic's id, is missing or damaged",
                partition,
                f"{folder}/{PARTITION_METADATA}",
            )
            return RemoteLogMetadataCache()
        return self._logs.known(TopicIdPartition(topic_id, partition))

    def _readable(self, remote: RemoteLogMetadataCache, folder: str) -> "Sequence[RemoteLogSegmentMetadata]":
        epochs = self._epochs(folder)
        for last in sorted(remote.finished(), key=lambda each: each.end_offset, reverse=True):
            # A folder's epochs may begin with its own first record: then it has nothing against the copy.
            if epochs.epoch_for_offset(last.end_offset) in (NO_EPOCH, last.epoch_at(last.end_offset)):
                return self._lineages.readable(remote, last)
        return ()

    def _epochs(self, folder: str) -> LeaderEpochFileCache:
        try:
            return LeaderEpochFileCache(decode_epochs(self._disk.read_file(f"{folder}/{LEADER_EPOCHS}")))
        except (OSError, InvalidBytesError):
            return LeaderEpochFileCache()

    def _apply(self, value: bytes | None) -> None:
        record = known_record(value)
        if record is not None:
            self._logs.apply(record)
