"""The folder `__cluster_metadata-0`: the log, its snapshots and the vote, as Kafka lays them out.

The log is a partition's log like any other, but it is never cut by age or size: a prefix of it goes only
when a snapshot stands for it. What a node knows is the latest snapshot that can be read, and the log from
there on.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Final

from headrace.base.chunks import FileSlice
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId
from headrace.log.disk import Disk
from headrace.log.faults import DISK_FULL
from headrace.log.file_names import CLEAN_SHUTDOWN, CLUSTER_METADATA, LOG, parse_segment_file
from headrace.log.log_directory import is_marked
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage, remove_paths
from headrace.log.unified_log import UnifiedLog
from headrace.raft.damage import settle_damage
from headrace.raft.messages import LogEnd
from headrace.raft.records import BATCH_BYTES_MAX, read_control
from headrace.raft.snapshots import (
    Snapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    remove_half_made,
    whole_snapshots,
)
from headrace.raft.voters import VoterSet, VoterSetHistory
from headrace.records.batch import BatchHeader, batches
from headrace.settings.topic import TopicConfig
from headrace.wire.record_frames import ApiMessageAndVersion
from headrace.wire.schemas.quorum_records import KRaftVersionRecord, VotersRecord

logger = logging.getLogger(__name__)

METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")
READ_BYTES: Final = 1024 * 1024

BOOTSTRAP: Final = "bootstrap.checkpoint"
BEGINNING: Final = SnapshotId(0, 0)

HALF_MADE: Final = ".tmp"
"""What the name of a copy ends with until it is whole."""


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

    def __init__(self, disk: Disk, folder: str, log: UnifiedLog, snapshots: list[SnapshotId]) -> None:
        self.disk = disk
        self.folder = folder
        self.log = log
        self.snapshots = snapshots
        self.loaded: Snapshot | None = None
        self.history = VoterSetHistory()
        self._timestamps: dict[SnapshotId, int] = {}

    @classmethod
    def open(
        cls, disk: Disk, directory: str, config: TopicConfig, *, rng: Random, now_ms: int
    ) -> "MetadataLog":
        """Open the folder below a log directory; InvalidBytesError where the log is damaged, or snapshots and
        log leave a gap."""
        folder = f"{directory}/{CLUSTER_METADATA}"
        make_durable_folder(disk, folder)
        remove_half_made(disk, folder)

        def on_damage(snapshot: SnapshotId, error: InvalidBytesError) -> None:
            path = f"{folder}/{snapshot.file_name}"
            logger.error("%s is damaged (%s): an older snapshot is read, and more of the log", path, error)

        snapshots, loaded = whole_snapshots(disk, folder, on_damage)
        start = 0 if loaded is None else loaded.id.end_offset
        snapshots = settle_damage(disk, folder, snapshots)
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
        latest = self.log.leader_epoch_cache.latest_epoch
        if latest < 0 and self.snapshots:
            latest = self.snapshots[-1].epoch
        return LogEnd(max(latest, 0), self.log.log_end_offset)

    @property
    def size_bytes(self) -> int:
        """Of the log and all snapshots."""
        sizes = [self.disk.size(self.path_of(snapshot)) for snapshot in self.snapshots]
        return self.log.size_bytes + sum(sizes)

    def needs_snapshot(self, offset: int, epoch: int) -> bool:
        """Whether a replica whose log ends at an offset, with a record of an epoch, can only go on from a
        snapshot.

        What this log has below its start is in a snapshot alone: nothing in the log tells whether a replica
        that ends there, or in an epoch from before, ends with the same record.
        """
        start = self.log.log_start_offset
        if not self.snapshots or (offset == start == 0):
            return False
        below = [each for each in self.snapshots if each.end_offset <= start]
        at_start = below[-1] if below else self.snapshots[0]  # older ones may not have been removed yet
        return offset < start or epoch < at_start.epoch or (offset == start and epoch != at_start.epoch)

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
        self.log.maybe_increment_log_start_offset(snapshot.end_offset)
        self.log.delete_old_segments(now_ms)
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
        self.log.maybe_increment_high_watermark(start)

    def _load_voters(self) -> None:
        """The quorum's last word about itself: in the snapshot, or in a control batch after it."""
        if self.loaded is not None:
            loaded = self.loaded
            self.history = VoterSetHistory(kraft_version=loaded.kraft_version, voters=loaded.voters)
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
        self.history = VoterSetHistory(kraft_version=snapshot.kraft_version, voters=voters)


