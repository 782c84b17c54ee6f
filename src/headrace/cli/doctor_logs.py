"""What `headrace doctor` finds in the logs of a folder: damaged batches, lost segments, an end that is too
early, and small files that cannot be read.

A node tells the same when it opens a log (`log.missing_records`, `log.log_loader`). Here nothing is opened
for writing, and a node may be at work on the same files: what it has just deleted is passed over.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.cli.doctor_findings import Finding
from headrace.cli.doctor_txn_indexes import txn_index_findings
from headrace.log.batch_scan import SCAN_BYTES, OldFormatError, scan_headers
from headrace.log.checkpoints import decode_epochs, decode_partition_metadata
from headrace.log.disk import Disk, File
from headrace.log.file_names import (
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    offset_name,
    parse_partition_folder,
    parse_segment_file,
)
from headrace.log.producer_snapshots import decode_snapshot
from headrace.records.header import HEADER_BYTES, crc_matches

CLOCK_SLACK_S: Final = 60.0
FETCH_AGAIN: Final = (
    "stop the node, remove the folder, start it: another replica fills it again. Without one, records are "
    "lost: bring the file back from a copy"
)

_SMALL_FILES: Final[dict[str, tuple[Callable[[bytes], object], str]]] = {
    LEADER_EPOCHS: (decode_epochs, "the log's batches"),
    PARTITION_METADATA: (decode_partition_metadata, "the cluster's metadata"),
    SNAPSHOT: (decode_snapshot, "the log's batches"),
}
"""How files are read, by their names or suffixes, and where else is what they have."""


class KnownOffsets(NamedTuple):
    """What the checkpoints of a folder say of its logs."""

    starts: Mapping[TopicPartition, int]
    flushed: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    cleaned: Mapping[TopicPartition, int]


class _Segment(NamedTuple):
    """What a segment's file turned out to have: up to where it is whole, and what is wrong there."""

    path: str
    base_offset: int
    end_offset: int
    newest_ms: int
    damage: str


def log_findings(disk: Disk, folder: str, known: KnownOffsets) -> Iterator[Finding]:
    """Of one log, in the folder of its partition."""
    parsed = parse_partition_folder(folder.rpartition("/")[2])
    assert parsed is not None, "the caller has looked at its name"
    partition = parsed.topic_partition
    names = disk.list(folder)
    yield from _small_files(disk, folder, names)
    yield from txn_index_findings(disk, folder)
    yield from _lost_files(disk, folder, names, known.starts.get(partition, 0))
    segments = []
    bases = _bases(names, LOG)
    for base_offset in bases:
        path = f"{folder}/{offset_name(base_offset)}{LOG}"
        try:
            segments.append(_read_segment(disk, path, base_offset, is_active=base_offset == bases[-1]))
        except FileNotFoundError:
            continue  # a running node has deleted it
        except (OldFormatError, OSError) as error:
            yield _unreadable(path, error)
            return
    yield from _damages(segments)
    yield from _gaps(segments, max(known.starts.get(partition, 0), known.cleaned.get(partition, 0)))
    known_end = max(known.flushed.get(partition, 0), known.high_watermarks.get(partition, 0))
    if segments and max(segments[-1].end_offset, known.starts.get(partition, 0)) < known_end:
        yield Finding(
            "error",
            folder,
            f"its log ends at offset {segments[-1].end_offset}, and was known to reach {known_end}",
            "start the node: it fetches what is missing from another replica. Without one, records are lost: "
            "bring the files back from a copy",
        )
    if max((each.newest_ms for each in segments), default=0) / 1000 > time.time() + CLOCK_SLACK_S:
        yield Finding(
            "warning",
            folder,
            "its newest record is from the future",
            "set this machine's clock, or that of its producers (NTP): retention goes by these times",
        )


def gone_findings(disk: Disk, folders: list[str], folder: str, known: KnownOffsets) -> Iterator[Finding]:
    """Of partitions that had records in this folder by both of its checkpoints, and have none in any now."""
    marked = {
        parsed.topic_partition
        for each in folders
        if disk.exists(each)
        for name in disk.list(each)
        if (parsed := parse_partition_folder(name)) is not None
    }
    for partition, flushed in sorted(known.flushed.items()):
        is_known = partition in known.high_watermarks or not known.high_watermarks
        if flushed and is_known and partition not in marked:
            yield Finding(
                "error",
                f"{folder}/{partition}",
                f"the partition's folder is gone: its log had at least {flushed} offsets",
                "bring it back if it was moved by hand. The next start makes it anew, and another replica "
                "fills it; without one, its records are lost",
            )


