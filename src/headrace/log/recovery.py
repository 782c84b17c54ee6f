"""Opening a log: what a clean stop, a kill or a power cut left is made a log again.

After a clean stop the files are taken as they are. Otherwise every batch behind the recovery point is checked
(size, format, CRC, rising offsets); at the first bad one the log is cut and what follows is dropped. On the
way the indexes, the transaction index, the leader epochs and the producer state are made anew, so none of
them needs to have survived.

Files that can be had from the log itself are never a reason to refuse: a broken or missing index is rebuilt
when first used, an unreadable epoch checkpoint from the batches, an unreadable snapshot from an older one.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.log.batch_scan import scan_batches
from headrace.log.checkpoints import decode_epochs, decode_partition_metadata
from headrace.log.disk import File
from headrace.log.file_names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    SegmentFile,
)
from headrace.log.kafka_gaps import close_gap, was_open_in_kafka
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.leftovers import settle_leftovers
from headrace.log.new_log import make_files, new_log
from headrace.log.partition_log import PartitionLog
from headrace.log.producer_replay import rebuild_producers
from headrace.log.producer_snapshots import ProducerSnapshots
from headrace.log.producer_states import ProducerStates
from headrace.log.retention import discard
from headrace.log.segment import RELATIVE_OFFSET_MAX, Segment
from headrace.log.segment_files import create_segment
from headrace.log.segments import Segments
from headrace.log.storage import Storage
from headrace.log.truncation import move_recovery_point_back
from headrace.records.batch import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, read_header
from headrace.settings.definition import LONG_MAX
from headrace.settings.topic import TopicConfig


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """A segment of a log was recovered."""

    folder: str
    segments_done: int
    segments_total: int
    bytes_done: int
    bytes_cut: int
    bytes_lost: int
    """Of what was cut: all but the beginning of a batch whose write did not come to its end."""


OnProgress = Callable[[RecoveryProgress], None]


def open_log(
    storage: Storage,
    folder: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: int,
    topic_id: TopicId = NO_TOPIC_ID,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_to: int | None = None,
    starts_elsewhere: bool = False,
    on_progress: OnProgress | None = None,
) -> PartitionLog:
    """Open the log in `folder`, which is made where it is missing. OSError where the disk fails.

    `clean` says that the last user closed it; `recovery_point`, `log_start_offset` and `cleaned_to` come from
    the checkpoints. A `topic_id` is written down where the folder has none yet. A log that
    `starts_elsewhere`, in the remote store, may start before the first segment that is here.
    """
    disk = storage.disk
    if not disk.exists(folder):
        make_files(disk, folder, log_start_offset, config, topic_id)
        return new_log(
            storage, folder, topic_partition, config, now_ms=now_ms, topic_id=topic_id, start=log_start_offset
        )
    files = settle_leftovers(disk, folder)
    segments = _segments_of(storage, folder, files, config, now_ms)
    known_id = _load_topic_id(storage, folder)
    if not segments:
        segments.append(create_segment(storage, folder, log_start_offset, config=config, now_ms=now_ms))
    log = PartitionLog(
        storage,
        folder,
        topic_partition,
        known_id,
        config,
        segments=Segments(segments),
        epochs=LeaderEpochs(),
        producers=ProducerStates(),
        snapshots=ProducerSnapshots(
            storage, folder, [file.base_offset for file in files if file.suffix == SNAPSHOT]
        ),
        log_start_offset=log_start_offset
        if starts_elsewhere
        else max(log_start_offset, segments[0].base_offset),
        log_end_offset=segments[-1].base_offset,
        recovery_point=recovery_point,
        now_ms=now_ms,
    )
    log.cleaned_to = cleaned_to
    if not files:
        log.owed.note_folders(folder, folder.rpartition("/")[0])
    _restore(log, clean=clean, now_ms=now_ms, on_progress=on_progress)
    if known_id == NO_TOPIC_ID != topic_id:
        log.assign_topic_id(topic_id)
    return log


def _segments_of(
    storage: Storage, folder: str, files: list[SegmentFile], config: TopicConfig, now_ms: int
) -> list[Segment]:
    """The segments that files make up, all of them closed as yet."""
    aborted = {file.base_offset for file in files if file.suffix == TXN_INDEX}
    indexed = {file.base_offset for file in files if file.suffix in (INDEX, TIME_INDEX)}
    bases = [file.base_offset for file in files if file.suffix == LOG]
    segments = []
    for base_offset in bases:
        size = storage.disk.size(f"{folder}/{base_offset:020}{LOG}")
        # Only a last, short segment may do without: any other's are rebuilt where they are missing.
        size_without = config.index_interval_bytes if base_offset == bases[-1] else 0
        segments.append(
            Segment(
                storage,
                folder,
                base_offset,
                size=size,
                config=config,
                created_ms=now_ms,
                has_aborted=base_offset in aborted,
                has_index_files=base_offset in indexed or size > size_without,
            )
        )
    return segments


def _load_topic_id(storage: Storage, folder: str) -> TopicId:
    """An unreadable id is none: the controller knows it."""
    try:
        return decode_partition_metadata(storage.disk.read_file(f"{folder}/{PARTITION_METADATA}"))
    except (FileNotFoundError, InvalidBytesError):
        return NO_TOPIC_ID


def _restore(log: PartitionLog, *, clean: bool, now_ms: int, on_progress: OnProgress | None) -> None:
    # The segment before the recovery point is looked at too: the cut of its reserved room may be undone.
    first_bad = None if clean else log.segments.number_of(log.recovery_point - 1)
    if clean and not _ends_whole(log.segments.active):
        first_bad = len(log.segments) - 1
    keeps_gaps = first_bad is not None and was_open_in_kafka(log)
    broken = _first_broken_txn_index(log)
    if broken is not None:
        first_bad = broken if first_bad is None else min(first_bad, broken)
    _load_epochs(log, len(log.segments) if first_bad is None else max(first_bad, 0))
    log.snapshots.remove_strays(log.segments.bases)
    if first_bad is not None:
        _recover_from(log, max(first_bad, 0), now_ms, on_progress, keeps_gaps=keeps_gaps)
    _settle_end(log, now_ms)
    if first_bad is None:
        rebuild_producers(
            log.producers, log.snapshots, log.segments, log.log_start_offset, log.log_end_offset, now_ms
        )
    if clean:
        log.recovery_point = log.log_end_offset
    move_recovery_point_back(log, log.log_end_offset)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    log.epochs.reach_back_to(log.local_start_offset)
    log.producers.on_log_start(log.log_start_offset)
    log.high_watermark = log.local_start_offset


def _settle_end(log: PartitionLog, now_ms: int) -> None:
    """Make the last segment the active one, and the log's end what it holds."""
    active = log.segments.active
    end_offset = active.next_offset()
    if end_offset < log.log_start_offset:
        # Records were deleted up to an offset that the files do not reach any more: go on there.
        discard(log, log.segments.drop_from(0), now_ms)
        active = create_segment(
            log.storage, log.folder, log.log_start_offset, config=log.config, now_ms=now_ms
        )
        log.segments.add(active)
        # Only these names tell the start from now on: the checkpoint leaves out what the files say.
        log.storage.disk.sync_folder(log.folder)
        end_offset = log.log_start_offset
        log.epochs.clear()
        log.producers.clear(end_offset)
    active.reopen()
    active.start_tail(end_offset)
    log.log_end_offset = end_offset


