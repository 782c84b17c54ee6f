"""What a task does: fetched bytes to Arrow batches of exactly the wanted columns and offsets.

A fetched chunk becomes one batch, or several where it has very many rows or unpacks to much more than it is.
The kernels copy each wanted column once; no Python object is made for a record. Batches of records behind
the range are not decoded. Rows behind it, and those outside a pushed-down window of time, are cut off here,
before Spark sees them.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.base.chunks import Buffer
from headrace.base.errors import InvalidBytesError
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, broken
from headrace.records.codecs import UnpackedTooLargeError
from headrace.records.columns.decode import Decoded, read_columns
from headrace.records.columns.sections import SECTION_BYTES_MAX, AbortedTransaction, AbortedTransactionLike
from headrace.spark.columns import decoded_names, fit
from headrace.spark.data_loss import report_data_loss
from headrace.spark.options import ReadOptions
from headrace.spark.ranges import OffsetRange, TimeWindow

BATCH_ROWS_MAX: Final = 50_000
# What is unpacked at once, unless a single batch of records is larger: a chunk may unpack to much more.
_UNPACKED_BYTES: Final = 16 * 1024 * 1024


def read_range(
    wanted: OffsetRange, options: ReadOptions, window: TimeWindow | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a range, through brokers."""
    # Only here: neither a planning driver nor a task that reads files needs a consumer.
    from headrace.spark.range_fetcher import DataLossError, borrowed_fetcher

    with borrowed_fetcher(options) as fetcher:
        start = wanted.start
        while start < wanted.end:
            left = OffsetRange(wanted.topic, wanted.partition, start, wanted.end)
            try:
                for offset, chunk in fetcher.chunks(left):
                    yield from chunk_rows(chunk, offset, left, options, window)
                    start = chunk.end
                return
            except DataLossError as error:
                lost = OffsetRange(wanted.topic, wanted.partition, start, min(error.resume_at, wanted.end))
                yield from _from_history(lost, str(error), options, window)
                start = error.resume_at


def _from_history(
    lost: OffsetRange, why: str, options: ReadOptions, window: TimeWindow | None
) -> Iterator[pa.RecordBatch]:
    """What the log has lost while it was read, where a table has it; else it is data loss."""
    if options.history is None or lost.size <= 0:
        report_data_loss(why, options)
        return
    from headrace.spark.history.lost_ranges import rows_from_table

    yield from rows_from_table(lost, why, options, window)


def chunk_rows(
    chunk: CompletedFetch,
    offset: int,
    wanted: OffsetRange,
    options: ReadOptions,
    window: TimeWindow | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a fetched chunk from an offset on, as batches that Spark takes as they are."""
    aborted = None
    if chunk.aborted is not None:
        aborted = [AbortedTransaction(producer, first) for first, producer in chunk.aborted]
    rows = rows_of(chunk.buffer, offset, wanted, options, window, end=chunk.end, aborted=aborted)
    try:
        yield from rows
    except InvalidBytesError as error:
        raise broken(chunk.partition, offset, error) from error


def rows_of(
    batches: Buffer,
    offset: int,
    wanted: OffsetRange,
    options: ReadOptions,
    window: TimeWindow | None = None,
    *,
    end: int,
    aborted: Sequence[AbortedTransactionLike] | None,
) -> Iterator[pa.RecordBatch]:
    """The rows from an offset on of record batches that end at offset `end`, fetched or out of a file.

    With `aborted` only committed records are seen. InvalidBytesError where the batches are not sound.
    """
    columns = decoded_names(options.columns)
    # What cuts rows off has to be decoded for that, wanted or not.
    extra = [
        name
        for name, needed in (("offset", end > wanted.end), ("timestamp", window is not None))
        if needed and name not in columns
    ]
    while True:
        decoded = _decode(batches, offset, wanted, [*columns, *extra], aborted)
        rows = decoded.rows
        if end > wanted.end:
            rows = _before(rows, wanted.end)
        if window is not None:
            rows = _within(rows, window)
        if rows.num_rows:
            yield from _pieces(fit(rows.select(columns) if extra else rows, options.columns))
        if decoded.is_whole:
            return
        offset = decoded.next_offset


def _decode(
    batches: Buffer,
    offset: int,
    wanted: OffsetRange,
    columns: list[str],
    aborted: Sequence[AbortedTransactionLike] | None,
) -> Decoded:
    bytes_max = _UNPACKED_BYTES
    while True:
        try:
            return read_columns(
                batches,
                topic=wanted.topic,
                partition=wanted.partition,
                from_offset=offset,
                until_offset=wanted.end,
                aborted=aborted,
                columns=columns,
                timestamp_unit="us",
                plain_topic=True,
                bytes_max=bytes_max,
            )
        except UnpackedTooLargeError:
            if bytes_max == SECTION_BYTES_MAX:
                raise
            bytes_max = min(4 * bytes_max, SECTION_BYTES_MAX)  # for a first batch that is this large


def _before(rows: Any, end: int) -> Any:
    """Offsets rise within a partition: the rows below one are the first ones."""
    return rows.slice(0, int(np.searchsorted(rows.column("offset").to_numpy(), end)))


def _within(rows: Any, window: TimeWindow) -> Any:
    times = rows.column("timestamp").cast(pa.int64()).to_numpy()
    inside = (times >= window.first_us) & (times <= window.last_us)
    return rows if inside.all() else rows.filter(pa.array(inside))


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Even pieces of at most so many rows; nothing is copied."""
    count = -(-rows.num_rows // BATCH_ROWS_MAX)
    bounds = [rows.num_rows * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield rows.slice(start, end - start)