def _bases(names: list[str], *suffixes: str) -> list[int]:
    """Base offsets of the files with these suffixes that are in use."""
    files = [file for name in names if (file := parse_segment_file(name)) is not None and not file.state]
    return sorted({file.base_offset for file in files if file.suffix in suffixes})


def _small_files(disk: Disk, folder: str, names: list[str]) -> Iterator[Finding]:
    """Those beside the segments: the next start finds again what they had."""
    for name in sorted(names):
        known = _SMALL_FILES.get(name) or _SMALL_FILES.get(os.path.splitext(name)[1])
        if known is None:
            continue
        decode, source = known
        path = f"{folder}/{name}"
        try:
            decode(disk.read_file(path))
        except FileNotFoundError:
            continue  # a running node has removed it
        except InvalidBytesError as error:
            yield Finding(
                "warning",
                path,
                f"it is damaged: {error}",
                f"restart the node: it finds this again in {source}",
            )


def _lost_files(disk: Disk, folder: str, names: list[str], start: int) -> Iterator[Finding]:
    """Segments of which only the index is here, and which nobody is deleting or compacting."""
    parsed = [file for name in names if (file := parse_segment_file(name)) is not None]
    logs = {file.base_offset for file in parsed if file.suffix == LOG}
    for base_offset in sorted({*_bases(names, *SEGMENT_SUFFIXES)} - logs):
        path = f"{folder}/{offset_name(base_offset)}"
        left = [f"{path}{suffix}" for suffix in SEGMENT_SUFFIXES if disk.exists(f"{path}{suffix}")]
        if left and f"{path}{LOG}" not in left and base_offset >= start:
            what = f"it is gone, with all its records: only {os.path.basename(left[0])} is here"
            yield Finding("error", f"{path}{LOG}", what, FETCH_AGAIN)


def _read_segment(disk: Disk, path: str, base_offset: int, *, is_active: bool) -> _Segment:
    """As far as it is whole; FileNotFoundError, OldFormatError, OSError."""
    file = disk.open(path, writable=False)
    end_offset, newest_ms, damage, position, size = base_offset, 0, "", 0, disk.size(path)
    try:
        for position, header in scan_headers(file, 0, size):
            if not crc_matches(file.read(position, header.size), 0, header):
                damage = damage or f"the batch at byte {position} does not match its CRC"
            end_offset = header.next_offset
            newest_ms = max(newest_ms, 0 if damage else header.max_timestamp)
            position += header.size
    except InvalidBytesError as error:
        if not is_active or not _is_reserve(file, position, size):
            damage = damage or str(error)
    finally:
        file.close()
    return _Segment(path, base_offset, end_offset, newest_ms, damage)


def _is_reserve(file: File, position: int, size: int) -> bool:
    """Whether there is nothing but room for more batches (`preallocate`)."""
    if size - position < HEADER_BYTES:
        return False
    pieces = range(position, size, SCAN_BYTES)
    return not any(any(file.read(at, min(SCAN_BYTES, size - at))) for at in pieces)


def _unreadable(path: str, error: Exception) -> Finding:
    if isinstance(error, OldFormatError):
        what = f"its messages are of a format before Kafka 0.11: {error}"
        return Finding("error", path, what, "read them with the Kafka that wrote them, and produce them here")
    return Finding("error", path, f"it cannot be read: {error}", "look at its disk, and replace it")


def _damages(segments: list[_Segment]) -> Iterator[Finding]:
    for each in segments:
        if not each.damage:
            continue
        what = f"it is damaged: {each.damage}"
        if each is segments[-1]:
            advice = "restart the node: another replica brings back what was replicated"
            yield Finding("warning", each.path, what, advice)
        else:
            yield Finding("error", each.path, what, FETCH_AGAIN)


def _gaps(segments: list[_Segment], may_have_gaps_to: int) -> Iterator[Finding]:
    """Closed segments that end before the next begins. Compaction may have left that, where it has been."""
    for each, following in pairwise(segments):
        if each.damage or each.end_offset >= following.base_offset:
            continue
        if following.base_offset > may_have_gaps_to:
            lost = f"{each.end_offset} to {following.base_offset - 1}"
            what = f"it ends too early: records are missing from offset {lost}"
            yield Finding("error", each.path, what, FETCH_AGAIN)
