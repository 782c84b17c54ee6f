"""Damage in the metadata log, told from the torn end that a crash leaves.

A log that is opened after a crash is cut at its first bad batch: behind it lie only writes that nobody was
told of. For the metadata log that would be fatal where the batch is bad because a bit flipped at rest: topics
that were committed long ago would be gone without a word, and their records set aside with them. So before
the log is opened its batches are read, and a bad one is refused, for an operator to bring a good copy, where

- one flipped bit explains it (CRC-32C tells which), unless there is nothing but zeros from that byte on: the
  last bytes of a batch are mostly zeros, and where they were not written yet, one bit may be all that lacks,
- its CRC is right but its offset or epoch does not follow, which lie outside of the CRC, or
- a whole batch of a later epoch than that of the last good one (or of the snapshot that the log begins
  behind) comes behind it: an epoch begins only when all before it is durable, and goes on only when its first
  batch is.

Everything else is a torn end. So is a segment into which the one before it reaches: a log that was cut goes
on in a new segment, and nobody was told of what is there before the cut is durable too.

Damage to what a snapshot stands for loses nothing. Segments that end where the latest one does, or before,
are kept for followers that lag; where one of them is not whole all of them go, for recovery would cut the log
there, and lose what comes behind the snapshot.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.log.disk import Disk
from headrace.log.file_names import LOG, SEGMENT_SUFFIXES, parse_segment_file
from headrace.raft.snapshots import SnapshotId
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, crc_matches, read_header

logger = logging.getLogger(__name__)

MAGIC_AT: Final = 16
CRC_FROM: Final = 21
LENGTH_AT: Final = 8
WITHOUT_IT: Final = (
    "Bring back this file from a copy or another controller; without it the cluster's topics cannot be known"
)
# Of one byte at the end of what is summed: how a change of its bits changes the sum.
_SHIFTS: Final = [crc32c(bytes([byte])) ^ crc32c(b"\0") for byte in range(256)]


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Where a log is not whole."""

    path: str
    at: int
    offset: int
    """Which the batch would have that is not there."""
    what: str
    is_torn: bool
    """A crash may have left it so."""
    is_replaced: bool
    """A snapshot has all of the segment's records."""

    def __str__(self) -> str:
        return f"is damaged: of the batch at byte {self.at}, {self.what}"


def settle_damage(disk: Disk, folder: str, snapshots: Sequence[SnapshotId] = ()) -> list[SnapshotId]:
    """Make the log in `folder` ready to be opened; InvalidBytesError where a batch was damaged at rest.
    Returns which `snapshots`, all of them whole, are left. Blocks.
    """
    kept = list(snapshots)
    found = find_damage(disk, folder, kept)
    if found is not None and found.is_replaced:
        kept = _drop_replaced(disk, folder, kept, found)
        found = find_damage(disk, folder, kept)
    if found is not None and not found.is_torn:
        raise InvalidBytesError(f"{found.path} {found}. {WITHOUT_IT}")
    return kept


def _drop_replaced(
    disk: Disk, folder: str, snapshots: list[SnapshotId], found: LogDamage
) -> list[SnapshotId]:
    """Remove all segments that the latest snapshot stands for, and older snapshots, behind which the log does
    not go on then.
    """
    end_offset = snapshots[-1].end_offset
    start = _first_kept(_segments(disk, folder), end_offset)
    logger.warning(
        "%s %s. The snapshot of offset %d has its records: the log begins at offset %d from now on.",
        *(found.path, found, end_offset, start),
    )
    kept = [each for each in snapshots if each.end_offset >= start]
    paths = [snapshot.file_name for snapshot in snapshots if snapshot not in kept]
    for suffix in reversed(SEGMENT_SUFFIXES):  # an index without its log is told as a loss
        for name in sorted(disk.list(folder)):
            parsed = parse_segment_file(name)
            if parsed is not None and parsed.suffix == suffix and parsed.base_offset < start:
                paths.append(name)
    for name in paths:
        disk.remove(f"{folder}/{name}")
    disk.sync_folder(folder)
    return kept


def _first_kept(segments: Iterable[tuple[int, str]], end_offset: int) -> int:
    """Where the segment begins that goes on behind a snapshot."""
    return max((base for base, _ in segments if base <= end_offset), default=0)


