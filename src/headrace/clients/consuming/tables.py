"""Fetched chunks as one Arrow table. Any thread may do it: the kernels run without the interpreter's lock."""

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.base.errors import InvalidBytesError
from headrace.clients.consuming.records import Chunk, broken
from headrace.clients.errors import ClientError
from headrace.records.columns import AbortedTransaction, column_schema, read_columns
from headrace.records.columns_arrow import arrow


class BrokenChunkError(ClientError):
    """A chunk cannot be read; nothing of the poll was given out, so reading goes on from `places`."""

    def __init__(self, error: ClientError, chunks: Iterable[tuple[int, Chunk]]) -> None:
        super().__init__(str(error))
        self.places = {chunk.partition: offset for offset, chunk in reversed(list(chunks))}


def table_of(chunks: Sequence[tuple[int, Chunk]], columns: Sequence[str] | None) -> Any:
    """The records of these chunks, each from its offset on, as a pyarrow.Table."""
    found = []
    for offset, chunk in chunks:
        try:
            found += _batches_of(offset, chunk, columns)
        except InvalidBytesError as error:
            raise BrokenChunkError(broken(chunk.partition, offset, error), chunks) from error
    return arrow().Table.from_batches(found, schema=column_schema(columns))


def _batches_of(offset: int, chunk: Chunk, columns: Sequence[str] | None) -> list[Any]:
    aborted = None
    if chunk.aborted is not None:
        aborted = [AbortedTransaction(producer, first) for first, producer in chunk.aborted]
    found = []
    while True:
        decoded = read_columns(
            chunk.buffer,
            topic=chunk.partition.topic,
            partition=chunk.partition.partition,
            from_offset=offset,
            aborted=aborted,
            columns=columns,
        )
        if decoded.rows.num_rows:
            found.append(decoded.rows)
        if decoded.is_whole:
            return found
        offset = decoded.next_offset