def _ends_whole(segment: Segment) -> bool:
    """Whether the last batches can be walked to the end of the file: what is appended must follow a batch."""
    try:
        segment.last_header()
    except InvalidBytesError:
        return False
    return True


def _first_broken_txn_index(log: PartitionLog) -> int | None:
    for number, segment in enumerate(log.segments):
        try:
            segment.indexes.aborted()
        except InvalidBytesError:
            return number
    return None


# -- epochs --------------------------------------------------------------------------------------------------


def _load_epochs(log: PartitionLog, whole: int) -> None:
    """The epochs of so many segments, from the first on: those of the others recovery finds in their
    batches."""
    try:
        entries = decode_epochs(log.storage.disk.read_file(f"{log.folder}/{LEADER_EPOCHS}"))
    except (FileNotFoundError, InvalidBytesError):
        entries = []
    log.epochs = LeaderEpochs(entries)
    segments = log.segments.from_number(0)
    if whole < len(segments):
        log.epochs.truncate_from_end(segments[whole].base_offset)
    if not whole:
        _doubt_epochs(log, segments[0])
    del segments[whole:]
    if any(segment.size for segment in segments) and not _epochs_fit(log, segments[-1]):
        log.epochs.clear()
        for segment in segments:
            with contextlib.suppress(InvalidBytesError):  # recovery decides what to do about it
                for _, header in segment.headers():
                    log.epochs.note(header.leader_epoch, header.base_offset)


