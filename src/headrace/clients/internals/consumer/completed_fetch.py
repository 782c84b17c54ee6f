"""From the bytes of a fetch to records, a few batches at a time and only as far as they are asked for.

A `CompletedFetch` is what one answer brought of one partition. Batches are checked (CRC-32C), control batches
and, for read_committed, those of aborted transactions are passed over, and what lies before the position is
cut off: a broker sends whole batches. Rows are made by columns: one kernel finds where everything is, and the
records are tuples that C code builds from slices.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Final, NamedTuple

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.records.batch import (
    STORED_UNPACKED_BYTES_MAX,
    BatchHeader,
    ControlType,
    batches,
    crc_matches,
    read_control_type,
)
from headrace.records.columns.row_fields import Headers, RowFields, row_fields, takes_runs

Deserializer = Callable[[bytes], Any]


class ConsumerRecord(NamedTuple):
    """A record and where it was read. With deserializers, key and value are what those made of them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers


# So much is made into records at once: enough that what a batch costs by itself does not show.
_RUN_BYTES: Final = 64 * 1024

Batch = tuple[int, BatchHeader]
"""A batch of data, and where it is in a chunk's buffer."""


class DecodedRecords(NamedTuple):
    """Records that follow each other, and where reading goes on behind them."""

    rows: list[ConsumerRecord]
    end: int
    epoch: int


class CompletedFetch:
    """What an answer brought of one partition, and how far it has been read."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "_batches",
        "_checks",
        "_flaw",
        "_run",
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
        self._run: list[Batch] = []  # to be read next
        self._flaw: InvalidBytesError | None = None
        self.aborted = None if aborted is None else sorted(aborted)
        self._aborted = None if self.aborted is None else deque(self.aborted)
        self._aborting: set[int] = set()

    def next_rows(
        self,
        position: int,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> DecodedRecords | None:
        """Records from the position on; None at the end. ClientError for bytes that are broken.

        What cannot be read, or not be deserialized, is not passed over: it fails again until the position is
        moved behind it. What comes before it is given out first.
        """
        run = self._run = self._run or self._next_run(position)
        if not run:
            return None
        try:
            fields = row_fields(self.buffer, run, from_offset=position, limit_bytes=STORED_UNPACKED_BYTES_MAX)
        except InvalidBytesError as error:
            raise broken(self.partition, max(position, run[0][1].base_offset), error) from error
        rows = _rows(self.partition, fields, key_deserializer, value_deserializer)
        last = run[-1][1]
        if len(rows) < len(fields.offsets):
            return DecodedRecords(rows, fields.offsets[len(rows)], last.leader_epoch)
        self._run = []
        return DecodedRecords(rows, last.next_offset, last.leader_epoch)

    def _next_run(self, position: int) -> list[Batch]:
        """The next batches with data for the caller: as many as it pays to read at once."""
        left = _RUN_BYTES if takes_runs() else 1
        found: list[Batch] = []
        try:
            while left > 0 and (batch := self._next_batch(position)):
                found.append(batch)
                # What a packed batch takes is not known, so none follows it.
                left = 0 if batch[1].codec else left - batch[1].size
        except InvalidBytesError as error:
            self._flaw = error
        if self._flaw is not None and not found:
            raise broken(self.partition, position, self._flaw) from self._flaw
        return found

    def _next_batch(self, position: int) -> Batch | None:
        if self._flaw is not None:
            raise self._flaw
        for at, header in self._batches:
            if header.next_offset <= position:
                continue
            if self._checks and not crc_matches(self.buffer, at, header):
                raise InvalidBytesError(f"the check sum of the batch of offset {header.base_offset} is wrong")
            if self._is_aborted(at, header) or header.is_control:
                continue
            return at, header
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
    fields: RowFields,
    key_deserializer: Deserializer | None,
    value_deserializer: Deserializer | None,
) -> list[ConsumerRecord]:
    """Records of these fields; those before the first that cannot be deserialized, where there is one."""
    offsets, times, keys, values, headers = fields
    count = len(offsets)
    if key_deserializer is not None and keys is not None:
        keys = _deserialized(key_deserializer, keys)
        count = len(keys)
    if value_deserializer is not None and values is not None:
        values = _deserialized(value_deserializer, values[:count])
        count = len(values)
    columns = zip(
        repeat(partition[0]),
        repeat(partition[1]),
        offsets[:count],
        times,
        repeat(None) if keys is None else keys,
        repeat(None) if values is None else values,
        repeat(()) if headers is None else headers,
    )
    return list(map(tuple.__new__, repeat(ConsumerRecord), columns))


def _deserialized(make: Deserializer, given: list[bytes | None]) -> list[Any]:
    """What is made of these, up to the first that fails; that one fails by itself."""
    found: list[Any] = []
    try:
        found.extend(None if each is None else make(each) for each in given)
    except Exception:
        if not found:
            raise
    return found
