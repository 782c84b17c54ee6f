"""Which segments of a tiered partition are in the remote store, and are the ones to be read.

ListOffsets tells where a partition's local part starts and how far the remote one reaches, with the epoch of
its last record; the records of `__remote_log_metadata` tell the segments. A copy that a deposed leader made
of records that the log lost since must not be read, so the epochs that the log had are asked for: they lie
beside the last segment in the store.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.clients.errors import RefusedError
from headrace.clients.offset_lookup import FoundOffset
from headrace.clients.places import Place
from headrace.clients.remote_logs import ClusterRemoteLogs
from headrace.log.checkpoints import decode_epochs
from headrace.log.leader_epochs import LeaderEpochs
from headrace.spark.options import ReadOptions
from headrace.spark.segments.remote_tier import RemoteTier, StoreAddress, open_remote, without_gaps
from headrace.tiered.custom_metadata import store_of
from headrace.tiered.remote_log import RemoteLog, lineage_end
from headrace.tiered.remote_segment import EPOCHS, RemoteSegment, SegmentState, TopicIdPartition
from headrace.tiered.store import RemoteStoreError, read_whole

if TYPE_CHECKING:
    from headrace.clients import Admin

log = logging.getLogger(__name__)


class RemoteTiers:
    """Asks through an administrator that somebody else keeps; remembers what it has read."""

    def __init__(self, options: ReadOptions) -> None:
        self._address = StoreAddress(options.store_url, options.store_class, options.store_settings)
        self._store = open_remote(self._address)
        self._logs = ClusterRemoteLogs(options.settings)
        self._lineages: dict[TopicIdPartition, tuple[bytes, LeaderEpochs]] = {}

    def of(
        self, admin: "Admin", starts: Mapping[TopicPartition, FoundOffset]
    ) -> dict[TopicPartition, RemoteTier]:
        """What lies in front of the local parts of partitions whose logs start there."""
        try:
            local_starts = admin.find_offsets(dict.fromkeys(starts, Place.EARLIEST_LOCAL))
            tiered = [each for each in starts if starts[each].offset < local_starts[each].offset]
            ends = admin.find_offsets(dict.fromkeys(tiered, Place.LATEST_TIERED)) if tiered else {}
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

    def _readable(self, remote: RemoteLog, end: FoundOffset) -> list[RemoteSegment]:
        """Segments up to a last one, all of whose records are those of the log that has it; in order."""
        last = [
            each
            for each in remote.in_states(SegmentState.COPY_FINISHED)
            if each.start_offset <= end.offset <= each.end_offset and each.epoch_at(end.offset) == end.epoch
        ]
        if not last:
            return []
        lineage = self._lineage(last[-1])
        return [
            each for each in remote.readable(lineage) if lineage_end(lineage, each) == each.end_offset + 1
        ]

    def _lineage(self, segment: RemoteSegment) -> LeaderEpochs:
        """A log's epochs up to this segment; none where they cannot be read."""
        segment_id, known = self._lineages.get(segment.partition, (b"", LeaderEpochs()))
        if segment_id != segment.segment_id:
            name = segment.object_name(EPOCHS)
            try:
                known = LeaderEpochs(decode_epochs(read_whole(store_of(self._store, segment), name)))
            except (RemoteStoreError, InvalidBytesError) as error:
                log.warning("records are read without the remote store: %s: %s", name, error)
                return LeaderEpochs()
            self._lineages[segment.partition] = segment.segment_id, known
        return known
