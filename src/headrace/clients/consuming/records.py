"""From the bytes of a fetch to records, batch by batch and only as far as they are asked for.

A `Chunk` is what one answer brought of one partition. Batches are checked (CRC-32C), control batches and,
for read_committed, those of aborted transactions are passed over, and what lies before the position is cut
off: a broker sends whole batches. Rows are made by columns: one kernel finds where everything is, and the
records are tuples that C code builds from slices.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from operator import add
from typing import Any, Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.records.batch import (
    UNPACKED_BYTES_MAX,
    BatchHeader,
    ControlType,
    batches,
    crc_matches,
    read_control_type,
    read_headers,
    records_section,
)
from headrace.records.kernel_choice import decode_spans

Headers = tuple[tuple[str, bytes | None], ...]
Deserializer = Callable[[bytes], Any]


class ConsumedRecord(NamedTuple):
    """A record and where it was read. With deserializers, key and value are what those made of them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers


_new_record: Final = partial(tuple.__new__, ConsumedRecord)


class Batch(NamedTuple):
    """A batch of data in a chunk's buffer."""

    at: int
    header: BatchHeader


class Chunk:
    """What an answer brought of one partition, and how far it has been read."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "_batches",
        "_checks",
        "aborted",
        "buffer",
        "end",
        "epoch",
        "partition",
        "size",
    )

    def __init__(
        self,
        partition: TopicPartition,
        buffer: Buffer,
        *,
        aborted: Iterable[tuple[int, int]] | None = None,
        checks_crc: bool = True,
    ) -> None:
        """`aborted` has (first offset, producer id) of aborted transactions; None reads uncommitted."""
        self.partition = partition
        self.buffer = buffer
        self.size = len(buffer)
        self.end, self.epoch = -1, -1  # the offset behind it and the leader epoch there
        self._checks = checks_crc
        self._batches = batches(buffer)
        self.aborted = None if aborted is None else sorted(aborted)
        self._aborted = None if self.aborted is None else deque(self.aborted)
        self._aborting: set[int] = set()

    def next_batch(self, position: int) -> Batch | None:
        """The next batch with data for the caller; None at the end. ClientError for bytes that are broken."""
        try:
            for at, header in self._batches:
                if header.next_offset <= position:
                    continue
                if self._checks and not crc_matches(self.buffer, at, header):
                    raise InvalidBytesError("its check sum does not match")
                if self._is_aborted(at, header) or header.is_control:
                    continue
                return Batch(at, header)
        except InvalidBytesError as error:
            raise broken(self.partition, position, error) from error
        return None

    def _is_aborted(self, at: int, header: BatchHeader) -> bool:
        """Follow the transactions that the broker says were aborted, marker by marker."""
        if self._aborted is None or not header.has_producer:
            return False
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        if header.is_control:
            if read_control_type(self.buffer, at) is ControlType.ABORT:
                self._aborting.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborting

    def rows(
        self,
        batch: Batch,
        position: int,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> list[ConsumedRecord]:
        """The batch's records from the position on."""
        try:
            return _rows(self.partition, self.buffer, batch, position, key_deserializer, value_deserializer)
        except InvalidBytesError as error:
            raise broken(self.partition, position, error) from error


def end_of(buffer: Buffer, position: int) -> tuple[int, int]:
    """The offset behind the last whole batch and its leader epoch; the position and -1 without one."""
    epoch = -1
    for _, header in batches(buffer):
        position, epoch = max(position, header.next_offset), header.leader_epoch
    return position, epoch


def broken(partition: TopicPartition, position: int, error: Exception) -> ClientError:
    """What a person is told about bytes that are no records."""
    return ClientError(f"what the broker sent of {partition} at offset {position} is broken: {error}")


def _rows(
    partition: TopicPartition,
    buffer: Buffer,
    batch: Batch,
    position: int,
    key_deserializer: Deserializer | None,
    value_deserializer: Deserializer | None,
) -> list[ConsumedRecord]:
    header = batch.header
    body = records_section(buffer, header, batch.at, limit_bytes=UNPACKED_BYTES_MAX)
    spans = decode_spans(
        body, header.record_count, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    data = body if isinstance(body, bytes) else bytes(body)
    count = header.record_count
    keys = _fields(data, spans.key_at, spans.key_size, key_deserializer)
    values = _fields(data, spans.value_at, spans.value_size, value_deserializer)
    times = [header.max_timestamp] * count if header.log_append_time else spans.timestamps.tolist()
    headers: Iterable[Headers] = repeat(())
    if spans.header_count.tobytes().strip(b"\0"):
        headers = [
            read_headers(data, at, many) if many else ()
            for at, many in zip(spans.headers_at, spans.header_count, strict=True)
        ]
    offsets: Iterable[int] = spans.offsets.tolist()
    if header.last_offset_delta + 1 == count:
        offsets = range(header.base_offset, header.base_offset + count)
    columns = zip(repeat(partition[0]), repeat(partition[1]), offsets, times, keys, values, headers)
    rows: list[ConsumedRecord] = list(map(_new_record, columns))
    if header.base_offset < position:
        return [row for row in rows if row.offset >= position]
    return rows


def _fields(
    data: bytes, at: memoryview, size: memoryview, deserializer: Deserializer | None
) -> Iterable[Any]:
    """The bytes of one field of every record, or what is made of them; the usual cases without a branch."""
    if size.tobytes().strip(b"\xff") == b"":
        return repeat(None, len(size))
    starts, sizes = at.tolist(), size.tolist()
    ends = map(add, starts, sizes)
    if deserializer is None and -1 not in sizes:
        return [data[start:end] for start, end in zip(starts, ends, strict=True)]
    make = deserializer or bytes
    return [
        None if count < 0 else make(data[start : start + count])
        for start, count in zip(starts, sizes, strict=True)
    ]
