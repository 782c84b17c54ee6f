"""The folder `__cluster_metadata-0`: the log, its snapshots and the vote, as Kafka lays them out.

The log is a partition's log like any other, but it is never cut by age or size: a prefix of it goes only
when a snapshot stands for it. What a node knows is the latest snapshot that can be read, and the log from
there on.
"""

import logging
from collections.abc import Iterator
from random import Random
from typing import Final

from headrace.base.chunks import FileSlice
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId
from headrace.log.disk import Disk
from headrace.log.file_names import CLUSTER_METADATA
from headrace.log.partition_log import PartitionLog
from headrace.log.recovery import open_log
from headrace.log.storage import Storage, remove_paths
from headrace.raft.damage import refuse_damage
from headrace.raft.durability import make_durable_folder, renew_segments
from headrace.raft.messages import LogEnd
from headrace.raft.records import BATCH_BYTES_MAX, read_control
from headrace.raft.snapshots import Snapshot, SnapshotId, list_snapshots, read_snapshot
from headrace.raft.voters import VoterHistory, VoterSet
from headrace.records.batch import BatchHeader, batches
from headrace.settings.topic import TopicConfig
from headrace.wire.schemas.quorum_records import KRaftVersionRecord, VotersRecord

logger = logging.getLogger(__name__)

METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")
READ_BYTES: Final = 1024 * 1024


def log_settings(*, segment_bytes: int, segment_ms: int) -> TopicConfig:
    """The metadata log as a partition's log: segments roll as its own settings say, and nothing expires."""
    return TopicConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        retention_ms=-1,
        retention_bytes=-1,
        max_message_bytes=BATCH_BYTES_MAX,
    )


