"""Records to Arrow columns.

`find_sections` chooses the records to be seen, one kernel walks all of them and writes down numbers and
places, and a second one copies the bytes of each wanted column end to end as Arrow has them. The arrays are
made for as many rows as the batches' headers promise; the kernel checks every number in the bytes.

A timestamp is what the record says, -1 ms where it says none; one that the unit cannot hold is the nearest
one it can. A header's key that is not UTF-8 has replacement characters, as Java's client would show it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.records.codecs import UnpackedTooLargeError
from headrace.records.columns.schema import TIMESTAMP_SCALES, arrow, bytes_of, column_kernels, column_schema
from headrace.records.columns.sections import (
    SECTION_BYTES_MAX,
    AbortedTransactionLike,
    find_sections,
)
from headrace.records.kernels.records import flaw_text


class BytesColumn:
    """The places of at most `count` values of bytes."""

    __slots__ = ("at", "ends", "valid")

    def __init__(self, count: int) -> None:
        self.at: NDArray[np.int64] = np.empty(count, np.int64)
        self.ends: NDArray[np.int32] = np.empty(count + 1, np.int32)
        self.ends[0] = 0
        self.valid: NDArray[np.uint8] = np.zeros(-(-count // 8), np.uint8)

    def array(self, body: NDArray[np.uint8], count: int, *, may_be_null: bool = True) -> Any:
        """The first `count` values, copied end to end into an Arrow array."""
        pa = arrow()
        buffer = pa.allocate_buffer(int(self.ends[count]))
        column_kernels().gather(body, self.at[:count], self.ends, np.frombuffer(buffer, np.uint8))
        null_count = count - int(np.bitwise_count(self.valid).sum()) if may_be_null else 0
        valid = pa.py_buffer(self.valid) if null_count else None
        ends = bytes_of(self.ends, 4 * (count + 1))
        return pa.Array.from_buffers(pa.binary(), count, [valid, ends, buffer], null_count)


class ReadColumns:
    """The arrays that the kernel fills, made for the rows that the batches' headers promise."""

    def __init__(self, body: NDArray[np.uint8], table: NDArray[np.int64]) -> None:
        self.body, self.table = body, table
        count = int(self.table[:, 2].sum())
        self.count = 0
        self.offsets: NDArray[np.int64] = np.empty(count, np.int64)
        self.timestamps: NDArray[np.int64] = np.empty(count, np.int64)
        self.timestamp_types: NDArray[np.int32] = np.empty(count, np.int32)
        self.key, self.value = BytesColumn(count), BytesColumn(count)
        self.headers_at: NDArray[np.int64] = np.empty(count, np.int64)
        self.header_ends: NDArray[np.int32] = np.zeros(count + 1, np.int32)

    def fill(self, from_offset: int, scale: int) -> None:
        key, value = self.key, self.value
        flaw, number, index, self.count = column_kernels().decode_rows(
            self.body,
            self.table,
            from_offset,
            scale,
            self.offsets,
            self.timestamps,
            self.timestamp_types,
            *(key.at, key.ends, key.valid),
            *(value.at, value.ends, value.valid),
            *(self.headers_at, self.header_ends),
        )
        if flaw:
            raise InvalidBytesError(f"offset {self.table[number, 3]}: {flaw_text(flaw, index)}")

    def array(self, field: Any, *, topic: str, partition: int) -> Any:
        """The finished column of this name and type."""
        pa, rows = arrow(), self.count
        if field.name == "topic":
            if field.type == pa.string():
                return pa.repeat(pa.scalar(topic), rows)
            return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [topic])
        if field.name == "partition":
            return pa.array(np.full(rows, partition, np.int32))
        if field.name == "key":
            return self.key.array(self.body, rows)
        if field.name == "value":
            return self.value.array(self.body, rows)
        if field.name == "headers":
            return self._header_array(field.type)
        if field.name == "timestamp_type":
            return pa.array(self.timestamp_types[:rows])
        numbers = self.offsets if field.name == "offset" else self.timestamps
        return pa.Array.from_buffers(field.type, rows, [None, bytes_of(numbers, 8 * rows)], 0)

    def _header_array(self, kind: Any) -> Any:
        pa = arrow()
        count = int(self.header_ends[self.count])
        names, contents = BytesColumn(count), BytesColumn(count)
        if count:
            column_kernels().decode_headers(
                self.body,
                self.headers_at[: self.count],
                self.header_ends,
                *(names.at, names.ends),
                *(contents.at, contents.ends, contents.valid),
            )
        texts = _as_text(names.array(self.body, count, may_be_null=False))
        pairs = pa.StructArray.from_arrays(
            [texts, contents.array(self.body, count)], fields=list(kind.value_type)
        )
        ends = bytes_of(self.header_ends, 4 * (self.count + 1))
        return pa.Array.from_buffers(kind, self.count, [None, ends], 0, children=[pairs])


