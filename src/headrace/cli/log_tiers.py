"""The segments of one partition, in its folder and in the remote store, for `headrace log dump FOLDER`.

What is on the disk its folder tells. What is in the store the records of `__remote_log_metadata` tell, where
a partition of it that speaks of this one lies in a log directory at hand; else the names of the store's
objects, where the store can be asked. Names do not tell what is being copied or removed, or was replaced.

Copy lag is what Apache Kafka's RemoteCopyLagBytes is: closed segments that are not in the store yet. The
active one is never copied, so it is told apart from them.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import click

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition, uuid_text
from headrace.base.internal_topics import REMOTE_LOG_TOPIC
from headrace.cli.log_folders import segment_sizes
from headrace.cli.output import note, print_facts, print_json_line, print_table
from headrace.log.batch_scan import scan_headers
from headrace.log.checkpoints import decode_epochs, decode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.dump import DumpedBatch, dump_file
from headrace.log.file_names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    parse_partition_folder,
    parse_segment_file,
    parse_segment_object,
)
from headrace.log.leader_epoch_file_cache import LeaderEpochFileCache
from headrace.log.offset_index import OffsetIndex, without_reserve
from headrace.records.batch import Record
from headrace.tiered.metadata_cache import RemoteLogMetadataCache, RemotePartitionMetadataStore
from headrace.tiered.metadata_serde import decode_record
from headrace.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
    partition_prefix,
    segment_id_in,
)

COPIED: Final = "copied"
LISTED: Final = "in the store"
_WORDS: Final = {
    RemoteLogSegmentState.COPY_STARTED: "being copied",
    RemoteLogSegmentState.COPY_FINISHED: COPIED,
    RemoteLogSegmentState.DELETE_STARTED: "being removed",
}


class LocalSegment(NamedTuple):
    """A segment's file; `end` is behind its last offset."""

    start: int
    end: int
    size_bytes: int
    is_active: bool


class RemoteCopy(NamedTuple):
    """A segment in the store."""

    start: int
    end: int
    size_bytes: int
    state: str
    segment_id: str

    @property
    def counts(self) -> bool:
        """Whether it can be read, as far as is known."""
        return self.state in (COPIED, LISTED)


class PartitionTiers(NamedTuple):
    """Both tiers together. Nothing is said of the store where it is not known what it has."""

    local_start: int | None
    local_end: int | None
    local_bytes: int
    remote_start: int | None
    remote_end: int | None
    remote_bytes: int | None
    active_bytes: int
    copy_lag_bytes: int | None
    copy_lag_segments: int | None


class Dump(NamedTuple):
    local: list[LocalSegment]
    remote: list[RemoteCopy] | None
    tiers: PartitionTiers


# -- finding out ---------------------------------------------------------------------------------------------


def dump_folder(
    disk: Disk, folder: str, log_dirs: Iterable[str], open_objects: Callable[[], Disk] | None
) -> Dump:
    """A partition's folder; `log_dirs` are asked for records about the store, and its objects where there are
    none. ValueError for what is no partition's folder, OSError where something cannot be read.
    """
    parsed = parse_partition_folder(folder.rpartition("/")[2])
    if parsed is None:
        raise ValueError("is no partition's folder: `headrace log describe` tells of log directories")
    local = _local(disk, folder)
    name = _identity(disk, folder, parsed.topic_partition)
    log = None if name is None else _told(disk, log_dirs, name)
    if log is not None:
        epochs = _epochs(disk, folder)
        end = log.end_offset(epochs) if epochs.entries() else None
        return Dump(local, _copies(log), _summed(local, _copies(log), end))
    if name is None or open_objects is None:
        return Dump(local, None, _summed(local, None, None))
    listed = dump_objects(open_objects(), partition_prefix(name).rstrip("/"))
    return Dump(local, listed, _summed(local, listed, None))


def dump_objects(objects: Disk, folder: str) -> list[RemoteCopy]:
    """The copies of a partition whose objects are in this folder of a store."""
    found = []
    prefix = f"{folder}/" if folder else ""
    for name in objects.list(folder):
        parsed = parse_segment_object(name)
        if parsed is not None and parsed.suffix == LOG:
            stem = prefix + name.removesuffix(LOG)
            size = objects.size(stem + LOG)
            end = _end_of(objects, stem, parsed.base_offset, size)
            found.append(RemoteCopy(parsed.base_offset, end, size, LISTED, segment_id_in(name)))
    return sorted(found)


def _local(disk: Disk, folder: str) -> list[LocalSegment]:
    sizes = segment_sizes(disk, folder)
    starts = sorted(sizes)
    if not starts:
        return []
    last = _end_of(disk, f"{folder}/{starts[-1]:020}", starts[-1], sizes[starts[-1]])
    ends = [*starts[1:], last]
    return [
        LocalSegment(start, end, sizes[start], start == starts[-1])
        for start, end in zip(starts, ends, strict=True)
    ]


def _end_of(disk: Disk, stem: str, base_offset: int, size: int) -> int:
    """Behind the last offset of a segment: from the last entry of its index on, few batches are left."""
    position = 0
    try:
        index = OffsetIndex(base_offset, without_reserve(disk.read_file(stem + INDEX)))
        if len(index):
            position = index.entry(len(index) - 1)[1]
    except (FileNotFoundError, InvalidBytesError):
        pass
    end = base_offset
    try:
        for _, header in scan_headers(disk.open(stem + LOG, writable=False), min(position, size), size):
            end = header.next_offset
    except InvalidBytesError:
        pass  # it is being written
    return end


