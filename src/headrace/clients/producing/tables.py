"""Arrow tables as batches of a producer, made one by one: while one is sent, the next is written.

The memory of full batches is used again once a broker has answered for them: to touch fresh pages costs more
than to write the records into them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients.producing.batch import ProducerBatch
from headrace.records.columns_encode import write_batches
from headrace.records.columns_write import BatchForm, Memory, Written, fresh_memory

# Tables come with their rows together: batches are made as large as brokers take them by default, not more.
BATCH_BYTES: Final = 1024 * 1024 - 4096
# Those on the wire, one that waits, and one that is being written.
_SPARE_MAX: Final = 7


class SpareMemory:
    """Buffers of one size. Any thread may take and give: a list's own operations are atomic."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._spare: list[Memory] = []

    def take(self, size: int) -> Memory:
        if size == self.size:
            try:
                return self._spare.pop()
            except IndexError:
                pass
        return fresh_memory(size)

    def give(self, memory: Memory) -> None:
        if len(memory) == self.size and len(self._spare) < _SPARE_MAX:
            self._spare.append(memory)


def table_batches(
    topic: str,
    data: Any,
    partition_count: int,
    *,
    keyless_partition: int,
    form: BatchForm,
    spare: SpareMemory,
    now_ms: Callable[[], int],
) -> Iterator[ProducerBatch]:
    """The rows of a table as batches that can be queued; ValueError at once for columns that do not fit."""
    written = write_batches(
        data, partition_count, keyless_partition=keyless_partition, form=form, take=spare.take
    )
    return (_batch(topic, each, now_ms(), spare) for each in written)


def _batch(topic: str, written: Written, now_ms: int, spare: SpareMemory) -> ProducerBatch:
    batch = ProducerBatch.of_bytes(TopicPartition(topic, written.lane), now_ms, written.data)
    memory = written.memory
    if memory is not None:
        batch.give_back = lambda: spare.give(memory)
    return batch
