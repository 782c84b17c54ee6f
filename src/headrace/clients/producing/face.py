"""The producer's two faces: `AsyncProducer` on the caller's loop, `Producer` for threads.

    with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
        delivery = producer.send("orders", b"value", key=b"key")
        print(delivery.result().offset)

    async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"value")
        print((await delivery).offset)

`send` returns as soon as the record is in its batch; it waits only for metadata and memory, up to
max.block.ms. Leaving the `with` block sends everything that was taken.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from headrace.clients.background import Background
from headrace.clients.producing.batch import Delivery, ProducerBatch
from headrace.clients.producing.core import (
    Interceptor,
    Lacks,
    ProducerCore,
    Serializer,
)
from headrace.clients.producing.encoding import Headers
from headrace.clients.producing.partitioners import Partitioner
from headrace.clients.producing.settings import producer_config
from headrace.clients.producing.transactional_faces import AsyncTransactional, SyncTransactional
from headrace.clients.world import World, system_world

if TYPE_CHECKING:
    from headrace.clients.producing.tables import TableStream

_Queue: TypeAlias = Callable[[Iterable[ProducerBatch]], list[Delivery]]


class AsyncProducer(AsyncTransactional):
    """Writes records, on an event loop. Settings are Kafka's, as a mapping or as keywords with _ for dots."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[Interceptor] = (),
        world: World | None = None,
        **more: Any,
    ) -> None:
        config = producer_config(settings, **more)
        world = world or system_world(
            asyncio.get_running_loop(),
            send_buffer_bytes=config.int("send.buffer.bytes"),
            receive_buffer_bytes=config.int("receive.buffer.bytes"),
        )
        self._core = ProducerCore(
            world,
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
        )
        self._block_ms = config.int("max.block.ms")

    @property
    def core(self) -> ProducerCore:
        """What both faces share."""
        return self._core

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
        taken = self._core.offer(topic, value, key, partition, timestamp_ms, headers)
        if taken.__class__ is Delivery:
            return taken
        deadline_ms = self._core.world.now_ms() + self._block_ms
        while not isinstance(taken, Delivery):
            await self._core.obtain(topic, taken, partition, deadline_ms)
            taken = self._core.offer(topic, value, key, partition, timestamp_ms, headers)
        return taken

    async def send_arrow(self, topic: str, data: Any) -> list[Delivery]:
        """Take all rows of a pyarrow Table or RecordBatch: columns key, value, headers, timestamp, partition.

        Each may be missing. There is one delivery for each batch, which tells where its first row is.
        Needs pyarrow (pip install 'headrace[arrow]').
        """
        deliveries = []
        for batch in self._core.tables.batches(topic, data, await self.partitions_for(topic)):
            deadline_ms = self._core.world.now_ms() + self._block_ms
            while lacks := self._core.offer_sealed(batch):
                await self._core.obtain(topic, lacks, None, deadline_ms)
            deliveries.append(Delivery(batch, 0))
            await asyncio.sleep(0)  # it leaves while the next one is written
        return deliveries

    async def partitions_for(self, topic: str, *, at_least: int = 1) -> int:
        """How many partitions a topic has; the cluster is asked where fewer than `at_least` are known.

        ClientError where it has fewer.
        """
        if self._core.cluster.view.partition_count(topic) < at_least:
            deadline_ms = self._core.world.now_ms() + self._block_ms
            await self._core.obtain(topic, Lacks.METADATA, at_least - 1, deadline_ms)
        return self._core.cluster.view.partition_count(topic)

    async def flush(self) -> None:
        """Wait until everything that was sent so far is written, or has failed."""
        await self._core.flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what was taken, then end; what is not written after the time-out fails."""
        await self._core.close(timeout_ms)


class Producer(SyncTransactional):
    """Writes records, for programs with threads: any of them may send. Settings as for `AsyncProducer`."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[Interceptor] = (),
        **more: Any,
    ) -> None:
        config = producer_config(settings, **more)
        self._background = Background("headrace-producer")
        world = system_world(
            self._background.loop,
            send_buffer_bytes=config.int("send.buffer.bytes"),
            receive_buffer_bytes=config.int("receive.buffer.bytes"),
        )
        with self._background.closed_on_error():
            self._async: AsyncProducer = AsyncProducer(
                config.given,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                partitioner=partitioner,
                interceptors=interceptors,
                world=world,
            )
        self._core = self._async.core
        self._core.make_way = lambda: time.sleep(0)
        self._offer = self._core.offer
        self._block_ms = config.int("max.block.ms")
        self._is_closed = False

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
        deadline_ms = self._core.world.now_ms() + self._block_ms
        while not isinstance(taken, Delivery):
            self._background.run(self._core.obtain(topic, taken, partition, deadline_ms))
            taken = self._offer(topic, value, key, partition, timestamp_ms, headers)
        return taken

    def send_arrow(self, topic: str, data: Any) -> list[Delivery]:
        """Take all rows of a pyarrow Table or RecordBatch: columns key, value, headers, timestamp, partition.

        Each may be missing. There is one delivery for each batch, which tells where its first row is.
        Needs pyarrow (pip install 'headrace[arrow]').
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
            deadline_ms = self._core.world.now_ms() + self._block_ms
            while lacks := self._core.offer_sealed(batch):
                self._background.run(self._core.obtain(batch.partition.topic, lacks, None, deadline_ms))
            deliveries.append(Delivery(batch, 0))
        return deliveries

    def partitions_for(self, topic: str, *, at_least: int = 1) -> int:
        """How many partitions a topic has; the cluster is asked where fewer than `at_least` are known.

        ClientError where it has fewer.
        """
        count = self._core.cluster.view.partition_count(topic)
        if count >= at_least:
            return count
        return self._background.run(self._async.partitions_for(topic, at_least=at_least))

    def flush(self) -> None:
        """Wait until everything that was sent so far is written, or has failed."""
        self._background.run(self._async.flush())

    def close(self, timeout_ms: int | None = None) -> None:
        """Send what was taken, then end; what is not written after the time-out fails."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.run(self._async.close(timeout_ms))


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