def _as_text(names: Any) -> Any:
    """Header keys as strings; those that are not UTF-8 are the one thing that is mended one by one."""
    pa = arrow()
    text = names.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
    return text


Buffers: TypeAlias = Buffer | Sequence[Buffer]


class Decoded(NamedTuple):
    """Rows, and where reading goes on."""

    rows: Any
    """A pyarrow.RecordBatch."""
    next_offset: int
    """Behind everything read, seen or left out: what to fetch next."""
    is_whole: bool
    """False where more batches are there than the limit lets be read at once."""


def arrow_from_batches(
    buffers: Buffers,
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    aborted: Iterable[AbortedTransactionLike] | None = None,
    columns: Sequence[str] | None = None,
    timestamp_unit: str = "ms",
    plain_topic: bool = False,
    bytes_max: int = SECTION_BYTES_MAX,
) -> Any:
    """The records of fetched bytes as one pyarrow.RecordBatch; InvalidBytesError where they are not sound.

    With `aborted` (a fetch's list, perhaps empty) only committed records are seen. Which columns, and their
    order, is said by `columns`. `topic` is a dictionary of one name, or with `plain_topic` a string.
    """
    decoded = read_columns(
        buffers,
        topic=topic,
        partition=partition,
        from_offset=from_offset,
        aborted=aborted,
        columns=columns,
        timestamp_unit=timestamp_unit,
        plain_topic=plain_topic,
        bytes_max=bytes_max,
    )
    if not decoded.is_whole:
        raise UnpackedTooLargeError(f"the batches unpack to more than {bytes_max} bytes: read them in steps")
    return decoded.rows


def read_columns(
    buffers: Buffers,
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    aborted: Iterable[AbortedTransactionLike] | None = None,
    columns: Sequence[str] | None = None,
    timestamp_unit: str = "ms",
    plain_topic: bool = False,
    bytes_max: int = SECTION_BYTES_MAX,
    until_offset: int | None = None,
) -> Decoded:
    """As `arrow_from_batches`, but up to a limit, and with the offset at which to go on.

    Batches that begin at `until_offset` or behind it are left out; others are read to their end.
    """
    schema = column_schema(columns, timestamp_unit=timestamp_unit, plain_topic=plain_topic)
    if bytes_max > SECTION_BYTES_MAX:
        raise ValueError(f"at most {SECTION_BYTES_MAX} bytes can be read at once, not {bytes_max}")
    given = [buffers] if isinstance(buffers, bytes | bytearray | memoryview) else buffers
    bounds = {} if until_offset is None else {"until_offset": until_offset}
    sections = find_sections(given, from_offset=from_offset, aborted=aborted, bytes_max=bytes_max, **bounds)
    work = ReadColumns(sections.body, sections.table)
    work.fill(from_offset, TIMESTAMP_SCALES[timestamp_unit])
    arrays = [work.array(each, topic=topic, partition=partition) for each in schema]
    rows = arrow().RecordBatch.from_arrays(arrays, schema=schema)
    return Decoded(rows, max(sections.next_offset, from_offset), sections.is_whole)
