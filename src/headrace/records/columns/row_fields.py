"""The fields of records as lists, column by column: what one object for each record is made of.

With the compiled kernels for columns a whole run of batches is taken apart at once (`row_runs`). Until
somebody has loaded those, batch after batch is, by whichever kernel there is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from headrace.base.chunks import Buffer
from headrace.records.batch import BatchHeader, read_headers, records_section
from headrace.records.columns.schema import loaded_column_kernels
from headrace.records.kernels.choice import decode_spans

Headers = tuple[tuple[str, bytes | None], ...]


class RowFields(NamedTuple):
    """The fields of records that follow each other; None where all of a column are null, or empty."""

    offsets: Sequence[int]
    timestamps: list[int]
    keys: list[bytes | None] | None
    values: list[bytes | None] | None
    headers: list[Headers] | None


def takes_runs() -> bool:
    """Whether many batches at once cost less than one after the other."""
    return loaded_column_kernels() is not None


def row_fields(
    buffer: Buffer, batches: Sequence[tuple[int, BatchHeader]], *, from_offset: int, limit_bytes: int
) -> RowFields:
    """The records from `from_offset` on of these batches in a buffer; InvalidBytesError where they are none.

    Each batch may unpack to `limit_bytes`.
    """
    if takes_runs():
        from headrace.records.columns.row_runs import fields_of_run  # numpy, which is loaded by now

        return fields_of_run(buffer, batches, from_offset=from_offset, limit_bytes=limit_bytes)
    parts = [_fields_of_batch(buffer, at, header, from_offset, limit_bytes) for at, header in batches]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _fields_of_batch(
    buffer: Buffer, at: int, header: BatchHeader, from_offset: int, limit_bytes: int
) -> RowFields:
    body = records_section(buffer, header, at, limit_bytes=limit_bytes)
    count = header.record_count
    spans = decode_spans(body, count, base_offset=header.base_offset, base_timestamp=header.base_timestamp)
    data = body if isinstance(body, bytes) else bytes(body)
    offsets = spans.offsets.tolist()
    first = bisect_left(offsets, from_offset)
    times = [header.max_timestamp] * count if header.log_append_time else spans.timestamps.tolist()
    headers: list[Headers] | None = None
    if spans.header_count.tobytes().strip(b"\0"):
        places = zip(spans.headers_at[first:], spans.header_count[first:], strict=True)
        headers = [read_headers(data, place, many) if many else () for place, many in places]
    return RowFields(
        offsets[first:],
        times[first:],
        _values(data, spans.key_at[first:], spans.key_size[first:]),
        _values(data, spans.value_at[first:], spans.value_size[first:]),
        headers,
    )


def _values(data: bytes, at: memoryview, size: memoryview) -> list[bytes | None] | None:
    if size.tobytes().strip(b"\xff") == b"":
        return None
    return [None if count < 0 else data[start : start + count] for start, count in zip(at, size, strict=True)]


def _joined(parts: Sequence[RowFields]) -> RowFields:
    offsets = [offset for part in parts for offset in part.offsets]
    times = [time for part in parts for time in part.timestamps]
    keys, values, headers = None, None, None
    if any(part.keys for part in parts):
        keys = [key for part in parts for key in part.keys or [None] * len(part.offsets)]
    if any(part.values for part in parts):
        values = [value for part in parts for value in part.values or [None] * len(part.offsets)]
    if any(part.headers for part in parts):
        headers = [each for part in parts for each in part.headers or [()] * len(part.offsets)]
    return RowFields(offsets, times, keys, values, headers)
