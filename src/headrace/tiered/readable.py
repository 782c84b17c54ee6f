"""A log's readable remote segments, listed once for as long as neither they nor the log's epochs change."""

from typing import NamedTuple

from headrace.log.partition_log import PartitionLog
from headrace.tiered.remote_log import RemoteLog, lineage_end
from headrace.tiered.remote_segment import RemoteSegment, TopicIdPartition


class _Known(NamedTuple):
    of: tuple[RemoteLog, int, int]
    segments: list[RemoteSegment]
    ends: list[int]


class ReadableSegments:
    """Lists of thousands are asked for with every window and every lookup."""

    def __init__(self) -> None:
        self._known: dict[TopicIdPartition, _Known] = {}

    def of(self, log: PartitionLog, remote: RemoteLog) -> list[RemoteSegment]:
        """By start offset; not to be changed."""
        return self._find(log, remote).segments

    def ends(self, log: PartitionLog, remote: RemoteLog) -> list[int]:
        """How far each of them is the log's: its `lineage_end`."""
        return self._find(log, remote).ends

    def _find(self, log: PartitionLog, remote: RemoteLog) -> _Known:
        partition = TopicIdPartition(log.topic_id, log.topic_partition)
        known = self._known.get(partition)
        versions = remote, remote.version, log.epochs.version
        if known is None or known.of != versions:
            segments = remote.readable(log.epochs)
            known = _Known(versions, segments, [lineage_end(log.epochs, each) for each in segments])
            self._known[partition] = known
        return known
