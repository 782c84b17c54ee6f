"""What a task must know to read a partition's files by itself: made on the driver, sent with the task.

Nothing in it is trusted blindly. The folder may be another one on the machine where the task runs, so its
identity goes with it; files may have gone since, so the task looks again where one is missing.
"""

from dataclasses import dataclass, replace

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import NO_TOPIC_ID, TopicId
from headrace.log.checkpoints import decode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.file_names import META_PROPERTIES, PARTITION_METADATA
from headrace.log.meta_properties import decode_meta_properties
from headrace.log.transaction_index import AbortedTxn
from headrace.spark.segments.errors import NotInFilesError
from headrace.spark.segments.listing import ListedSegment, list_segments, number_of
from headrace.spark.segments.remote_tier import RemoteTier, TieredDisk, open_remote


@dataclass(frozen=True, slots=True)
class PartitionManifest:
    """The files of one partition, and how far they may be read."""

    folder: str
    start: int
    """The log's first offset."""
    bound: int
    """The high watermark, or for who reads only what is committed the last stable offset."""
    segments: tuple[ListedSegment, ...] = ()
    """As the driver saw them; none where it cannot reach the folder itself."""
    aborted: tuple[AbortedTxn, ...] | None = None
    """Aborted transactions that the lists beside the segments may lack; None shows uncommitted records."""
    topic_id: TopicId = NO_TOPIC_ID
    """Whose folder it must be; NO_TOPIC_ID where nobody can tell."""
    nodes: tuple[int, ...] = ()
    """Brokers whose replica may stand in for the leader's: those in sync. Empty where any will do."""
    hint: tuple[int, int] | None = None
    """(offset, position) of a batch near the first one wanted, which the index on disk may not lead to."""
    has_broker: bool = False
    """Whether a broker can be asked for what is not in the files."""
    remote: RemoteTier | None = None
    """What lies in a remote store, in front of what is in the folder."""
    lists_all: bool = True
    """False where `segments` are only those in the store: who lists them cannot see the folder."""

    def within(self, start: int, end: int) -> "PartitionManifest":
        """Without the segments and transactions that a task has nothing to do with: it is sent to each.

        Who reads only what is committed keeps later segments with lists of aborted transactions: a
        transaction is in the list of the segment that has its marker.
        """
        first = max(number_of(self.segments, start), 0)
        segments = tuple(
            each
            for each in self.segments[first:]
            if each.base_offset < end or (each.has_aborted and self.aborted is not None)
        )
        aborted = self.aborted
        if aborted is not None:
            aborted = tuple(txn for txn in aborted if txn.last_offset >= start and txn.first_offset < end)
        remote = self.remote
        if remote is not None:
            remote = remote.within(start, end, is_committed=aborted is not None)
        return replace(self, segments=segments, aborted=aborted, remote=remote)

    def listed(self, disk: Disk) -> "PartitionManifest":
        """With the segments that are there now; NotInFilesError where they cannot be listed."""
        segments = list_segments(self.disk(disk), self.folder)
        lists_all = self.remote is None or (
            bool(segments) and segments[-1].base_offset >= self.remote.end_offset
        )
        return replace(self, segments=segments, lists_all=lists_all)

    def lists_aborted(self, upto: int) -> bool:
        """Whether lists beside the segments have all aborted transactions with records below `upto`."""
        if self.lists_all or self.remote is None:
            return True
        return self.remote.decides(open_remote(self.remote.store), upto)

    def disk(self, disk: Disk) -> Disk:
        """The disk as this partition is to be read from it."""
        if self.remote is None:
            return disk
        store = open_remote(self.remote.store)
        return TieredDisk(disk, store, {self.folder: self.remote})


def check_identity(disk: Disk, manifest: PartitionManifest) -> None:
    """NotInFilesError where the folder is that of another topic or of a replica that may lack records."""
    found = _topic_id(disk, manifest.folder)
    if NO_TOPIC_ID not in (found, manifest.topic_id) and found != manifest.topic_id:
        raise NotInFilesError(f"{manifest.folder} belongs to another topic of that name")
    if manifest.nodes:
        node = _node_id(disk, manifest.folder.rpartition("/")[0])
        if node is not None and node not in manifest.nodes:
            raise NotInFilesError(f"{manifest.folder} is that of broker {node}, which is not in sync")


def _topic_id(disk: Disk, folder: str) -> TopicId:
    try:
        return decode_partition_metadata(disk.read_file(f"{folder}/{PARTITION_METADATA}"))
    except (OSError, InvalidBytesError):
        return NO_TOPIC_ID


def _node_id(disk: Disk, log_dir: str) -> int | None:
    try:
        return decode_meta_properties(disk.read_file(f"{log_dir}/{META_PROPERTIES}")).node_id
    except (OSError, InvalidBytesError):
        return None
