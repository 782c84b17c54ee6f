"""RemoteLogAuxState: what a follower needs to start behind the remote tier, as Kafka's TierStateMachine
builds it: leader epochs and producers as they were there.

The remote segment that ends right before the leader's local part tells both. A follower has no lineage of its
own to find it by, but its leader says which epoch wrote the last offset before: an epoch's records were
written by one leader, so a copy that has the offset in that epoch is of the leader's own lineage.
"""

from typing import NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.checkpoints import decode_epochs
from headrace.log.file_names import SNAPSHOT
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.producer_snapshots import ProducerEntry, decode_snapshot
from headrace.tiered.metadata_cache import RemotePartitionMetadataStore
from headrace.tiered.remote_storage import RemoteStorageError, RemoteStorageManager, read_whole, store_of
from headrace.tiered.segment_metadata import EPOCHS, RemoteLogSegmentMetadata, TopicIdPartition

EpochEntries = list[tuple[int, int]]
"""(leader epoch, first offset), in order."""


class RemoteLogAuxState(NamedTuple):
    """A log up to `next_offset`, without its records."""

    next_offset: int
    epochs: EpochEntries
    producers: list[ProducerEntry]


class RemoteLogAuxStates:
    """The ends of remote segments, for followers that start there."""

    def __init__(self, store: RemoteStorageManager, logs: RemotePartitionMetadataStore) -> None:
        self._store = store
        self._logs = logs

    def find(
        self, topic_id: TopicId, topic_partition: TopicPartition, *, offset: int, epoch: int
    ) -> RemoteLogSegmentMetadata | None:
        """The copy that holds the offset before `offset`, which this epoch wrote; None where none is known,
        so far.
        """
        remote = self._logs.get(TopicIdPartition(topic_id, topic_partition))
        return (
            None
            if remote is None or epoch < 0
            else remote.find(LeaderEpochFileCache([(epoch, 0)]), offset - 1)
        )

    def read(self, segment: RemoteLogSegmentMetadata) -> RemoteLogAuxState:
        """Blocks: call it from a thread. RemoteStorageError where it cannot be had."""
        epochs = read_epochs(self._store, segment)
        try:
            store = store_of(self._store, segment)
            producers = decode_snapshot(read_whole(store, segment.object_name(SNAPSHOT)))
        except InvalidBytesError as error:
            raise RemoteStorageError(f"what is stored with {segment} is damaged: {error}") from error
        return RemoteLogAuxState(segment.end_offset + 1, epochs, producers)


def read_epochs(store: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> EpochEntries:
    """The epochs of everything before the segment's end. Blocks: call it from a thread. RemoteStorageError
    where they cannot be had.
    """
    try:
        return decode_epochs(read_whole(store_of(store, segment), segment.object_name(EPOCHS)))
    except InvalidBytesError as error:
        raise RemoteStorageError(f"the leader epochs stored with {segment} are damaged: {error}") from error
