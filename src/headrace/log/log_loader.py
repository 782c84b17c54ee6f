"""Opening a log: what a clean stop, a kill or a power cut left becomes a log again.

First the files of interrupted deletions and compactions are dealt with. After a clean stop the files are
taken as they are; otherwise `log_recovery` checks every batch behind the recovery point.

Files that can be had from the log itself are never a reason to refuse: a broken or missing index is rebuilt
when first used, an unreadable epoch checkpoint from the batches, an unreadable snapshot from an older one.
"""

import contextlib
import logging

from headrace.base.errors import ApiError, InvalidBytesError
from headrace.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headrace.log.batch_scan import scan_batches, scan_headers
from headrace.log.checkpoints import (
    decode_aborted,
    decode_epochs,
    decode_partition_metadata,
    encode_partition_metadata,
)
from headrace.log.disk import Disk
from headrace.log.file_names import (
    ABORTED_SEALS,
    CLEANED,
    DELETED,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    SegmentFile,
    offset_name,
    parse_segment_file,
)
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.log_recovery import OnProgress, recover_segments, was_open_in_kafka
from headrace.log.log_segment import LogSegment
from headrace.log.log_segments import LogSegments, create_segment
from headrace.log.missing_records import FETCHED_AGAIN, check_closed_segments
from headrace.log.producer_snapshots import ProducerSnapshots
from headrace.log.producer_state_manager import ProducerStateManager
from headrace.log.producer_state_rebuild import rebuild_producers
from headrace.log.retention import discard
from headrace.log.storage import Storage
from headrace.log.truncation import move_recovery_point_back
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import BatchHeader, crc_matches
from headrace.settings.topic import TopicConfig

