"""The producers: `Producer` for programs with threads, `AsyncProducer` on an event loop.

    with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
        delivery = producer.send("orders", b"value", key=b"key")
        print(delivery.result().offset)

    async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"value")
        print((await delivery).offset)

`send` returns as soon as the record is in its batch; it waits only for metadata and memory, up to
max.block.ms. Leaving the `with` block sends everything that was taken. Of a `Producer` that is never closed
it is sent when the program ends; of an `AsyncProducer` it is then counted, and said to be lost.

    with Producer({"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "copier-1"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"value")

Leaving `transaction()` commits; an exception in it aborts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from headrace.base.ids import TopicPartition
from headrace.clients.config import producer_config
from headrace.clients.errors import ClientError
from headrace.clients.internals.background import SyncClient, calls, waits_for
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.consumer.group_coordinator_client import ConsumerGroupMetadata
from headrace.clients.internals.environment import ClientEnvironment, system_environment
from headrace.clients.internals.producer.core import Lacks, ProducerCore, ProducerInterceptor, Serializer
from headrace.clients.internals.producer.encoding import Headers
from headrace.clients.internals.producer.partitioners import Partitioner
from headrace.clients.internals.producer.producer_batch import Delivery, ProducerBatch
from headrace.clients.internals.producer.transaction_manager import TransactionManager
from headrace.clients.internals.producer.transaction_state import MAY, PreparedTxnState
from headrace.clients.internals.producer.unclosed import forget, remember
from headrace.clients.offsets import OffsetAndMetadata, with_metadata

if TYPE_CHECKING:
    from headrace.clients.internals.producer.tables import TableStream

_Queue: TypeAlias = Callable[[Iterable[ProducerBatch]], list[Delivery]]
Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class AsyncProducer:
    """Writes records, on an event loop.

    Settings are Kafka's, as a mapping or as keywords with _ for dots. A serializer makes bytes of a key or a
    value; interceptors see every record before that.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        environment: ClientEnvironment | None = None,
        **more: Any,
    ) -> None:
        config = producer_config(settings, **more)
        is_own = environment is None
        environment = environment or system_environment(asyncio.get_running_loop(), config)
        self.core = ProducerCore(
            environment,
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
        )
        self._block_ms = config.int("max.block.ms")
        if is_own:
            remember(self.core)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Take a record into its batch. The delivery, when awaited, tells where it was written."""
        taken = self.core.offer(topic, value, key, partition, timestamp_ms, headers)
        if taken.__class__ is Delivery:
            return taken
        deadline_ms = self.core.environment.now_ms() + self._block_ms
        while not isinstance(taken, Delivery):
            lacks, key, value, headers = taken
            await self.core.obtain(topic, lacks, partition, deadline_ms)
            taken = self.core.offer_prepared(topic, value, key, partition, timestamp_ms, headers)
        return taken

    async def send_arrow(self, topic: str, data: Any) -> list[Delivery]:
        """Take all rows of a pyarrow Table or RecordBatch, or of a DataFrame that becomes one.

        Columns are key, value, headers, timestamp and partition; each may be missing. topic, offset and
        timestamp_type, which `poll_arrow` gives too, are passed over; others are an error. There is one
        delivery for each batch, which tells where its first row is. Needs pyarrow (pip install
        'headrace[arrow]').
        """
        deliveries = []
        for batch in self.core.tables.batches(topic, data, await self.partitions_for(topic)):
            deadline_ms = self.core.environment.now_ms() + self._block_ms
            while lacks := self.core.offer_sealed(batch):
                await self.core.obtain(topic, lacks, None, deadline_ms)
            deliveries.append(Delivery(batch, 0))
            await asyncio.sleep(0)  # it leaves while the next one is written
        return deliveries

    async def partitions_for(self, topic: str, *, at_least: int = 1) -> int:
        """How many partitions a topic has; the cluster is asked where fewer than `at_least` are known.

        ClientError where it has fewer.
        """
        if self.core.client.metadata.partition_count(topic) < at_least:
            deadline_ms = self.core.environment.now_ms() + self._block_ms
            await self.core.obtain(topic, Lacks.METADATA, at_least - 1, deadline_ms)
        return self.core.client.metadata.partition_count(topic)

    async def flush(self) -> None:
        """Wait until everything that was sent so far is written, or has failed."""
        await self.core.flush()

    # Transactions

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTxnState | None:
        """Before anything else: fence whoever used this transactional id, and end what it left open.

        With `keep_prepared` a transaction that was prepared stays so, and is returned: `complete_transaction`
        decides about it.
        """
        transactions = self._transactions()
        await transactions.init(keep_prepared=keep_prepared)
        return transactions.prepared

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from here on belongs to it."""
        self._transactions().begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
        """Commit a consumer's offsets with the transaction: `group` is its `group_metadata()`."""
        await self._transactions().send_offsets(with_metadata(offsets), group)

    async def commit_transaction(self) -> None:
        """Write everything and commit. AbortableError where it can only be aborted."""
        await self._transactions().commit(self.core.writes)

    async def abort_transaction(self) -> None:
        """Drop what was sent in the transaction; a consumer of committed records never sees it."""
        await self._transactions().abort(self.core.writes)

    async def prepare_transaction(self) -> PreparedTxnState:
        """Write everything and wait for a decision: commit or abort here, or in another process.

        It waits for transaction.timeout.ms, and with two-phase commit (KIP-939) for as long as it takes.
        """
        return await self._transactions().prepare(self.core.writes)

    async def complete_transaction(self, decided: PreparedTxnState) -> bool:
        """Commit what is prepared if it is this one, else abort it; whether it was committed."""
        return await self._transactions().complete(decided, self.core.writes)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block, abort where it raises."""
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self.may_abort:
                await self.abort_transaction()
            raise

    @property
    def may_abort(self) -> bool:
        """Whether there is a transaction that can be aborted."""
        return self._transactions().state in MAY["abort_transaction"]

    def _transactions(self) -> TransactionManager:
        found = self.core.sender.transactions
        if found is None:
            raise ClientError("the producer has no transactions: set transactional.id")
        return found

    def metrics(self) -> dict[MetricName, float]:
        """What this producer has done so far, by the names that Kafka's producer has for it."""
        return self.core.metrics()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what was taken, then end; what is not written after the time-out fails."""
        try:
            await self.core.close(timeout_ms)
        finally:
            forget(self.core)


class Producer(SyncClient[AsyncProducer]):
    """Writes records, for programs with threads: any of them may send. Settings as for `AsyncProducer`."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        **more: Any,
    ) -> None:
        config = producer_config(settings, **more)

        def make(environment: ClientEnvironment) -> AsyncProducer:
            return AsyncProducer(
                config.given,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                partitioner=partitioner,
                interceptors=interceptors,
                environment=environment,
            )

        super().__init__("headrace-producer", config, make)
        self._core = self._async.core
        self._offer = self._core.offer
        self._block_ms = config.int("max.block.ms")
        remember(self._core, self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Take a record into its batch; `result()` of the delivery tells where it was written."""
        taken = self._offer(topic, value, key, partition, timestamp_ms, headers)
        if taken.__class__ is Delivery:
            return taken
        deadline_ms = self._core.environment.now_ms() + self._block_ms
        while not isinstance(taken, Delivery):
            lacks, key, value, headers = taken
            self._background.run(self._core.obtain, topic, lacks, partition, deadline_ms)
            taken = self._core.offer_prepared(topic, value, key, partition, timestamp_ms, headers)
        return taken

    def send_arrow(self, topic: str, data: Any) -> list[Delivery]:
        """Take all rows of a pyarrow Table or RecordBatch, or of a DataFrame that becomes one.

        Columns are key, value, headers, timestamp and partition; each may be missing. topic, offset and
        timestamp_type, which `poll_arrow` gives too, are passed over; others are an error. There is one
        delivery for each batch, which tells where its first row is. Needs pyarrow (pip install
        'headrace[arrow]').
        """
        return self._queued(self._core.tables.batches(topic, data, self.partitions_for(topic)))

    def arrow_stream(self, topic: str) -> "ArrowStream":
        """For many tables of one topic: their batches go over the tables' borders, so they are large however
        small the tables are."""
        stream = self._core.tables.stream(topic, self.partitions_for(topic))
        return ArrowStream(stream, partial(self.partitions_for, topic), self._queued)

    def _queued(self, batches: Iterable[ProducerBatch]) -> list[Delivery]:
        """Queue batches as they are made, and wait for memory where there is none."""
        deliveries = []
        for batch in batches:
            deadline_ms = self._core.environment.now_ms() + self._block_ms
            while lacks := self._core.offer_sealed(batch):
                self._background.run(self._core.obtain, batch.partition.topic, lacks, None, deadline_ms)
            deliveries.append(Delivery(batch, 0))
        return deliveries

    def partitions_for(self, topic: str, *, at_least: int = 1) -> int:
        """How many partitions a topic has; the cluster is asked where fewer than `at_least` are known.

        ClientError where it has fewer.
        """
        count = self._core.client.metadata.partition_count(topic)
        if count >= at_least:
            return count
        return self._background.run(self._async.partitions_for, topic, at_least=at_least)

    flush = waits_for(AsyncProducer.flush)
    metrics = calls(AsyncProducer.metrics)

    # Transactions

    init_transactions = waits_for(AsyncProducer.init_transactions)
    begin_transaction = waits_for(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = waits_for(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = waits_for(AsyncProducer.commit_transaction)
    abort_transaction = waits_for(AsyncProducer.abort_transaction)
    prepare_transaction = waits_for(AsyncProducer.prepare_transaction)
    complete_transaction = waits_for(AsyncProducer.complete_transaction)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the block, abort where it raises."""
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException:
            if self._async.may_abort:
                self.abort_transaction()
            raise

    def close(self, timeout_ms: int | None = None) -> None:
        """Send what was taken, then end; what is not written after the time-out fails."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.run(self._async.close, timeout_ms)


class ArrowStream:
    """Tables of one topic, one after the other (`Producer.arrow_stream`); one thread at a time may use it.

    Rows whose batch is not full are with this stream alone: they leave with rows that fill it, or with
    `finish`. `Producer.flush` does not know of them.
    """

    def __init__(self, tables: "TableStream", partition_count: Callable[[], int], queue: _Queue) -> None:
        self._tables = tables
        self._partition_count = partition_count
        self._queue = queue

    def send(self, data: Any) -> list[Delivery]:
        """Take all rows of a table, as `send_arrow` does; a delivery for each batch that became full."""
        return self._queue(self._tables.batches(data, self._partition_count()))

    def finish(self) -> list[Delivery]:
        """Send the batches that are not full."""
        return self._queue(self._tables.rest())
