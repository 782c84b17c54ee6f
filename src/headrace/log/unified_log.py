"""One partition on disk: the face of the log room.

Everything here is synchronous and runs on the event loop; times are passed in. The parts lie beside this
file: `append`, `read`, `log_segments`, `retention`, `truncation`, `flush`, and `log_loader`, which opens a
log. This class holds what they share, and says what a log can do.

Offsets, in order: `log_start_offset` <= `last_stable_offset` <= `high_watermark` <= `log_end_offset`. The
high watermark is told from outside (`maybe_increment_high_watermark`): only replication knows it.

Once the disk fails, `failure` is set and every call raises it.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from headrace.base.chunks import Buffer
from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log import append, flush, follower_append, log_segments, read, retention, truncation
from headrace.log.append import AppendOrigin, LogAppendInfo
from headrace.log.checkpoints import encode_partition_metadata
from headrace.log.faults import fail_log, tell_damage
from headrace.log.file_names import PARTITION_METADATA
from headrace.log.flush import Flush, UnsyncedFiles
from headrace.log.large_write import LargeWrite
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.log_segment import LogSegment
from headrace.log.log_segments import LogSegments
from headrace.log.producer_snapshots import ProducerEntry, ProducerSnapshots
from headrace.log.producer_state_manager import ProducerStateManager
from headrace.log.read import FetchDataInfo, TimestampAndOffset
from headrace.log.storage import Storage
from headrace.records.kernels.produce import RunHead, RunRow
from headrace.records.validate import ProducedBatch, ValidationRules
from headrace.settings.topic import TopicConfig

__all__ = ["AppendOrigin", "FetchDataInfo", "Flush", "LogAppendInfo", "TimestampAndOffset", "UnifiedLog"]


class UnifiedLog:
    """A log that was opened by `log_loader.open_log`."""

    __slots__ = (
        "__weakref__",
        "cleaner_checkpoint",
        "config",
        "copied_to",
        "failure",
        "folder",
        "generation",
        "high_watermark",
        "large_write",
        "last_flush_ms",
        "leader_epoch_cache",
        "log_end_offset",
        "log_start_offset",
        "lost_records",
        "missing_from",
        "producer_state_manager",
        "recovery_point",
        "removed_to",
        "rules",
        "segments",
        "snapshots",
        "storage",
        "tiered_from",
        "tiered_to",
        "topic_id",
        "topic_partition",
        "unsynced",
    )

    def __init__(
        self,
        storage: Storage,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        segments: LogSegments,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.update_config(config)
        self.segments = segments
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = self.local_start_offset  # only what is replicated leaves a disk
        self.recovery_point = recovery_point
        # Compaction has been through everything before this offset.
        self.cleaner_checkpoint: int | None = None
        self.tiered_from = 0  # as far as the log reaches before this offset, it is on this disk alone
        self.tiered_to: int | None = None  # everything from there to this offset is in the remote store
        self.copied_to = 0  # behind the last offset that the remote store has a copy of
        self.removed_to = 0  # behind the last offset of which a copy was removed from there
        self.last_flush_ms = now_ms
        self.generation = 0
        self.failure: ApiError | None = None
        self.large_write: LargeWrite | None = None  # clients' batches wait for it
        self.unsynced = UnsyncedFiles()
        self.lost_records = False  # opening the log found that it lacks what it had
        self.missing_from: int | None = None  # the first offset that a closed segment has lost

    def __repr__(self) -> str:
        return f"UnifiedLog({self.folder!r}, {self.log_start_offset}..{self.log_end_offset})"

    # -- settings and identity -------------------------------------------------------------------------------

    def update_config(self, config: TopicConfig) -> None:
        """The topic's settings have changed."""
        self.config = config
        self.rules = ValidationRules.from_config(config)

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Remember the topic's id in `partition.metadata`; durable with the next flush."""
        path = f"{self.folder}/{PARTITION_METADATA}"
        data = encode_partition_metadata(topic_id)
        with self._trusting_disk():
            file = self.storage.disk.open(path, create=True)
            file.write(0, (data,))
            file.truncate(len(data))
        self.topic_id = topic_id
        self.unsynced.note_files(path)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def local_start_offset(self) -> int:
        """Where the part of the log that lies on this disk starts: behind the log's start where a topic is
        tiered.
        """
        return max(self.log_start_offset, self.segments.first.base_offset)

    # -- writing ---------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        api_version: int = 13,
        produced: ProducedBatch | None = None,
    ) -> LogAppendInfo:
        """Write a batch (of our own writers also several) at the end. A writable buffer is stamped in
        place. `produced` is what a thread has made of a client's batch. See `append` for errors."""
        if self.failure is not None:
            raise self.failure
        if origin is AppendOrigin.CLIENT:
            return append.append_from_client(self, batch, leader_epoch, now_ms, api_version, produced)
        return append.append_own(self, batch, leader_epoch=leader_epoch, now_ms=now_ms)

    def note_refusal(self, batch: Buffer, error: ApiError) -> None:
        """A client's batch was refused, with this error, by whoever decides for the log. See
        `RefusedBatches`."""
        append.note_refusal(self, batch, error)

    def append_run(
        self, view: memoryview, run: RunHead, rows: list[RunRow], *, leader_epoch: int, now_ms: int
    ) -> int:
        """Write the batches of a run of clients' requests; how many, from the first on. See `append`."""
        if self.failure is not None:
            return 0
        return append.append_run(self, view, run, rows, leader_epoch, now_ms)

    def append_as_follower(self, data: Buffer, *, now_ms: int) -> int:
        """Write the whole batches of a fetched response as they are; returns the new end offset."""
        if self.failure is not None:
            raise self.failure
        return follower_append.append_as_follower(self, data, now_ms=now_ms)

    def append_as_follower_in_slices(self, data: Buffer, *, now_ms: int) -> Generator[None, None, None]:
        """The same, a slice at a time; see `follower_append`."""
        if self.failure is not None:
            raise self.failure
        yield from follower_append.append_in_slices(self, data, now_ms=now_ms)

    def roll(self, now_ms: int) -> None:
        """Close the active segment, unless it is empty."""
        with self._trusting_disk():
            log_segments.roll_to(self, self.log_end_offset, now_ms)

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Drop everything at or above `offset`; a batch that holds it goes whole. False: there was
        nothing."""
        with self._trusting_disk():
            return truncation.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything and go on at `offset`."""
        with self._trusting_disk():
            truncation.truncate_fully_and_start_at(self, offset, now_ms)

    def start_behind_remote(
        self,
        offset: int,
        *,
        log_start_offset: int,
        epochs: list[tuple[int, int]],
        producers: list[ProducerEntry],
        now_ms: int,
    ) -> None:
        """Drop everything and go on at `offset`; what lies before it is in the remote store."""
        with self._trusting_disk():
            truncation.start_behind_remote(
                self,
                offset,
                log_start_offset=log_start_offset,
                epochs=epochs,
                producers=producers,
                now_ms=now_ms,
            )

    # -- reading ---------------------------------------------------------------------------------------------

    def read(
        self, offset: int, *, max_bytes: int, max_offset: int | None = None, at_least_one: bool = True
    ) -> FetchDataInfo:
        """A slice of batches from `offset` on, below `max_offset` (default: the log's end); see `read`."""
        if self.failure is not None:
            raise self.failure
        try:
            bound = self.log_end_offset if max_offset is None else max_offset
            return read.read(self, offset, max_bytes, bound, at_least_one)
        except OSError as error:
            raise fail_log(self, error) from error
        except InvalidBytesError as error:
            raise tell_damage(self, error) from error

    def aborted_transactions(self, first: int, upto: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of aborted transactions with records in [first, upto)."""
        with self._trusting_disk():
            return read.aborted_transactions(self, first, upto)

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record whose timestamp is not below `timestamp`; None where all are older."""
        with self._trusting_disk():
            return read.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None where no record has one."""
        with self._trusting_disk():
            return read.offset_of_max_timestamp(self)

    def note_missing(self, number: int, position: int, end_offset: int) -> None:
        """A closed segment has nothing behind this byte and this offset any more."""
        segment = self.segments[number]
        self.segments.inactive_bytes -= segment.size - position
        segment.size = position
        self.lost_records = True
        self.missing_from = end_offset if self.missing_from is None else min(self.missing_from, end_offset)
        self.storage.on_missing(self)

    # -- moving offsets --------------------------------------------------------------------------------------

    def maybe_increment_high_watermark(self, offset: int) -> bool:
        """Everything below `offset` is replicated. It never goes back, nor above the log's end."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_state_manager.on_high_watermark(offset)
        return True

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records must stop."""
        unstable = self.producer_state_manager.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """DeleteRecords: forget everything below `offset`; ApiError above the high watermark."""
        return retention.maybe_increment_log_start_offset(self, offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Drop segments the settings no longer keep; how many. Their files wait in `storage.removals`."""
        with self._trusting_disk():
            return retention.delete_old_segments(self, now_ms)

    def replace_segments(
        self, old: list[LogSegment], new: LogSegment, suffixes: tuple[str, ...], *, now_ms: int
    ) -> None:
        """Compaction: put `new`, whose files of these suffixes are `.cleaned`, in the place of `old`."""
        with self._trusting_disk():
            log_segments.replace_segments(self, old, new, suffixes, now_ms)

    # -- durability ------------------------------------------------------------------------------------------

    def want_flush(self) -> None:
        """Have the driver flush this log soon."""
        self.storage.to_flush[self] = None

    def flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` ask for a flush now."""
        unflushed = self.log_end_offset - self.recovery_point
        config = self.config
        return unflushed > 0 and (
            unflushed >= config.flush_messages or now_ms - self.last_flush_ms >= config.flush_ms
        )

    def begin_flush(self) -> Flush | None:
        """What must be synced to make everything written so far durable; None where it is."""
        with self._trusting_disk():
            self.storage.to_flush.pop(self, None)
            return flush.begin_flush(self)

    def finish_flush(self, done: Flush, *, now_ms: int) -> None:
        """`done.sync()` came back: the recovery point moves."""
        flush.finish_flush(self, done, now_ms)

    def abandon_flush(self, failed: Flush, error: OSError) -> ApiError:
        """`failed.sync()` raised: after a failed sync nobody knows what is on the disk, so the log fails."""
        return fail_log(self, error)

    def close(self) -> Flush | None:
        """Write out what is only in memory; after the returned flush is synced the log needs no recovery."""
        with self._trusting_disk():
            flush.write_out(self)
        return self.begin_flush()

    def close_handlers(self, refusal: ApiError) -> None:
        """The log is deleted or its directory offline: release its files, and answer with `refusal`."""
        self.failure = refusal
        self.storage.to_flush.pop(self, None)
        for segment in self.segments:
            segment.release()
            segment.indexes.release()

    @contextmanager
    def _trusting_disk(self) -> Iterator[None]:
        """An OSError in here fails the log; bytes that are not a batch are told as a corrupt message."""
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            raise fail_log(self, error) from error
        except InvalidBytesError as error:
            raise tell_damage(self, error) from error
