"""What a follower needs to start behind the remote tier: leader epochs and producers as they were there.

The remote segment that ends right before the leader's local part tells both. A follower has no lineage of its
own to find it by, but its leader says which epoch wrote the last offset before: an epoch's records were
written by one leader, so a copy that has the offset in that epoch is of the leader's own lineage.
"""

from typing import NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.file_names import SNAPSHOT
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.producer_snapshot import SnapshotEntry, decode_snapshot
from headrace.tiered.custom_metadata import store_of
from headrace.tiered.lineage import read_epochs
from headrace.tiered.remote_log import RemoteLogs
from headrace.tiered.remote_segment import RemoteSegment, TopicIdPartition
from headrace.tiered.store import RemoteStore, RemoteStoreError, read_whole


class Tail(NamedTuple):
    """A log up to `next_offset`, without its records."""

    next_offset: int
    epochs: list[tuple[int, int]]
    producers: list[SnapshotEntry]


class RemoteTails:
    """The ends of remote segments, for followers that start there."""

    def __init__(self, store: RemoteStore, logs: RemoteLogs) -> None:
        self._store = store
        self._logs = logs

    def find(
        self, topic_id: TopicId, topic_partition: TopicPartition, *, offset: int, epoch: int
    ) -> RemoteSegment | None:
        """The copy that holds the offset before `offset`, which this epoch wrote; None where none is known,
        so far.
        """
        remote = self._logs.get(TopicIdPartition(topic_id, topic_partition))
        return None if remote is None or epoch < 0 else remote.find(LeaderEpochs([(epoch, 0)]), offset - 1)

    def read(self, segment: RemoteSegment) -> Tail:
        """Blocks: call it from a thread. RemoteStoreError where it cannot be had."""
        epochs = read_epochs(self._store, segment)
        try:
            store = store_of(self._store, segment)
            producers = decode_snapshot(read_whole(store, segment.object_name(SNAPSHOT)))
        except InvalidBytesError as error:
            raise RemoteStoreError(f"what is stored with {segment} is damaged: {error}") from error
        return Tail(segment.end_offset + 1, epochs, producers)
