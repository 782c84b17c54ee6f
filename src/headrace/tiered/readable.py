"""A log's readable remote segments, listed once for as long as neither they nor the log's epochs change."""

from headrace.log.partition_log import PartitionLog
from headrace.tiered.remote_log import RemoteLog
from headrace.tiered.remote_segment import RemoteSegment, TopicIdPartition


class ReadableSegments:
    """Lists of thousands are asked for with every window and every lookup."""

    def __init__(self) -> None:
        self._known: dict[TopicIdPartition, tuple[RemoteLog, int, int, list[RemoteSegment]]] = {}

    def of(self, log: PartitionLog, remote: RemoteLog) -> list[RemoteSegment]:
        """By start offset; not to be changed."""
        partition = TopicIdPartition(log.topic_id, log.topic_partition)
        known = self._known.get(partition)
        if known is None or known[:3] != (remote, remote.version, log.epochs.version):
            known = remote, remote.version, log.epochs.version, remote.readable(log.epochs)
            self._known[partition] = known
        return known[3]