def _doubt_epochs(log: PartitionLog, first_segment: Segment) -> None:
    """Epochs of before the first segment are none that its first batch contradicts. Their file has no
    checksum, and a later epoch would have every batch taken for what a later leader has overwritten.
    """
    with contextlib.suppress(InvalidBytesError):  # recovery decides what to do about it
        found = next(scan_batches(first_segment.file, 0, first_segment.size), None)
        if found is not None and crc_matches(found[2], 0, found[1]):
            log.epochs.note(found[1].leader_epoch, found[1].base_offset)


def _epochs_fit(log: PartitionLog, last_segment: Segment) -> bool:
    """Whether epochs start where the batches say, as far as compaction left the batches to ask."""
    entries = log.epochs.entries()
    if not entries:
        return False
    for epoch, start_offset in entries:
        found, before = _batch_at(log, start_offset), _batch_at(log, start_offset - 1)
        if found is not None:
            if found.base_offset < start_offset != entries[0][1]:
                return False  # no epoch begins inside of a batch; a log may
            moved = found.base_offset > start_offset
            if found.leader_epoch != epoch and not (moved and found.leader_epoch > epoch):
                return False
        if before is not None and before.last_offset < start_offset and before.leader_epoch >= epoch:
            return False
    first = _batch_at(log, log.local_start_offset)
    if first is not None and log.epochs.epoch_at(first.last_offset) != first.leader_epoch:
        return False
    try:
        last = last_segment.last_header()
    except InvalidBytesError:
        return True  # recovery decides what to do about it
    return last is None or last.leader_epoch <= log.epochs.latest


def _batch_at(log: PartitionLog, offset: int) -> BatchHeader | None:
    """The first batch that ends at or behind `offset`, where its segment has one that can be read."""
    number = log.segments.number_of(offset)
    if number < 0:
        return None
    segment = log.segments[number]
    try:
        return next((header for _, header in segment.headers(segment.locate(offset))), None)
    except (ApiError, InvalidBytesError):
        return None  # recovery decides what to do about it


# -- batches -------------------------------------------------------------------------------------------------


def _recover_from(
    log: PartitionLog, number: int, now_ms: int, on_progress: OnProgress | None, *, keeps_gaps: bool
) -> None:
    """Check all segments from this number on. `keeps_gaps`: those between segments are Apache Kafka's."""
    segments = log.segments.from_number(number)
    first = segments[0]
    rebuild_producers(
        log.producers, log.snapshots, log.segments, log.log_start_offset, first.base_offset, now_ms
    )
    log.epochs.truncate_from_end(first.base_offset)
    end_offset, bytes_done = first.base_offset, 0
    for done, segment in enumerate(segments, 1):
        is_behind_gap = _lacks_end(log, end_offset, segment)
        if is_behind_gap and keeps_gaps:
            close_gap(log, segments[done - 2], end_offset, segment.base_offset)
        elif segment.base_offset < end_offset or is_behind_gap:
            dropped = _drop_from(log, number + done - 1, now_ms)
            _tell(log, done, len(segments), bytes_done, dropped, dropped, on_progress)
            break
        if done > 1:
            log.producers.end_offset = segment.base_offset
            log.snapshots.take(log.producers)
        size_before = segment.size
        end_offset, is_unfinished = _recover_segment(log, segment)
        bytes_done += segment.size
        cut, dropped = size_before - segment.size, 0
        is_gap = not segment.size and not keeps_gaps
        if cut or (is_gap and done < len(segments)):
            dropped = _drop_from(log, number + done, now_ms)
        lost = dropped if is_unfinished else cut + dropped
        _tell(log, done, len(segments), bytes_done, cut + dropped, lost, on_progress)
        if cut or is_gap:
            break
    _close_recovered(log, number)
    log.segments = Segments(list(log.segments))  # sizes have changed
    log.producers.end_offset = end_offset


