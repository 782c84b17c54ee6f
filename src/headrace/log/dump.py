"""What is in a log's files, for people: the data behind `headrace log dump`.

`dump_file` knows a file by its name and yields what it holds, one plain value each; what is wrong with the
file comes as a `Problem` among them, and never as an exception. Indexes are compared with the `.log` file
beside them. Objects of a remote store are dumped like the files that they are copies of. Nothing here writes,
so a running node's files can be looked at; the end of its active segment may then look cut off, and its
indexes may be behind.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition
from headrace.log.batch_scan import OldFormatError, scan_batches
from headrace.log.checkpoints import decode_epochs, decode_offsets, decode_partition_metadata
from headrace.log.disk import Disk
from headrace.log.file_names import (
    CLEANER_OFFSETS,
    EPOCHS,
    HIGH_WATERMARKS,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_file,
    parse_segment_object,
)
from headrace.log.meta_properties import MetaProperties, decode_meta_properties
from headrace.log.offset_index import OffsetIndex
from headrace.log.producer_snapshots import ProducerEntry, decode_snapshot
from headrace.log.time_index import TimeIndex
from headrace.log.transaction_index import AbortedTxn, read_aborted
from headrace.records.batch import (
    BatchHeader,
    ControlType,
    Record,
    control_type_of,
    crc_matches,
    read_header,
    read_records,
)

METADATA_SNAPSHOT: Final = ".checkpoint"  # of the metadata log: batches, as in a segment
_OFFSETS: Final = frozenset({RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS})

Decode = Callable[[Record], object]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the file is not as it should be."""

    text: str


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """A record, what `decode` made of it, and for control records their type."""

    record: Record
    decoded: object = None
    control_type: ControlType | None = None


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """A batch at a byte of a file; `records` are there where they were asked for."""

    position: int
    header: BatchHeader
    crc_matches: bool
    records: tuple[DumpedRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A batch that ends with `offset` starts at `position`."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeIndexEntry:
    """Up to `offset` no record is younger than `timestamp`."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class EpochStart:
    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class CheckpointedOffset:
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionIdentity:
    topic_id: TopicId


Dumped = (
    Problem
    | DumpedBatch
    | IndexEntry
    | TimeIndexEntry
    | EpochStart
    | CheckpointedOffset
    | PartitionIdentity
    | MetaProperties
    | AbortedTxn
    | ProducerEntry
)


def dump_file(
    disk: Disk, path: str, *, records: bool = False, decode: Decode | None = None, verify: bool = True
) -> Iterator[Dumped]:
    """What the file at `path` holds. OSError where it cannot be read, ValueError where its name says nothing.

    `records` opens the batches of a log; `decode` is given each record, for topics whose records are
    messages of ours. `verify` compares an index with its log.
    """
    name = path.rpartition("/")[2]
    suffix = name[name.rfind(".") :] if "." in name else ""
    try:
        if suffix in (LOG, METADATA_SNAPSHOT):
            yield from _dump_batches(disk, path, records=records or decode is not None, decode=decode)
        elif suffix == INDEX:
            yield from _dump_index(disk, path, verify=verify)
        elif suffix == TIME_INDEX:
            yield from _dump_time_index(disk, path, verify=verify)
        else:
            yield from _dump_small_file(name, suffix, disk.read_file(path))
    except InvalidBytesError as error:
        yield Problem(str(error))


def _dump_small_file(name: str, suffix: str, data: bytes) -> Iterator[Dumped]:
    if suffix == TXN_INDEX:
        yield from read_aborted(data)
    elif suffix == SNAPSHOT:
        yield from decode_snapshot(data)
    elif name == LEADER_EPOCHS or suffix == EPOCHS:
        yield from (EpochStart(epoch, start) for epoch, start in decode_epochs(data))
    elif name in _OFFSETS:
        yield from (
            CheckpointedOffset(partition, offset) for partition, offset in decode_offsets(data).items()
        )
    elif name == PARTITION_METADATA:
        yield PartitionIdentity(decode_partition_metadata(data))
    elif name == META_PROPERTIES:
        yield decode_meta_properties(data)
    else:
        raise ValueError(f"{name} is not a file of a log: its name says nothing about what it holds")


# -- batches -------------------------------------------------------------------------------------------------


def _dump_batches(disk: Disk, path: str, *, records: bool, decode: Decode | None) -> Iterator[Dumped]:
    end = disk.size(path)
    next_offset = 0
    try:
        for position, header, batch in scan_batches(disk.open(path, writable=False), 0, end):
            valid = crc_matches(batch, 0, header)
            opened: tuple[DumpedRecord, ...] = ()
            problem: Problem | None = None
            if records and valid:
                opened, problem = _open_batch(batch, header, decode)
            yield DumpedBatch(position, header, valid, opened)
            if problem is not None:
                yield problem
            if not valid:
                yield Problem(f"the CRC of the batch at byte {position} does not match")
            if header.base_offset < next_offset:
                yield Problem(f"offset {header.base_offset} at byte {position} follows {next_offset - 1}")
            next_offset = header.next_offset
    except OldFormatError as error:
        yield Problem(str(error))


def _open_batch(
    batch: memoryview, header: BatchHeader, decode: Decode | None
) -> tuple[tuple[DumpedRecord, ...], Problem | None]:
    opened: list[DumpedRecord] = []
    try:
        for record in read_records(batch):
            if header.is_control:
                opened.append(DumpedRecord(record, control_type=control_type_of(record)))
            else:
                opened.append(DumpedRecord(record, _decoded(record, decode)))
    except InvalidBytesError as error:
        return tuple(opened), Problem(f"the batch of offset {header.base_offset}: {error}")
    return tuple(opened), None


def _decoded(record: Record, decode: Decode | None) -> Any:
    """A record that cannot be decoded is shown with the reason in its place."""
    if decode is None:
        return None
    try:
        return decode(record)
    except ValueError as error:
        return Problem(str(error))


# -- indexes -------------------------------------------------------------------------------------------------


def _base_offset(path: str) -> int:
    name = path.rpartition("/")[2]
    parsed = parse_segment_file(name) or parse_segment_object(name)
    if parsed is None:
        raise InvalidBytesError("the name does not start with a base offset of 20 digits")
    return parsed.base_offset


def _dump_index(disk: Disk, path: str, *, verify: bool) -> Iterator[Dumped]:
    index = OffsetIndex(_base_offset(path), disk.read_file(path))
    log_path = path.removesuffix(INDEX) + LOG
    log_bytes = disk.size(log_path) if verify and disk.exists(log_path) else -1
    log = disk.open(log_path, writable=False) if log_bytes >= 0 else None
    if len(index.data) % 8:
        yield Problem(f"{len(index.data)} bytes are not a multiple of 8")
    last = (index.base_offset - 1, -1)
    for number in range(len(index)):
        offset, position = entry = index.entry(number)
        if number and entry == (index.base_offset, 0):
            break  # room that Apache Kafka reserved and did not use
        yield IndexEntry(offset, position)
        if offset <= last[0] or position <= last[1]:
            yield Problem(f"entry {entry} does not rise over {last}")
        last = entry
        if log is not None:
            try:
                found = read_header(log.read(position, 61))
            except InvalidBytesError:
                yield Problem(f"entry {entry} lies outside of the log's {log_bytes} bytes")
                continue
            if not found.base_offset <= offset <= found.last_offset:
                yield Problem(f"entry {entry} leads to the batch {found.base_offset}..{found.last_offset}")


def _dump_time_index(disk: Disk, path: str, *, verify: bool) -> Iterator[Dumped]:
    index = TimeIndex(_base_offset(path), disk.read_file(path))
    log_path = path.removesuffix(TIME_INDEX) + LOG
    largest = _largest_timestamps(disk, log_path) if verify and disk.exists(log_path) else None
    if len(index.data) % 12:
        yield Problem(f"{len(index.data)} bytes are not a multiple of 12")
    last = (-1, index.base_offset - 1)
    so_far = -1
    for number in range(len(index)):
        timestamp, offset = entry = index.entry(number)
        if number and entry == (0, index.base_offset):
            break  # room that Apache Kafka reserved and did not use
        yield TimeIndexEntry(timestamp, offset)
        if timestamp < last[0] or offset < last[1]:
            yield Problem(f"entry {entry} does not rise over {last}")
        last = entry
        while largest is not None and (found := next(largest, None)) is not None:
            so_far = max(so_far, found.record_timestamp_max)
            if found.last_offset >= offset:
                break
        if largest is not None and so_far != timestamp:
            yield Problem(f"entry {entry}: the largest timestamp up to there is {so_far}")


def _largest_timestamps(disk: Disk, log_path: str) -> Iterator[BatchHeader]:
    file = disk.open(log_path, writable=False)
    for _, header, _ in scan_batches(file, 0, disk.size(log_path)):
        yield header
