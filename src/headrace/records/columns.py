"""Records as Arrow columns, without a Python object per record: what Spark, pandas and Polars work on.

Reading: `find_sections` chooses the records to be seen, one kernel walks all of them and writes down numbers
and places, and a second one copies the bytes of each wanted column end to end as Arrow has them. Writing is
in `columns_encode`; its functions are found here, too.

The columns are those of Spark's Kafka source. `headers` is a list, empty where a record has none. A
timestamp is what the record says, -1 ms where it says none; one that the unit cannot hold is the nearest one
it can. A header's key that is not UTF-8 has replacement characters, as Java's client would show it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.base.chunks import Buffer
from headrace.records.codecs import UnpackedTooLargeError
from headrace.records.columns_arrow import arrow
from headrace.records.columns_encode import batches_by_partition, batches_from_arrow, partition_for_keys
from headrace.records.columns_read import ReadColumns
from headrace.records.columns_sections import (
    SECTION_BYTES_MAX,
    Aborted,
    AbortedTransaction,
    find_sections,
)
from headrace.records.columns_write import BatchForm

__all__ = [
    "COLUMNS",
    "Aborted",
    "AbortedTransaction",
    "BatchForm",
    "Decoded",
    "arrow_from_batches",
    "batches_by_partition",
    "batches_from_arrow",
    "column_schema",
    "partition_for_keys",
    "read_columns",
]

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
_SCALE: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}

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
    aborted: Iterable[Aborted] | None = None,
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
    aborted: Iterable[Aborted] | None = None,
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
    work.fill(from_offset, _SCALE[timestamp_unit])
    arrays = [work.array(each, topic=topic, partition=partition) for each in schema]
    rows = arrow().RecordBatch.from_arrays(arrays, schema=schema)
    return Decoded(rows, max(sections.next_offset, from_offset), sections.is_whole)


def column_schema(
    columns: Sequence[str] | None = None, *, timestamp_unit: str = "ms", plain_topic: bool = False
) -> Any:
    """The pyarrow.Schema of what is read; ValueError for a column or unit that does not exist."""
    pa = arrow()
    if timestamp_unit not in _SCALE:
        raise ValueError(f"timestamps can be in {', '.join(_SCALE)}, not in {timestamp_unit!r}")
    kinds = {
        "topic": pa.string() if plain_topic else pa.dictionary(pa.int32(), pa.string()),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp(timestamp_unit, tz="UTC"),
        "timestamp_type": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    unknown = [name for name in columns or () if name not in kinds]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    return pa.schema([(name, kinds[name]) for name in (COLUMNS if columns is None else columns)])