class MetadataLog:
    """The open folder. Blocking calls (`Flush.sync`, `remove_old`) are for the driver to make from a
    thread.
    """

    def __init__(self, disk: Disk, folder: str, log: PartitionLog, snapshots: list[SnapshotId]) -> None:
        self.disk = disk
        self.folder = folder
        self.log = log
        self.snapshots = snapshots
        self.loaded: Snapshot | None = None
        self.history = VoterHistory()
        self._timestamps: dict[SnapshotId, int] = {}

    @classmethod
    def open(
        cls, disk: Disk, directory: str, config: TopicConfig, *, rng: Random, now_ms: int
    ) -> "MetadataLog":
        """Open the folder below a log directory; InvalidBytesError where the log is damaged, or snapshots and
        log leave a gap."""
        folder = f"{directory}/{CLUSTER_METADATA}"
        make_durable_folder(disk, folder)
        snapshots, loaded = _latest_snapshot(disk, folder)
        start = 0 if loaded is None else loaded.id.end_offset
        refuse_damage(disk, folder)
        renew_segments(disk, folder, start)
        log = open_log(
            Storage(disk, rng), folder, CLUSTER_METADATA, config, now_ms=now_ms, topic_id=METADATA_TOPIC_ID
        )
        opened = cls(disk, folder, log, snapshots)
        opened.loaded = loaded
        opened._join(start, now_ms)
        opened._load_voters()
        return opened

    @property
    def kraft_version(self) -> int:
        return self.history.kraft_version

    @property
    def voters(self) -> VoterSet | None:
        """Who votes by the log's last word, committed or not."""
        return self.history.voters

    @property
    def end(self) -> LogEnd:
        """The log's end; a log that a snapshot has emptied ends where that does, in its epoch."""
        latest = self.log.epochs.latest
        if latest < 0 and self.snapshots:
            latest = self.snapshots[-1].epoch
        return LogEnd(max(latest, 0), self.log.log_end_offset)

    @property
    def size_bytes(self) -> int:
        """Of the log and all snapshots."""
        sizes = [self.disk.size(self.path_of(snapshot)) for snapshot in self.snapshots]
        return self.log.size_bytes + sum(sizes)

    def add_snapshot(self, snapshot: SnapshotId, timestamp_ms: int) -> None:
        """A snapshot was written; `timestamp_ms` is that of the last record it stands for. A later one may
        have come from the leader meanwhile."""
        self.snapshots = sorted({*self.snapshots, snapshot})
        self._timestamps[snapshot] = timestamp_ms

    def timestamp_of(self, snapshot: SnapshotId) -> int:
        """When the last record that a snapshot stands for was written; one that is damaged counts as
        ancient.
        """
        if snapshot not in self._timestamps:
            try:
                found = read_snapshot(self.disk, self.folder, snapshot).timestamp_ms
            except InvalidBytesError:
                found = 0
            self._timestamps[snapshot] = found
        return self._timestamps[snapshot]

    def path_of(self, snapshot: SnapshotId) -> str:
        return f"{self.folder}/{snapshot.file_name}"

    def make_durable(self) -> None:
        """Sync what has not been synced yet. Blocks, also the loop: for the moment when an epoch begins."""
        log = self.log
        if log.recovery_point < log.log_end_offset:
            for segment in log.segments.from_number(log.segments.number_of(log.recovery_point)):
                segment.file.sync()
            self.disk.sync_folder(self.folder)

    def batches_between(self, first: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Whole batches from the one that holds `first` on, below `end`."""
        while first < end:
            result = self.log.read(first, max_bytes=READ_BYTES, max_offset=end)
            chunk = result.chunk
            data = memoryview(chunk.read() if isinstance(chunk, FileSlice) else chunk)
            before = first
            for at, header in batches(data):
                yield header, data[at : at + header.size]
                first = header.next_offset
            if first == before:
                raise InvalidBytesError(
                    f"the metadata log has nothing at offset {first}, below its end {end}"
                )

    def drop_before(self, snapshot: SnapshotId, now_ms: int) -> list[str]:
        """Let the log begin at a snapshot: older segments and snapshots go. Returns the files to remove."""
        self.log.advance_log_start(snapshot.end_offset)
        self.log.apply_retention(now_ms)
        old = [each for each in self.snapshots if each.end_offset < snapshot.end_offset]
        self.snapshots = [each for each in self.snapshots if each not in old]
        # Nobody is being sent a slice of this log, so its segments need not wait for their removal.
        segments = self.log.storage.removals.take_due(now_ms + self.log.config.file_delete_delay_ms)
        return [self.path_of(each) for each in old] + segments

    def remove(self, paths: list[str]) -> None:
        """Remove files; blocks."""
        remove_paths(self.disk, paths)

    def _join(self, start: int, now_ms: int) -> None:
        """Let the log go on where the snapshot ends."""
        if start > self.log.log_end_offset:
            # A snapshot that is ahead of the log was fetched or outlived a tail that was never synced.
            self.log.truncate_fully_and_start_at(start, now_ms=now_ms)
        elif start < self.log.log_start_offset:
            raise InvalidBytesError(
                f"{self.folder} has no readable snapshot for the records before offset "
                f"{self.log.log_start_offset}, where its log begins"
            )
        self.log.advance_high_watermark(start)

    def _load_voters(self) -> None:
        """The quorum's last word about itself: in the snapshot, or in a control batch after it."""
        if self.loaded is not None:
            loaded = self.loaded
            self.history = VoterHistory(kraft_version=loaded.kraft_version, voters=loaded.voters)
        self.take_controls(self.log.log_start_offset if self.loaded is None else self.loaded.id.end_offset)

    def take_controls(self, first: int) -> bool:
        """Note what the log says about the quorum from an offset on; whether it says anything."""
        found = False
        for header, batch in self.batches_between(first, self.log.log_end_offset):
            if header.is_control:
                found = self.take_control(header.base_offset, read_control(batch)) or found
        return found

    def take_control(self, offset: int, messages: list[object]) -> bool:
        found = False
        for message in messages:
            if isinstance(message, KRaftVersionRecord):
                self.history.note(offset, kraft_version=message.kraft_version)
                found = True
            elif isinstance(message, VotersRecord):
                self.history.note(offset, voters=VoterSet.from_record(message))
                found = True
        return found

    def truncate(self, offset: int, *, now_ms: int) -> None:
        """Cut everything from an offset on, and what it said about the quorum."""
        self.log.truncate_to(offset, now_ms=now_ms)
        self.history.cut(offset)

    def start_at(self, snapshot: Snapshot, *, now_ms: int) -> None:
        """Begin anew where a snapshot ends whose file is in the folder."""
        self.log.truncate_fully_and_start_at(snapshot.id.end_offset, now_ms=now_ms)
        self.loaded = snapshot
        self.snapshots = sorted({*self.snapshots, snapshot.id})
        self._timestamps[snapshot.id] = snapshot.timestamp_ms
        voters = snapshot.voters or self.voters
        self.history = VoterHistory(kraft_version=snapshot.kraft_version, voters=voters)


def _latest_snapshot(disk: Disk, folder: str) -> tuple[list[SnapshotId], Snapshot | None]:
    """The latest snapshot that is whole, and all up to it; an older one may do, with more of the log."""
    snapshots = list_snapshots(disk, folder)
    while snapshots:
        try:
            return snapshots, read_snapshot(disk, folder, snapshots[-1])
        except InvalidBytesError as error:
            logger.error("a snapshot of the metadata log is passed over: %s", error)
            snapshots.pop()
    return [], None
