"""Fetched chunks as one Arrow table. Any thread may do it: the kernels run without the interpreter's lock."""

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.base.errors import InvalidBytesError
from headrace.clients.errors import ClientError
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, broken
from headrace.records.columns.decode import read_columns
from headrace.records.columns.schema import arrow, column_schema
from headrace.records.columns.sections import AbortedTransaction


class BrokenFetchError(ClientError):
    """A chunk cannot be read; nothing of the poll was given out, so reading goes on from `places`."""

    def __init__(self, error: ClientError, chunks: Iterable[tuple[int, CompletedFetch]]) -> None:
        super().__init__(str(error))
        self.places = {chunk.partition: offset for offset, chunk in reversed(list(chunks))}


def table_of(chunks: Sequence[tuple[int, CompletedFetch]], columns: Sequence[str] | None) -> Any:
    """The records of these chunks, each from its offset on, as a pyarrow.Table."""
    found = []
    for offset, chunk in chunks:
        try:
            found += _batches_of(offset, chunk, columns)
        except InvalidBytesError as error:
            raise BrokenFetchError(broken(chunk.partition, offset, error), chunks) from error
    return arrow().Table.from_batches(found, schema=column_schema(columns))


def _batches_of(offset: int, chunk: CompletedFetch, columns: Sequence[str] | None) -> list[Any]:
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