logger = logging.getLogger(__name__)


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
    cleaner_checkpoint: int | None = None,
    starts_elsewhere: bool = False,
    on_progress: OnProgress | None = None,
) -> UnifiedLog:
    """Open the log in `folder`, which is made where it is missing. OSError where the disk fails.

    `clean` says that the last user closed it; `recovery_point`, `log_start_offset` and `cleaner_checkpoint`
    come from the checkpoints. A `topic_id` is written down where the folder has none yet. A log that
    `starts_elsewhere`, in the remote store, may start before the first segment that is here.
    """
    disk = storage.disk
    if not disk.exists(folder):
        _make_files(disk, folder, log_start_offset, config, topic_id)
        return _new_log(
            storage, folder, topic_partition, config, now_ms=now_ms, topic_id=topic_id, start=log_start_offset
        )
    files, lost_bases = _complete_file_changes(disk, folder)
    segments = _segments_of(storage, folder, files, config, now_ms)
    known_id = _load_topic_id(storage, folder, is_new=not any(segment.size for segment in segments))
    if not segments:
        segments.append(create_segment(storage, folder, log_start_offset, config=config, now_ms=now_ms))
    log = UnifiedLog(
        storage,
        folder,
        topic_partition,
        known_id,
        config,
        segments=LogSegments(segments),
        leader_epoch_cache=LeaderEpochFileCache(),
        producer_state_manager=ProducerStateManager(),
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
    log.cleaner_checkpoint = cleaner_checkpoint
    _note_lost_segments(log, [base for base in lost_bases if base >= log_start_offset])
    if not files:
        log.unsynced.note_folders(folder, folder.rpartition("/")[0])
    _restore(log, clean=clean, now_ms=now_ms, on_progress=on_progress)
    tell_lost_end(log, recovery_point, "it was flushed to")
    if known_id == NO_TOPIC_ID != topic_id:
        log.assign_topic_id(topic_id)
    return log


def _make_files(disk: Disk, folder: str, start: int, config: TopicConfig, topic_id: TopicId) -> None:
    """Make the folder of a new partition, with an empty segment and the topic's id in it. Blocks."""
    disk.make_folder(folder)
    file = disk.open(f"{folder}/{offset_name(start)}{LOG}", create=True)
    if config.preallocate:
        file.preallocate(config.segment_bytes)
    if topic_id != NO_TOPIC_ID:
        disk.open(f"{folder}/{PARTITION_METADATA}", create=True).write(
            0, (encode_partition_metadata(topic_id),)
        )


def _new_log(
    storage: Storage,
    folder: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: int,
    topic_id: TopicId = NO_TOPIC_ID,
    start: int = 0,
) -> UnifiedLog:
    """The log in a folder that `_make_files` has made, and nobody has used yet."""
    segment = LogSegment(
        storage, folder, start, size=0, config=config, created_ms=now_ms, has_index_files=False
    )
    segment.reset()
    log = UnifiedLog(
        storage,
        folder,
        topic_partition,
        topic_id,
        config,
        segments=LogSegments([segment]),
        leader_epoch_cache=LeaderEpochFileCache(),
        producer_state_manager=ProducerStateManager(),
        snapshots=ProducerSnapshots(storage, folder, []),
        log_start_offset=start,
        log_end_offset=start,
        recovery_point=0,
        now_ms=now_ms,
    )
    log.unsynced.note_folders(folder, folder.rpartition("/")[0])
    if topic_id != NO_TOPIC_ID:
        log.unsynced.note_files(f"{folder}/{PARTITION_METADATA}")
    log.producer_state_manager.clear(start)
    return log


def _note_lost_segments(log: UnifiedLog, bases: list[int]) -> None:
    if bases:
        log.lost_records = True
        log.missing_from = min(bases)


def tell_lost_end(log: UnifiedLog, known_end: int, how: str) -> None:
    """Say that a log ends before an offset that it is known to have reached."""
    if log.log_end_offset < known_end:
        log.lost_records = True
        logger.warning(
            "%s: %d records are missing: the log ends at offset %d, %s %d. %s",
            log.topic_partition,
            known_end - log.log_end_offset,
            log.log_end_offset,
            how,
            known_end,
            FETCHED_AGAIN,
        )


def _segments_of(
    storage: Storage, folder: str, files: list[SegmentFile], config: TopicConfig, now_ms: int
) -> list[LogSegment]:
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
            LogSegment(
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


def _load_topic_id(storage: Storage, folder: str, *, is_new: bool) -> TopicId:
    """An unreadable id is none: the controller knows it."""
    path = f"{folder}/{PARTITION_METADATA}"
    try:
        return decode_partition_metadata(storage.disk.read_file(path))
    except FileNotFoundError:
        if not is_new:
            logger.warning("%s is missing: the topic's id is taken from the cluster's metadata", path)
    except InvalidBytesError as error:
        logger.warning("%s is damaged (%s): the topic's id is taken from the cluster's metadata", path, error)
    return NO_TOPIC_ID


def _restore(log: UnifiedLog, *, clean: bool, now_ms: int, on_progress: OnProgress | None) -> None:
    # The segment before the recovery point is looked at too: the cut of its reserved room may be undone.
    first_bad = None if clean else log.segments.number_of(log.recovery_point - 1)
    if clean and not _ends_whole(log.segments.active):
        first_bad = len(log.segments) - 1
    keeps_gaps = first_bad is not None and was_open_in_kafka(log)
    broken = _first_broken_txn_index(log)
    if broken is not None:
        first_bad = broken if first_bad is None else min(first_bad, broken)
    check_closed_segments(log, len(log.segments) if first_bad is None else max(first_bad, 0))
    _load_epochs(log, len(log.segments) if first_bad is None else max(first_bad, 0))
    log.snapshots.remove_strays(log.segments.bases)
    if first_bad is not None:
        recover_segments(log, max(first_bad, 0), now_ms, on_progress, keeps_gaps=keeps_gaps)
    _open_end(log, now_ms)
    if first_bad is None:
        rebuild_producers(
            log.producer_state_manager,
            log.snapshots,
            log.segments,
            log.log_start_offset,
            log.log_end_offset,
            now_ms,
        )
    if clean:
        log.recovery_point = log.log_end_offset
    move_recovery_point_back(log, log.log_end_offset)
    log.leader_epoch_cache.truncate_from_end(log.log_end_offset)
    log.leader_epoch_cache.truncate_from_start(log.log_start_offset)
    log.leader_epoch_cache.reach_back_to(log.local_start_offset)
    log.producer_state_manager.on_log_start(log.log_start_offset)
    log.high_watermark = log.local_start_offset


def _open_end(log: UnifiedLog, now_ms: int) -> None:
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
        log.leader_epoch_cache.clear()
        log.producer_state_manager.clear(end_offset)
    active.reopen()
    active.start_tail(end_offset)
    log.log_end_offset = end_offset


def _ends_whole(segment: LogSegment) -> bool:
    """Whether the last batches can be walked to the end of the file: what is appended must follow a batch."""
    try:
        segment.last_header()
    except InvalidBytesError:
        return False
    return True


def _first_broken_txn_index(log: UnifiedLog) -> int | None:
    seals = log.unsynced.aborted_seals = _load_aborted_seals(log)
    for number, segment in enumerate(log.segments):
        try:
            segment.indexes.aborted()
            if segment.base_offset in seals:
                segment.indexes.check_aborted(*seals[segment.base_offset])
        except InvalidBytesError as error:
            logger.warning(
                "%s%s is damaged (%s): it is rebuilt from the log's batches", segment.stem, TXN_INDEX, error
            )
            return number
    return None


def _load_aborted_seals(log: UnifiedLog) -> dict[int, tuple[int, int]]:
    """What is known of the transaction indexes; nothing of those that Apache Kafka has written."""
    path = f"{log.folder}/{ABORTED_SEALS}"
    try:
        return decode_aborted(log.storage.disk.read_file(path))
    except FileNotFoundError:
        return {}
    except InvalidBytesError as error:
        logger.warning("%s is damaged (%s): transaction indexes are taken as they are", path, error)
        return {}


# -- epochs --------------------------------------------------------------------------------------------------


def _load_epochs(log: UnifiedLog, whole: int) -> None:
    """The epochs of so many segments, from the first on: those of the others recovery finds in their
    batches."""
    path = f"{log.folder}/{LEADER_EPOCHS}"
    entries: list[tuple[int, int]] = []
    is_left_out = False
    try:
        entries = decode_epochs(log.storage.disk.read_file(path))
    except FileNotFoundError:
        is_left_out = len(log.segments) == 1 and log.segments.active.is_short  # see flush.write_out
    except InvalidBytesError as error:
        logger.warning("%s is damaged (%s): epochs are read from the log's batches", path, error)
    log.leader_epoch_cache = LeaderEpochFileCache(entries)
    segments = log.segments.from_number(0)
    if whole < len(segments):
        log.leader_epoch_cache.truncate_from_end(segments[whole].base_offset)
    if not whole:
        _doubt_epochs(log, segments[0])
    del segments[whole:]
    if any(segment.size for segment in segments) and not _epochs_fit(log, segments[-1]):
        if not is_left_out:
            logger.warning("%s does not fit the log: epochs are read from its batches", path)
        log.leader_epoch_cache.clear()
        for segment in segments:
            with contextlib.suppress(InvalidBytesError):  # recovery decides what to do about it
                for _, header in segment.headers():
                    log.leader_epoch_cache.note(header.leader_epoch, header.base_offset)


def _doubt_epochs(log: UnifiedLog, first_segment: LogSegment) -> None:
    """Epochs of before the first segment are none that its first batch contradicts. Their file has no
    checksum, and a later epoch would have every batch taken for what a later leader has overwritten.
    """
    with contextlib.suppress(InvalidBytesError):  # recovery decides what to do about it
        found = next(scan_batches(first_segment.file, 0, first_segment.size), None)
        if found is not None and crc_matches(found[2], 0, found[1]):
            log.leader_epoch_cache.note(found[1].leader_epoch, found[1].base_offset)


def _epochs_fit(log: UnifiedLog, last_segment: LogSegment) -> bool:
    """Whether epochs start where the batches say, as far as compaction left the batches to ask."""
    entries = log.leader_epoch_cache.entries()
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
    if first is not None and log.leader_epoch_cache.epoch_for_offset(first.last_offset) != first.leader_epoch:
        return False
    try:
        last = last_segment.last_header()
    except InvalidBytesError:
        return True  # recovery decides what to do about it
    return last is None or last.leader_epoch <= log.leader_epoch_cache.latest_epoch


def _batch_at(log: UnifiedLog, offset: int) -> BatchHeader | None:
    """The first batch that ends at or behind `offset`, where its segment has one that can be read."""
    number = log.segments.number_of(offset)
    if number < 0:
        return None
    segment = log.segments[number]
    try:
        return next((header for _, header in segment.headers(segment.locate(offset))), None)
    except (ApiError, InvalidBytesError):
        return None  # recovery decides what to do about it


# -- interrupted changes of files ----------------------------------------------------------------------------


def _complete_file_changes(disk: Disk, folder: str) -> tuple[list[SegmentFile], list[int]]:
    """Finish what an interrupted deletion or compaction left in a partition's folder; the segment and
    snapshot files that make up the log, in order, and where segments began whose log is gone.

    `.deleted` files go. `.cleaned` files are a compaction that did not finish: they go, and with them every
    `.swap` at or behind the first of them, because a group of segments is swapped in together. The `.swap`
    files that remain are whole: the segments they replace go, and they take their names.
    """
    found: dict[str, SegmentFile] = {}
    deleted: set[int] = set()
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if name.endswith(DELETED):
            deleted |= {parsed.base_offset} if parsed is not None else set()
            disk.remove(f"{folder}/{name}")
        elif parsed is not None:
            found[name] = parsed
    cleaned = [file.base_offset for file in found.values() if file.state == CLEANED]
    for name, file in list(found.items()):
        unfinished = file.state == SWAP and bool(cleaned) and file.base_offset >= min(cleaned)
        if file.state == CLEANED or unfinished:
            disk.remove(f"{folder}/{name}")
            del found[name]
    _complete_swaps(disk, folder, found)
    return _without_orphans(disk, folder, [file for file in found.values() if not file.state], deleted)


def _complete_swaps(disk: Disk, folder: str, found: dict[str, SegmentFile]) -> None:
    swaps = {name: file for name, file in found.items() if file.state == SWAP}
    logs = {name: file for name, file in swaps.items() if file.suffix == LOG}
    if logs:
        first = min(file.base_offset for file in logs.values())
        end = max(_end_offset(disk, f"{folder}/{name}", file) for name, file in logs.items())
        for name, file in list(found.items()):
            if not file.state and file.suffix != SNAPSHOT and first <= file.base_offset < end:
                disk.remove(f"{folder}/{name}")
                del found[name]
    # Logs first: an index beside a log that is still to be swapped in would be taken for an old one.
    for name, file in sorted(swaps.items(), key=lambda item: item[1].suffix != LOG):
        final = name.removesuffix(SWAP)
        disk.rename(f"{folder}/{name}", f"{folder}/{final}")
        del found[name]
        found[final] = file._replace(state="")


def _end_offset(disk: Disk, path: str, file: SegmentFile) -> int:
    end = file.base_offset + 1
    try:
        for _, header in scan_headers(disk.open(path, writable=False), 0, disk.size(path)):
            end = header.next_offset
    except InvalidBytesError:
        pass  # recovery cuts it there
    return end


def _without_orphans(
    disk: Disk, folder: str, files: list[SegmentFile], deleted: set[int]
) -> tuple[list[SegmentFile], list[int]]:
    """An index without its log indexes nothing. Unless the log was being `deleted`, it tells of a loss."""
    bases = {file.base_offset for file in files if file.suffix == LOG}
    kept: list[SegmentFile] = []
    lost: list[int] = []
    for file in sorted(files):
        if file.suffix == SNAPSHOT or file.base_offset in bases:
            kept.append(file)
            continue
        path = f"{folder}/{file.base_offset:020}"
        if file.base_offset not in {*deleted, *lost}:
            lost.append(file.base_offset)
            logger.warning("%s%s is gone, with all its records: only its index is here", path, LOG)
        disk.remove(path + file.suffix)
    return kept, lost
