"""Snapshots of the metadata log: `OFFSET-EPOCH.checkpoint` files that stand for everything below OFFSET
(KIP-630).

A file is a sequence of batches, as in a log. The first is a control batch with the header and, from
kraft.version 1 on, that version and the voters; data batches follow; the last is a control batch with the
footer. A file without its footer, or with a batch whose CRC is wrong, is no snapshot.
`bootstrap.checkpoint` has the same form: it holds the records that a new cluster starts with.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from headrace.base.errors import InvalidBytesError
from headrace.log.disk import Disk
from headrace.raft.records import control_batch, data_batches, read_control, read_data, read_records_of
from headrace.raft.voters import VoterSet
from headrace.records.batch import batches, crc_matches, stamp
from headrace.wire.record_frames import ApiMessageAndVersion
from headrace.wire.schemas.quorum_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PARTIAL: Final = re.compile(r"\d{20}-\d{10}\.checkpoint\..+")


class SnapshotId(NamedTuple):
    """The offset after the last record it stands for, and the epoch of that record."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


@dataclass(slots=True)
class Snapshot:
    """What a checkpoint file holds. Its records stay bytes until they are asked for: a million of them would
    take a gigabyte, and seconds to read in one go.
    """

    id: SnapshotId
    timestamp_ms: int
    kraft_version: int = 0
    voters: VoterSet | None = None
    batches: list[memoryview] = field(default_factory=list)

    @property
    def records(self) -> list[Any]:
        """All at once, for small ones."""
        return [record for batch in self.batches for record in read_data(batch)]

    def slices(self, count: int) -> Iterator[list[Any]]:
        """So many at a time."""
        for batch in self.batches:
            left = read_records_of(batch)
            while part := list(islice(left, count)):
                yield part

    def forget_records(self) -> None:
        """Everybody has them."""
        self.batches = []


class SnapshotWriter:
    """Builds a checkpoint's bytes piece by piece, so that a large one need not hold up the loop."""

    def __init__(
        self, snapshot_id: SnapshotId, *, timestamp_ms: int, kraft_version: int, voters: VoterSet | None
    ) -> None:
        self.id = snapshot_id
        self.timestamp_ms = timestamp_ms
        self._chunks: list[bytearray] = []
        self._next_offset = 0
        head: list[Any] = [SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)]
        if kraft_version:
            head.append(KRaftVersionRecord(kraft_version=kraft_version))
            if voters is not None:
                head.append(voters.to_record())
        self._head = head

    def begin(self, now_ms: int) -> None:
        self._add(control_batch(self._head, now_ms=now_ms), len(self._head))

    def add(self, entries: Sequence[ApiMessageAndVersion], now_ms: int) -> None:
        for batch, part in data_batches(entries, now_ms=now_ms):
            self._add(batch, len(part))

    def finish(self, now_ms: int) -> bytes:
        self._add(control_batch([SnapshotFooterRecord()], now_ms=now_ms), 1)
        return b"".join(self._chunks)

    def _add(self, batch: bytearray, count: int) -> None:
        stamp(batch, 0, base_offset=self._next_offset, leader_epoch=self.id.epoch)
        self._next_offset += count
        self._chunks.append(batch)


def encode_snapshot(snapshot: Snapshot, entries: Sequence[ApiMessageAndVersion], *, now_ms: int) -> bytes:
    """A whole checkpoint at once, for small ones."""
    writer = SnapshotWriter(
        snapshot.id,
        timestamp_ms=snapshot.timestamp_ms,
        kraft_version=snapshot.kraft_version,
        voters=snapshot.voters,
    )
    writer.begin(now_ms)
    writer.add(entries, now_ms)
    return writer.finish(now_ms)


def decode_snapshot(snapshot_id: SnapshotId, data: bytes) -> Snapshot:
    """A checkpoint's content; InvalidBytesError where it is damaged or not finished."""
    snapshot = Snapshot(snapshot_id, timestamp_ms=-1)
    end = 0
    complete = False
    for at, header in batches(data):
        if complete or not crc_matches(data, at, header):
            raise InvalidBytesError(f"{snapshot_id.file_name} is damaged at byte {at}")
        end = at + header.size
        batch = memoryview(data)[at:end]
        if header.is_control:
            complete = _take_control(snapshot, read_control(batch))
        else:
            snapshot.batches.append(batch)
    if not complete or end != len(data) or snapshot.timestamp_ms < 0:
        raise InvalidBytesError(f"{snapshot_id.file_name} is not a whole snapshot")
    return snapshot


def _take_control(snapshot: Snapshot, messages: list[Any]) -> bool:
    """Note what a control batch says; returns whether it ended the snapshot."""
    for message in messages:
        if isinstance(message, SnapshotHeaderRecord):
            snapshot.timestamp_ms = message.last_contained_log_timestamp
        elif isinstance(message, KRaftVersionRecord):
            snapshot.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            snapshot.voters = VoterSet.from_record(message)
    return any(isinstance(message, SnapshotFooterRecord) for message in messages)


def list_snapshots(disk: Disk, folder: str) -> list[SnapshotId]:
    """The snapshots of a folder, oldest first."""
    found = (_NAME.fullmatch(name) for name in disk.list(folder))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def whole_snapshots(
    disk: Disk, folder: str, on_damage: Callable[[SnapshotId, InvalidBytesError], None]
) -> tuple[list[SnapshotId], Snapshot | None]:
    """The latest snapshot that is whole, and all up to it; an older one may do, with more of the log."""
    snapshots = list_snapshots(disk, folder)
    while snapshots:
        try:
            return snapshots, read_snapshot(disk, folder, snapshots[-1])
        except InvalidBytesError as error:
            on_damage(snapshots.pop(), error)
    return [], None


def remove_half_made(disk: Disk, folder: str) -> None:
    """Remove what a process left that did not come to the end of writing a snapshot."""
    for name in disk.list(folder):
        if _PARTIAL.fullmatch(name):
            disk.remove(f"{folder}/{name}")


def read_snapshot(disk: Disk, folder: str, snapshot_id: SnapshotId) -> Snapshot:
    return decode_snapshot(snapshot_id, disk.read_file(f"{folder}/{snapshot_id.file_name}"))
