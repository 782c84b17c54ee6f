"""Takes what was fetched: up to so many rows, partition after partition, and moves the positions on.

A batch is decoded when its first row is wanted. A partition whose buffer is empty goes behind the others, so
that all get their turn.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from headrace.base.errors import InvalidBytesError
from headrace.clients.consuming.positions import PartitionState, Positions
from headrace.clients.consuming.records import ConsumedRecord, Deserializer, broken

# From this many bytes on, reading is no short command any more.
_MUCH_BYTES: Final = 2 * 1024 * 1024


class Taking:
    """The last step of a poll. `on_much` is called once, when much has been read."""

    def __init__(
        self,
        positions: Positions,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        *,
        on_much: Callable[[], None],
    ) -> None:
        self._positions = positions
        self._deserializers = (key_deserializer, value_deserializer)
        self._on_much = on_much
        self._bytes_left = _MUCH_BYTES

    def take(self, wanted: int) -> list[ConsumedRecord]:
        """Up to `wanted` rows of what has arrived."""
        rows: list[ConsumedRecord] = []
        for state in list(self._positions):
            if state.has_data and not state.is_paused:
                rows += self._take_from(state, wanted - len(rows))
                if len(rows) >= wanted:
                    break
        return rows

    def _take_from(self, state: PartitionState, wanted: int) -> list[ConsumedRecord]:
        found: list[ConsumedRecord] = []
        while len(found) < wanted:
            if state.rows_at >= len(state.rows) and not self._next_rows(state):
                self._positions.rotate(state.partition)
                break
            start, end = state.rows_at, min(len(state.rows), state.rows_at + wanted - len(found))
            found += state.rows[start:end]
            state.rows_at = end
            if end == len(state.rows):
                state.position, state.position_epoch = state.rows_end, state.rows_epoch
            else:
                state.position, state.position_epoch = state.rows[end].offset, state.rows_epoch
        return found

    def _next_rows(self, state: PartitionState) -> bool:
        """Decode the next batch that has records for the user; False when nothing is left."""
        while state.chunks:
            chunk = state.chunks[0]
            batch = chunk.next_batch(state.position)
            if batch is None:
                self.count(chunk.size)
                state.rows, state.rows_at = [], 0
                state.chunk_done()
                continue
            state.rows = chunk.rows(batch, state.position, *self._deserializers)
            state.rows_at = 0
            state.rows_end, state.rows_epoch = batch.header.next_offset, batch.header.leader_epoch
            if state.rows:
                return True
            state.position, state.position_epoch = state.rows_end, state.rows_epoch
        return False

    def take_arrow(self, columns: Sequence[str] | None) -> Any:
        """Everything that has arrived, as a pyarrow.Table of these columns."""
        from headrace.records.columns import column_schema  # numpy, numba and pyarrow
        from headrace.records.columns_arrow import arrow

        found = [
            rows
            for state in list(self._positions)
            if state.has_data and not state.is_paused
            for rows in self._columns_of(state, columns)
        ]
        return arrow().Table.from_batches(found, schema=column_schema(columns))

    def _columns_of(self, state: PartitionState, columns: Sequence[str] | None) -> Iterator[Any]:
        from headrace.records.columns import AbortedTransaction, read_columns

        state.rows, state.rows_at = [], 0
        while state.chunks:
            chunk = state.chunks[0]
            aborted = None
            if chunk.aborted is not None:
                aborted = [AbortedTransaction(producer, first) for first, producer in chunk.aborted]
            try:
                decoded = read_columns(
                    chunk.buffer,
                    topic=state.partition.topic,
                    partition=state.partition.partition,
                    from_offset=state.position,
                    aborted=aborted,
                    columns=columns,
                )
            except InvalidBytesError as error:
                raise broken(state.partition, state.position, error) from error
            state.position = decoded.next_offset
            if decoded.is_whole:
                state.chunk_done()
                self.count(chunk.size)
            if decoded.rows.num_rows:
                yield decoded.rows
        self._positions.rotate(state.partition)

    def count(self, size: int) -> None:
        """Much reading makes compiled kernels worth loading."""
        if self._bytes_left > 0:
            self._bytes_left -= size
            if self._bytes_left <= 0:
                self._on_much()