def make_durable_folder(disk: Disk, path: str) -> None:
    """Make a folder and the parents it lacks, and sync the name of each, which a power cut takes back until
    then.
    Blocks.
    """
    made = []
    missing = path.rstrip("/")
    while missing and not disk.exists(missing):
        made.append(missing)
        missing = missing.rpartition("/")[0]
    disk.make_folder(path)
    for folder in made:
        disk.sync_folder(folder.rpartition("/")[0] or ("/" if folder.startswith("/") else "."))


def renew_segments(disk: Disk, folder: str, start: int) -> None:
    """Replace each segment that has records from `start` on by a synced copy of itself. Blocks.

    A file that can be read need not be on the disk: where a process ended because a sync failed, its last
    records are in the page cache alone, the system takes those pages for clean and never writes them again,
    and a later power cut would tear a hole under records that were synced since. A copy, for a write in place
    that a power cut interrupts may damage what was durable before.
    """
    bases: list[int | None] = []
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if parsed is None or parsed.suffix != LOG:
            continue
        if not parsed.state:
            bases.append(parsed.base_offset)
        elif parsed.state == HALF_MADE:
            disk.remove(f"{folder}/{name}")
    for base, following in pairwise([*bases, None]):
        path = f"{folder}/{base:020}{LOG}"
        if (following is None or following > start) and disk.size(path):
            _renew(disk, path)


def _renew(disk: Disk, path: str) -> None:
    """Without room for a copy the file stays as it is, if nothing says that a sync of it has failed."""
    try:
        disk.replace_file(path, disk.read_file(path))
    except OSError as error:
        directory = path.rpartition("/")[0].rpartition("/")[0]
        is_sound = is_marked(disk, directory) or disk.exists(f"{directory}/{CLEAN_SHUTDOWN}")
        if error.errno not in DISK_FULL or not is_sound:
            raise
        disk.remove(path + HALF_MADE)
        logger.warning("there is no room for a synced copy of %s: it is used as it is", path)


def format_metadata(
    disk: Disk,
    directory: str,
    *,
    bootstrap: Sequence[ApiMessageAndVersion],
    voters: VoterSet | None,
    now_ms: int,
) -> None:
    """Write the first files of a metadata directory, as Kafka's `kafka-storage format --standalone` does.

    `bootstrap.checkpoint` holds the records that the first controller writes into the empty log. With
    kraft.version 1 the `voters` are data, so a first snapshot, which stands for no record at all, holds them;
    without `voters` they come from controller.quorum.voters. Both are written before `meta.properties`, whose
    presence says that formatting came to its end; until then it can be done again.
    """
    data = encode_snapshot(Snapshot(BEGINNING, timestamp_ms=0), bootstrap, now_ms=now_ms)
    make_durable_folder(disk, directory)
    disk.replace_file(f"{directory}/{BOOTSTRAP}", data)
    if voters is None:
        return
    folder = f"{directory}/{CLUSTER_METADATA}"
    make_durable_folder(disk, folder)
    first = Snapshot(BEGINNING, timestamp_ms=now_ms, kraft_version=1, voters=voters)
    disk.replace_file(f"{folder}/{BEGINNING.file_name}", encode_snapshot(first, (), now_ms=now_ms))


def read_bootstrap(disk: Disk, directory: str) -> Snapshot | None:
    """The records to start an empty log with; None where the directory says nothing about it."""
    path = f"{directory}/{BOOTSTRAP}"
    if not disk.exists(path):
        return None
    try:
        return decode_snapshot(BEGINNING, disk.read_file(path))
    except InvalidBytesError as error:
        # The decoder knows it by the name of a snapshot, which no file has.
        what = str(error).replace(f"{BEGINNING.file_name} is ", "").replace("damaged at", "it differs at")
        raise InvalidBytesError(
            f"{path} is damaged: {what}. It holds the records that a new cluster begins with. Bring it back "
            "from a copy or another controller; where the metadata log has records already, it may be removed"
        ) from error
