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
"""

from collections.abc import Iterable, Iterator
from typing import Final

from crc32c import crc32c

from headrace.base.errors import InvalidBytesError
from headrace.log.disk import Disk
from headrace.log.file_names import LOG, parse_segment_file
from headrace.raft.snapshots import SnapshotId
from headrace.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, crc_matches, read_header

MAGIC_AT: Final = 16
CRC_FROM: Final = 21
LENGTH_AT: Final = 8
# Of one byte at the end of what is summed: how a change of its bits changes the sum.
_SHIFTS: Final = [crc32c(bytes([byte])) ^ crc32c(b"\0") for byte in range(256)]


def refuse_damage(disk: Disk, folder: str, snapshots: Iterable[SnapshotId] = ()) -> None:
    """InvalidBytesError where a batch of the log in `folder`, beside `snapshots`, was damaged at rest.
    Blocks.
    """
    epochs = {snapshot.end_offset: snapshot.epoch for snapshot in snapshots}
    expected_offset, epoch = -1, -1
    for base_offset, path in _segments(disk, folder):
        if base_offset < expected_offset:
            return  # a power cut brought back what had been cut from the one before; recovery drops this one
        data = disk.read_file(path)
        expected_offset = max(expected_offset, base_offset)
        epoch = max(epoch, epochs.get(expected_offset, -1))
        at = 0
        while at < len(data):
            header = _whole_batch(data, at)
            if header is None:
                if _is_one_bit_off(data, at) or _has_later_epoch(data, at, expected_offset, epoch):
                    raise _damaged(path, at, "its bytes are not those that were written")
                return
            if header.base_offset != expected_offset:
                raise _damaged(path, at, f"it has offset {header.base_offset}, not {expected_offset}")
            if header.leader_epoch < epoch:
                raise _damaged(path, at, f"it has epoch {header.leader_epoch} after {epoch}")
            expected_offset, epoch = header.next_offset, header.leader_epoch
            at += header.size


def _segments(disk: Disk, folder: str) -> Iterator[tuple[int, str]]:
    for name in sorted(disk.list(folder)):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.suffix == LOG and not parsed.state:
            yield parsed.base_offset, f"{folder}/{name}"


def _damaged(path: str, at: int, what: str) -> InvalidBytesError:
    return InvalidBytesError(
        f"{path} is damaged: of the batch at byte {at}, {what}. Bring back this file from a copy or another "
        "controller; without it the cluster's topics cannot be known"
    )


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
