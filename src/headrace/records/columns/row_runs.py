"""The fields of many batches' records at once, by the kernel that also fills Arrow's columns.

What remains to be done for each record is cutting its bytes out. pyarrow is not needed.
"""

from collections.abc import Sequence

import numpy as np

from headrace.base.chunks import Buffer
from headrace.records.batch import read_headers
from headrace.records.codecs import decompress
from headrace.records.columns.decode import BytesColumn, ReadColumns
from headrace.records.columns.row_fields import Headers, RowFields
from headrace.records.columns.schema import column_kernels
from headrace.records.columns.sections import BATCH_COLUMNS, check_count
from headrace.records.header import HEADER_BYTES, BatchHeader


def fields_of_run(
    buffer: Buffer, batches: Sequence[tuple[int, BatchHeader]], *, from_offset: int, limit_bytes: int
) -> RowFields:
    """See `row_fields`."""
    view = memoryview(buffer)
    sections = [_section(view, at, header, limit_bytes) for at, header in batches]
    data = sections[0] if len(sections) == 1 and isinstance(sections[0], bytes) else b"".join(sections)
    table, end = [], 0
    for section, (_, header) in zip(sections, batches, strict=True):
        check_count(header, len(section))
        start, end = end, end + len(section)
        count, by_log = header.record_count, int(header.log_append_time)
        times = (header.base_timestamp, by_log, header.max_timestamp)
        table.append((start, end, count, header.base_offset, *times))
    columns = ReadColumns(
        np.frombuffer(data, np.uint8), np.array(table, np.int64).reshape(len(table), BATCH_COLUMNS)
    )
    columns.fill(from_offset, 1)
    count = columns.count
    first, last = (int(columns.offsets[at]) for at in (0, count - 1)) if count else (0, -1)
    offsets: Sequence[int] = range(first, last + 1)
    if len(offsets) != count:  # compacted
        offsets = columns.offsets[:count].tolist()
    return RowFields(
        offsets,
        columns.timestamps[:count].tolist(),
        _values(data, columns.key, count),
        _values(data, columns.value, count),
        _headers(data, columns),
    )


def _section(view: memoryview, at: int, header: BatchHeader, limit_bytes: int) -> Buffer:
    body = view[at + HEADER_BYTES : at + header.size]
    return decompress(header.codec, body, limit_bytes=limit_bytes) if header.codec else body


def _values(data: bytes, column: BytesColumn, count: int) -> list[bytes | None] | None:
    null_count = count - int(np.bitwise_count(column.valid).sum())
    if null_count == count:
        return None
    starts, sizes = column.at[:count], np.diff(column.ends[: count + 1])
    size = int(sizes[0])
    if size and not null_count and size * count == int(column.ends[count]) and not np.any(sizes != size):
        # All of one size: numpy cuts them at a third of what slices cost.
        joined = np.empty(size * count, np.uint8)
        column_kernels().gather(np.frombuffer(data, np.uint8), starts, column.ends, joined)
        equal: list[bytes | None] = joined.view(f"V{size}").tolist()
        return equal
    ends = starts + sizes
    found: list[bytes | None] = [
        data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    if null_count:
        is_valid = np.unpackbits(column.valid, count=count, bitorder="little")
        for index in np.flatnonzero(is_valid == 0).tolist():
            found[index] = None
    return found


def _headers(data: bytes, columns: ReadColumns) -> list[Headers] | None:
    count = columns.count
    ends = columns.header_ends[: count + 1]
    if not ends[count]:
        return None
    places = zip(columns.headers_at[:count].tolist(), np.diff(ends).tolist(), strict=True)
    return [read_headers(data, at, many) if many else () for at, many in places]
