"""Arrow tables as batches of a producer, made one by one: while one is sent, the next is written.

A table is sent as a whole (`Tables.batches`), or it is one of many for a topic (`TableStream`), whose batches
go over the borders of the tables.

The memory of full batches is used again once a broker has answered for them: to touch fresh pages costs more
than to write the records into them.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients.internals.producer.producer_batch import ProducerBatch
from headrace.records.columns.encode import (
    BatchForm,
    BatchStream,
    EncodedBatch,
    Memory,
    fresh_memory,
    write_batches,
)
from headrace.records.columns.schema import COLUMNS, arrow

if TYPE_CHECKING:
    from headrace.clients.internals.producer.core import ProducerCore

# Tables come with their rows together: batches are made as large as brokers take them by default, not more.
BATCH_BYTES: Final = 1024 * 1024 - 4096
WRITTEN: Final = ("key", "value", "headers", "timestamp", "partition")
# Those on the wire, one that waits, and one that is being written.
_SPARE_MAX: Final = 7


def record_rows(data: Any) -> Any:
    """A table or a record batch of columns that records have, from what a user gave.

    TypeError for what is no table, ValueError for columns that no record has: a column that is passed over
    because of its name would be lost without a word.
    """
    pyarrow = arrow()
    if not isinstance(data, pyarrow.Table | pyarrow.RecordBatch):
        data = _table_of(data, pyarrow)
    names = data.schema.names
    unknown = [name for name in names if name not in COLUMNS]
    twice = sorted({name for name in names if names.count(name) > 1})
    if unknown or twice:
        what = f"unknown columns: {', '.join(unknown)}" if unknown else f"columns twice: {', '.join(twice)}"
        raise ValueError(f"{what}; a record's are {', '.join(WRITTEN)}: rename or drop the others")
    return data


def _table_of(data: Any, pyarrow: Any) -> Any:
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        # An index with a name may be the key: what is passed over is lost.
        is_named = any(name is not None for name in data.index.names)
        return pyarrow.Table.from_pandas(data, preserve_index=is_named)
    if hasattr(data, "__arrow_c_stream__"):
        return pyarrow.table(data)
    raise TypeError(
        f"rows have to be a pyarrow Table or RecordBatch, or a DataFrame, not {type(data).__name__}; "
        "pyarrow.table({'key': …, 'value': …}) makes a table of lists"
    )


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


class Tables:
    """Makes batches in the form that a producer's settings ask for.

    ValueError at once for columns that do not fit, here and in a stream.
    """

    def __init__(self, core: "ProducerCore") -> None:
        self._core = core
        self._spare: SpareMemory | None = None

    def batches(self, topic: str, data: Any, count: int) -> Iterator[ProducerBatch]:
        """The rows of a table as batches of a topic with `count` partitions."""
        data = record_rows(data)
        form, spare = self.form(count)
        keyless = self._core.keyless_partition(topic, count, data.nbytes)
        written = write_batches(data, count, keyless_partition=keyless, form=form, take=spare.take)
        return _queueable(topic, written, spare, self._core.environment.now_ms)

    def stream(self, topic: str, count: int) -> "TableStream":
        """For tables that follow each other."""
        return TableStream(self._core, topic, *self.form(count))

    def form(self, count: int) -> tuple[BatchForm, SpareMemory]:
        """How batches are made for so many partitions, and the memory for them."""
        core = self._core
        # Every partition has a batch that is being written: together they are a fourth of the memory.
        most = max(core.config.int("batch.size"), min(BATCH_BYTES, core.batches.memory_bytes // (4 * count)))
        form = BatchForm(
            codec=core.sender.codec,
            level=core.sender.level,
            batch_bytes=min(most, core.record_bytes_max),
            timestamp_ms=core.environment.clock.now_ms(),
            transactional=core.sender.transactions is not None,
        )
        if self._spare is None or self._spare.size != form.batch_bytes:
            self._spare = SpareMemory(form.batch_bytes)
        return form, self._spare


class TableStream:
    """Tables of one topic that follow each other. Rows whose batch is not full wait for the next table."""

    def __init__(self, core: "ProducerCore", topic: str, form: BatchForm, spare: SpareMemory) -> None:
        self._core = core
        self._topic = topic
        self._spare = spare
        self._stream = BatchStream(form, spare.take)

    def batches(self, data: Any, count: int) -> Iterator[ProducerBatch]:
        """Those that these rows fill. There may be more partitions than there were."""
        data = record_rows(data)
        environment = self._core.environment
        keyless = self._core.keyless_partition(self._topic, count, data.nbytes)
        written = self._stream.write(
            data, count, keyless_partition=keyless, timestamp_ms=environment.clock.now_ms()
        )
        return _queueable(self._topic, written, self._spare, environment.now_ms)

    def rest(self) -> Iterator[ProducerBatch]:
        """Those that are not full. The stream is over."""
        return _queueable(self._topic, self._stream.finish(), self._spare, self._core.environment.now_ms)


def _queueable(
    topic: str, written: Iterator[EncodedBatch], spare: SpareMemory, now_ms: Callable[[], int]
) -> Iterator[ProducerBatch]:
    """What was written as batches that can be queued, whose memory goes back to where it is from."""
    return (_batch(topic, each, now_ms(), spare) for each in written)


def _batch(topic: str, written: EncodedBatch, now_ms: int, spare: SpareMemory) -> ProducerBatch:
    batch = ProducerBatch.of_bytes(TopicPartition(topic, written.lane), now_ms, written.data)
    memory = written.memory
    if memory is not None:
        batch.give_back = lambda: spare.give(memory)
    return batch