def find_damage(disk: Disk, folder: str, snapshots: Sequence[SnapshotId] = ()) -> LogDamage | None:
    """The first place where the log is not whole, and recovery would cut it. Blocks."""
    epochs = {snapshot.end_offset: snapshot.epoch for snapshot in snapshots}
    segments = list(_segments(disk, folder))
    known_to = max(epochs, default=-1)
    first_kept = _first_kept(segments, known_to)
    expected_offset, epoch = -1, -1
    before: tuple[str, int] | None = None
    for base_offset, path in segments:
        if base_offset < expected_offset:
            return None  # a power cut brought back what had been cut from the one before; recovery drops this
        if before is not None and expected_offset < base_offset:
            what = f"nothing is there, and the next segment begins with offset {base_offset}"
            is_replaced = base_offset <= known_to
            return LogDamage(*before, expected_offset, what, is_torn=True, is_replaced=is_replaced)
        data = disk.read_file(path)
        expected_offset = max(expected_offset, base_offset)
        epoch = max(epoch, epochs.get(expected_offset, -1))
        at = 0
        while at < len(data):
            header = _whole_batch(data, at)
            what, is_torn = "", False
            if header is None:
                what = "its bytes are not those that were written"
                is_at_rest = _is_one_bit_off(data, at) or _has_later_epoch(data, at, expected_offset, epoch)
                is_torn = not is_at_rest
            elif header.base_offset != expected_offset:
                what = f"it has offset {header.base_offset}, not {expected_offset}"
            elif header.leader_epoch < epoch:
                what = f"it has epoch {header.leader_epoch} after {epoch}"
            if header is None or what:
                is_replaced = base_offset < first_kept
                return LogDamage(path, at, expected_offset, what, is_torn, is_replaced)
            expected_offset, epoch = header.next_offset, header.leader_epoch
            at += header.size
        before = path, at
    return None


def _segments(disk: Disk, folder: str) -> Iterator[tuple[int, str]]:
    for name in sorted(disk.list(folder)):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.suffix == LOG and not parsed.state:
            yield parsed.base_offset, f"{folder}/{name}"


def _whole_batch(data: bytes, at: int) -> BatchHeader | None:
    if len(data) - at < HEADER_BYTES or data[at + MAGIC_AT] != MAGIC:
        return None
    header = read_header(data, at)
    fits = HEADER_BYTES - LOG_OVERHEAD <= header.length <= len(data) - at - LOG_OVERHEAD
    return header if fits and crc_matches(data, at, header) else None


def _is_one_bit_off(data: bytes, at: int) -> bool:
    """Whether what lies here would be a whole batch with one bit changed."""
    if len(data) - at < HEADER_BYTES:
        return False
    for position in (*range(LENGTH_AT, LENGTH_AT + 4), MAGIC_AT):
        for bit in range(8):
            changed = bytearray(data[at:])
            changed[position] ^= 1 << bit
            if _whole_batch(bytes(changed), 0) is not None:
                return True
    header = read_header(data, at)
    if not HEADER_BYTES - LOG_OVERHEAD <= header.length <= len(data) - at - LOG_OVERHEAD:
        return False
    end = at + header.length + LOG_OVERHEAD
    difference = crc32c(data[at + CRC_FROM : end]) ^ header.crc
    if header.magic != MAGIC or difference.bit_count() == 1:
        return header.magic == MAGIC
    behind = _bytes_behind_bit(difference, end - at - CRC_FROM)
    return behind >= 0 and any(data[end - 1 - behind :])


def _bytes_behind_bit(difference: int, length: int) -> int:
    """Where the one bit is that changes the CRC-32C of `length` bytes like this: as many bytes before the
    last; -1 where there is none.
    """
    sums = [_SHIFTS[1 << bit] for bit in range(8)]
    for behind in range(length):
        if difference in sums:
            return behind
        sums = [each >> 8 ^ _SHIFTS[each & 0xFF] for each in sums]
    return -1


def _has_later_epoch(data: bytes, at: int, expected_offset: int, epoch: int) -> bool:
    """Whether a whole batch of an epoch behind the last good one lies somewhere after `at`."""
    found = data.find(MAGIC, at + MAGIC_AT + 1)
    while found >= 0:
        header = _whole_batch(data, found - MAGIC_AT)
        if header is not None and header.leader_epoch > epoch and header.base_offset > expected_offset:
            return True
        found = data.find(MAGIC, found + 1)
    return False