def _identity(disk: Disk, folder: str, partition: TopicPartition) -> TopicIdPartition | None:
    try:
        topic_id: TopicId = decode_partition_metadata(disk.read_file(f"{folder}/{PARTITION_METADATA}"))
    except FileNotFoundError:
        return None
    return TopicIdPartition(topic_id, partition)


def _epochs(disk: Disk, folder: str) -> LeaderEpochFileCache:
    try:
        return LeaderEpochFileCache(decode_epochs(disk.read_file(f"{folder}/{LEADER_EPOCHS}")))
    except (FileNotFoundError, InvalidBytesError):
        return LeaderEpochFileCache()


def _told(disk: Disk, log_dirs: Iterable[str], name: TopicIdPartition) -> RemoteLogMetadataCache | None:
    """What the records in these directories tell of a partition; None where they tell nothing."""
    logs = RemotePartitionMetadataStore()
    for log_dir in log_dirs:
        for child in disk.list(log_dir):
            parsed = parse_partition_folder(child)
            if parsed is not None and not parsed.state and parsed.topic_partition.topic == REMOTE_LOG_TOPIC:
                _apply(disk, f"{log_dir}/{child}", logs)
    return logs.known(name) if name in logs.partitions() else None


def _apply(disk: Disk, folder: str, logs: RemotePartitionMetadataStore) -> None:
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if parsed is None or parsed.suffix != LOG or parsed.state:
            continue
        for item in dump_file(disk, f"{folder}/{name}", decode=_decode):
            for record in item.records if isinstance(item, DumpedBatch) else ():
                if isinstance(record.decoded, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
                    logs.apply(record.decoded)


def _decode(record: Record) -> object:
    return None if record.value is None else decode_record(record.value)


def _copies(log: RemoteLogMetadataCache) -> list[RemoteCopy]:
    replaced = {segment.segment_id for segment in log.replaced()}
    return sorted(
        RemoteCopy(
            each.start_offset,
            each.end_offset + 1,
            each.size,
            "replaced" if each.segment_id in replaced else _WORDS[each.state],
            uuid_text(each.segment_id),
        )
        for each in log
    )


def _summed(
    local: list[LocalSegment], remote: list[RemoteCopy] | None, tiered_to: int | None
) -> PartitionTiers:
    copied = [each for each in remote or () if each.counts]
    if tiered_to is None:
        tiered_to = max((each.end for each in copied), default=0)
    lag = [each for each in local if not each.is_active and each.end > tiered_to]
    is_known = remote is not None
    return PartitionTiers(
        local_start=local[0].start if local else None,
        local_end=local[-1].end if local else None,
        local_bytes=sum(each.size_bytes for each in local),
        remote_start=copied[0].start if copied else None,
        remote_end=tiered_to if copied else None,
        remote_bytes=sum(each.size_bytes for each in copied) if is_known else None,
        active_bytes=local[-1].size_bytes if local else 0,
        copy_lag_bytes=sum(each.size_bytes for each in lag) if is_known else None,
        copy_lag_segments=len(lag) if is_known else None,
    )


# -- telling -------------------------------------------------------------------------------------------------


def print_dump(path: str, dump: Dump, *, as_json: bool) -> None:
    if as_json:
        for item in (*(dump.remote or ()), *dump.local, dump.tiers):
            print_json_line({"file": path, "kind": type(item).__name__, **item._asdict()})
        return
    rows = _remote_rows(dump.remote or [])
    rows += [
        ("local", each.start, each.end - 1, each.size_bytes, "active" if each.is_active else "closed", None)
        for each in dump.local
    ]
    _print_rows(rows)
    click.echo()
    print_facts(_facts(dump))


def print_copies(path: str, copies: list[RemoteCopy], *, as_json: bool) -> None:
    if as_json:
        for each in copies:
            print_json_line({"file": path, "kind": type(each).__name__, **each._asdict()})
    else:
        _print_rows(_remote_rows(copies))


Row = tuple[str, int, int, int, str, str | None]


def _remote_rows(copies: list[RemoteCopy]) -> list[Row]:
    return [
        ("remote", each.start, each.end - 1, each.size_bytes, each.state, each.segment_id) for each in copies
    ]


def _print_rows(rows: list[Row]) -> None:
    if not rows:
        note("there are no segments")
        return
    print_table(("TIER", "FIRST OFFSET", "LAST OFFSET", "BYTES", "STATE", "COPY"), rows)


def _facts(dump: Dump) -> list[tuple[str, object]]:
    tiers = dump.tiers
    facts: list[tuple[str, object]] = [
        ("local", _amount(tiers.local_start, tiers.local_end, tiers.local_bytes, len(dump.local)))
    ]
    if dump.remote is None or tiers.remote_bytes is None:
        return facts
    count = sum(each.counts for each in dump.remote)
    facts.append(("remote", _amount(tiers.remote_start, tiers.remote_end, tiers.remote_bytes, count)))
    lag = f"{tiers.copy_lag_bytes} bytes in {_segments(tiers.copy_lag_segments or 0)}"
    facts.append(("copy lag", f"{lag}, beside {tiers.active_bytes} bytes in the active segment"))
    return facts


def _amount(start: int | None, end: int | None, size_bytes: int, segments: int) -> str:
    if start is None or end is None or end <= start:
        return "nothing"
    return f"offsets {start}–{end - 1}, {size_bytes} bytes in {_segments(segments)}"


def _segments(count: int) -> str:
    return f"{count} segment{'' if count == 1 else 's'}"