def _drop_from(log: PartitionLog, number: int, now_ms: int) -> int:
    """Drop the segments from this number on; how many bytes they had."""
    dropped = log.segments.drop_from(number)
    size = sum(segment.size for segment in dropped)
    discard(log, dropped, now_ms)
    return size


def _tell(
    log: PartitionLog,
    done: int,
    total: int,
    bytes_done: int,
    cut: int,
    lost: int,
    on_progress: OnProgress | None,
) -> None:
    if on_progress is not None:
        on_progress(RecoveryProgress(log.folder, done, total, bytes_done, cut, lost))


def _lacks_end(log: PartitionLog, end_offset: int, following: Segment) -> bool:
    """Whether the segment that ends at `end_offset` lost its end, which a log must not have a hole for.

    Behind the recovery point segments follow each other without a gap. Apache Kafka's compaction may make
    one (`kafka_gaps`), ours never does.
    """
    return following.base_offset > max(end_offset, log.recovery_point, log.cleaned_to or 0)


def _recover_segment(log: PartitionLog, segment: Segment) -> tuple[int, bool]:
    """Note every good batch and cut behind the last of them. Returns the offset behind it, and whether what
    was cut is the beginning of one batch.

    A process may have ended because a sync failed. What it wrote can still be read, but the system takes
    those pages for clean, and no later sync would bring them to the disk. Where acknowledgements wait for the
    disk, or nothing says that no sync has failed, such batches are written once more, so that the next sync
    is one of them too: what lies before a recovery point is never looked at again.
    """
    size, file = segment.size, segment.file
    renews = log.config.flush_messages != LONG_MAX or log.storage.sync_may_have_failed
    segment.reset()
    segment.indexes.reset_aborted()
    end_offset = segment.base_offset
    try:
        for position, header, batch in scan_batches(file, 0, size):
            _check_batch(segment, position, header, batch, end_offset)
            if 0 <= header.leader_epoch < log.epochs.latest:
                # What was truncated before the crash has come back: a later leader has written since.
                raise InvalidBytesError(f"the epoch of the batch at byte {position} is an older one")
            if renews and header.last_offset >= log.recovery_point:
                file.write(position, (batch,))
            segment.note_batches(((header.size, header.last_offset, header.record_timestamp_max),))
            end_offset = header.next_offset
            log.epochs.note(header.leader_epoch, header.base_offset)
            completed = log.producers.apply(header, batch)
            if completed is not None:
                aborted = log.producers.complete(completed)
                if aborted is not None:
                    segment.indexes.add_aborted(aborted)
    except InvalidBytesError:
        is_unfinished = _is_unfinished(file, segment.size, size, end_offset)
        file.truncate(segment.size)
        if not is_unfinished:
            file.sync()  # whole batches must not be back before what is written next: see `truncation`
        return end_offset, is_unfinished
    return end_offset, False


def _is_unfinished(file: File, position: int, end: int, next_offset: int) -> bool:
    """Whether there is the beginning of the next batch and no more: a write that did not come to its end."""
    start = file.read(position, min(HEADER_BYTES, end - position))
    if len(start) < HEADER_BYTES:
        return True
    header = read_header(start)
    return header.magic == MAGIC and header.base_offset >= next_offset and header.size > end - position


def _check_batch(
    segment: Segment, position: int, header: BatchHeader, batch: memoryview, end_offset: int
) -> None:
    if not crc_matches(batch, 0, header):
        raise InvalidBytesError(f"the CRC of the batch at byte {position} does not match")
    if header.base_offset < end_offset:
        raise InvalidBytesError(f"offset {header.base_offset} at byte {position} is below {end_offset}")
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise InvalidBytesError(
            f"offset {header.last_offset} at byte {position} is too far from the segment's"
        )


def _close_recovered(log: PartitionLog, number: int) -> None:
    """All recovered segments but the last, whose indexes stay in memory, are owed to the next flush."""
    for segment in log.segments.from_number(number):
        if segment is not log.segments.active:
            segment.seal()
            segment.retire()
            log.owed.note_files(segment.path, *segment.indexes.paths())
    log.owed.note_folders(log.folder)
