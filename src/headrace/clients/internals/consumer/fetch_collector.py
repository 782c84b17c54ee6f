"""Takes what was fetched: up to so many rows, partition after partition, and moves the positions on.

A batch is decoded when its first row is wanted. A partition whose buffer is empty goes behind the others, so
that all get their turn.
"""

from collections.abc import Callable
from typing import Final

from headrace.clients.internals.client_metrics import ClientMetrics
from headrace.clients.internals.consumer.completed_fetch import CompletedFetch, ConsumerRecord, Deserializer
from headrace.clients.internals.consumer.subscription_state import PartitionStates, TopicPartitionState

# From this many bytes on, reading is no short command any more.
_MUCH_BYTES: Final = 2 * 1024 * 1024


class FetchCollector:
    """The last step of a poll. `on_much` is called once, when much has been read."""

    def __init__(
        self,
        positions: PartitionStates,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        *,
        on_much: Callable[[], None],
        metrics: ClientMetrics,
    ) -> None:
        self._positions = positions
        self._deserializers = (key_deserializer, value_deserializer)
        self._on_much = on_much
        self._metrics = metrics
        self._bytes_left = _MUCH_BYTES
        self._current: TopicPartitionState | None = None  # whose rows were taken last
        self._era = 0

    def take(self, wanted: int) -> list[ConsumerRecord]:
        """Up to `wanted` rows of what has arrived."""
        rows: list[ConsumerRecord] = []
        for state in list(self._positions):
            if state.has_data and not state.is_paused:
                rows += self._take_from(state, wanted - len(rows))
                self._current, self._era = state, state.era
                if len(rows) >= wanted:
                    break
                self._positions.rotate(state.partition)
        self._metrics.records_consumed += len(rows)
        return rows

    def take_on(self, wanted: int) -> tuple[list[ConsumerRecord], bool]:
        """More rows of the partition that gave the last ones, and whether there is room for others now.

        This may be called in another thread than the loop's.
        """
        state = self._current
        if state is None:
            return [], False
        with state.lock:
            is_as_before = state.era == self._era and self._positions.get(state.partition) is state
            if not is_as_before or state.is_paused or not state.has_position:
                return [], False
            buffered_bytes = state.buffered_bytes
            rows = self._take_from(state, wanted)
            self._metrics.records_consumed += len(rows)
            return rows, state.buffered_bytes < buffered_bytes

    def _take_from(self, state: TopicPartitionState, wanted: int) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        while len(found) < wanted:
            if state.rows_at >= len(state.rows) and not self._next_rows(state):
                break
            start, end = state.rows_at, min(len(state.rows), state.rows_at + wanted - len(found))
            found += state.rows[start:end]
            state.rows_at = end
            if end == len(state.rows):
                state.position, state.position_epoch = state.rows_end, state.rows_epoch
            else:
                state.position, state.position_epoch = state.rows[end].offset, state.rows_epoch
        return found

    def _next_rows(self, state: TopicPartitionState) -> bool:
        """Decode the next batch that has records for the user; False when nothing is left."""
        while state.chunks:
            chunk = state.chunks[0]
            found = chunk.next_rows(state.position, *self._deserializers)
            if found is None:
                self.count(chunk.size)
                state.rows, state.rows_at = [], 0
                state.chunk_done()
                continue
            state.rows, state.rows_end, state.rows_epoch = found
            state.rows_at = 0
            if state.rows:
                return True
            state.position, state.position_epoch = state.rows_end, state.rows_epoch
        return False

    def detach(self) -> list[tuple[int, CompletedFetch]]:
        """All chunks that have arrived, each with the offset to read it from; the positions move behind."""
        found = []
        for state in list(self._positions):
            if state.is_paused or not state.has_data:
                continue
            state.rows, state.rows_at = [], 0
            while state.chunks:
                chunk = state.chunks[0]
                found.append((state.position, chunk))
                # Offsets: how many of them are records is known when they are decoded.
                self._metrics.records_consumed += chunk.end - state.position
                state.position, state.position_epoch = chunk.end, chunk.epoch
                state.chunk_done()
                self.count(chunk.size)
            self._positions.rotate(state.partition)
        return found

    def count(self, size: int) -> None:
        """Much reading makes compiled kernels worth loading."""
        if self._bytes_left > 0:
            self._bytes_left -= size
            if self._bytes_left <= 0:
                self._on_much()
