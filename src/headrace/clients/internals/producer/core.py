"""What both faces of the producer share: a record's way from the caller to its batch.

`offer` never waits, so any thread may call it. Where it cannot go on (the topic's partitions are not known,
or there is no memory) it says what is lacking, and the face waits in its own way: `obtain`, on the loop.
Then it goes on with `offer_prepared`: interceptors and serializers see a record once, however long it waits.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from enum import Enum, auto
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.config import ClientConfig
from headrace.clients.errors import (
    BufferFullError,
    ClientError,
    ClosedError,
    NoSuchTopicError,
    RefusedError,
    TimedOutError,
    error_code,
)
from headrace.clients.internals.arguments import check_topic
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.client_telemetry_reporter import ClientTelemetryReporter
from headrace.clients.internals.environment import ClientEnvironment
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.internals.producer.encoding import RECORD_OVERHEAD, Headers, Row, checked_row, row_size
from headrace.clients.internals.producer.partitioners import (
    Partitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from headrace.clients.internals.producer.producer_batch import Delivery, ProducerBatch, RecordMetadata
from headrace.clients.internals.producer.record_accumulator import RecordAccumulator
from headrace.clients.internals.producer.sender import Sender
from headrace.clients.internals.producer.transaction_state import ProducerTxnState, Writes

if TYPE_CHECKING:
    from headrace.clients.internals.producer.tables import Tables

Serializer = Callable[[Any], bytes | None]


class ProducerInterceptor(Protocol):
    """Sees every record before it is serialized, and how it ended."""

    def on_send(self, topic: str, key: Any, value: Any, headers: Headers) -> tuple[Any, Any, Headers]:
        """The key, value and headers to go on with."""
        ...

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Where the record was written, or why it was not; in the producer's own thread."""
        ...


class Lacks(Enum):
    """Why a record could not be taken now."""

    METADATA = auto()
    MEMORY = auto()


class Unsent(NamedTuple):
    """A record that could not be taken now, as interceptors and serializers have left it."""

    lacks: Lacks
    key: bytes | None
    value: bytes | None
    headers: Headers


class _Known(NamedTuple):
    """A topic's partitions, as of a version of the metadata."""

    version: int
    total: int
    partitions: list[TopicPartition]


class ProducerCore:
    """A producer without a face."""

    def __init__(
        self,
        environment: ClientEnvironment,
        config: ClientConfig,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
    ) -> None:
        self.environment = environment
        self.config = config
        self.client = NetworkClient(environment, config)
        self.batches = RecordAccumulator(
            batch_bytes=config.int("batch.size"),
            linger_ms=config.int("linger.ms"),
            memory_bytes=config.int("buffer.memory"),
            delivery_ms=config.int("delivery.timeout.ms"),
            now_ms=environment.now_ms,
        )
        self.reporter = ClientTelemetryReporter(self.client, self.metrics)
        self.sender = Sender(self.client, self.batches, on_decided=self._decided)
        self.writes = Writes(self.batches.close_all, self.flush, self.sender.drop_waiting)
        self.record_bytes_max = min(config.int("max.request.size"), config.int("buffer.memory"))
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._interceptors = tuple(interceptors)
        self._is_plain = not (key_serializer or value_serializer or interceptors)
        self._partitioner = partitioner or self._default_partitioner()
        self._choose = self._partitioner.partition
        self._metadata = self.client.metadata
        self._known: dict[str, _Known] = {}
        # Batches that records without a key go to, as long as there is room: nothing else has to be asked
        # then. Each with its size when it was put here, for the partitioner to hear of what followed.
        self._open: dict[str, tuple[ProducerBatch, int]] = {}
        self._lock = self.batches.lock
        self._sticky = self._partitioner if isinstance(self._partitioner, StickyPartitioner) else None
        self._opens = self._is_plain and config.int("batch.size") <= self.record_bytes_max
        self._now_ms = environment.clock.now_ms
        self._room: list[asyncio.Future[None]] = []
        self._decided_count = 0
        self._tables: Tables | None = None
        self._is_awake = False
        self.is_closed = False
        self._make_way = environment.make_way

    def _default_partitioner(self) -> Partitioner:
        if self.config.str("partitioner.class") == "round-robin":
            return RoundRobinPartitioner()
        return StickyPartitioner(
            self.environment.rng,
            batch_bytes=self.config.int("batch.size"),
            loads=self.batches.loads
            if self.config.bool("partitioner.adaptive.partitioning.enable")
            else None,
            ignores_keys=self.config.bool("partitioner.ignore.keys"),
        )

    # Any thread

    def offer(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery | Unsent:
        """Take a record, or say what is lacking."""
        if (
            value.__class__ is bytes
            and key is None
            and partition is None
            and timestamp_ms is None
            and not headers
            and (found := self._open.get(topic))
        ):
            batch = found[0]
            size = RECORD_OVERHEAD + len(value)
            row = (self._now_ms(), None, value, ())
            with self._lock:
                if size <= batch.room:  # a closed batch has none
                    batch.room -= size
                    rows = batch.rows
                    rows.append(row)
                    return Delivery(batch, len(rows) - 1)
        if not self._is_plain:
            key, value, headers = self._prepared(topic, key, value, headers)
        return self.offer_prepared(topic, value, key, partition, timestamp_ms, headers)

    def offer_prepared(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery | Unsent:
        """Take a record that interceptors and serializers have seen."""
        known = self._known.get(topic)
        if known is None or known.version != self._metadata.version:
            known = self._look_up(topic)
        if partition is not None and partition.__class__ is not int:
            partition = _as_number(partition)
        if known is None or (partition is not None and not 0 <= partition < known.total):
            return Unsent(Lacks.METADATA, key, value, headers)
        row = checked_row(self._now_ms() if timestamp_ms is None else timestamp_ms, key, value, headers)
        size = row_size(row)
        if size > self.record_bytes_max:
            what = f"a record of about {size} bytes for {topic!r} is larger than max.request.size"
            raise RefusedError(ErrorCode.MESSAGE_TOO_LARGE, what)
        with self._lock:
            taken = self._append(topic, row, size, partition, known)
        if taken is None:
            return Unsent(Lacks.MEMORY, key, value, headers)
        self._tell_sender()
        batch, index = taken
        delivery = Delivery(batch, index)
        if self._interceptors:
            delivery.add_done_callback(self._acknowledged)
        return delivery

    def _append(
        self, topic: str, row: Row, size: int, partition: int | None, known: _Known
    ) -> tuple[ProducerBatch, int] | None:
        self._check_open()
        if partition is not None:
            return self.batches.append(known.partitions[partition], row, size)
        _, key, value, _ = row
        sticky = self._sticky
        if sticky is not None and topic in self._open:
            batch, size_before = self._open.pop(topic)
            sticky.count(topic, batch.size - size_before)
        partition = self._choose(topic, key, value, known.total, size)
        taken = self.batches.append(known.partitions[partition], row, size)
        if taken is not None and key is None and sticky is not None and self._opens:
            self._open[topic] = (taken[0], taken[0].size)
        return taken

    def _check_open(self) -> None:
        if self.is_closed or self.sender.failure is not None:
            raise self.sender.failure or ClosedError("the producer is closed: make another one")
        if self.sender.transactions is not None:
            self.sender.transactions.check("send")

    def _look_up(self, topic: str) -> _Known | None:
        count = self._metadata.partition_count(topic)
        if not count:
            return None
        partitions = [TopicPartition(topic, number) for number in range(count)]
        known = self._known[topic] = _Known(self._metadata.version, count, partitions)
        return known

    def offer_sealed(self, batch: ProducerBatch) -> Lacks | None:
        """Take a batch that was made elsewhere, or say what is lacking."""
        with self._lock:
            self._check_open()
            if not self.batches.append_sealed(batch):
                return Lacks.MEMORY
        self._tell_sender()
        return None

    @property
    def tables(self) -> "Tables":
        """What makes batches of Arrow tables; it needs numpy and pyarrow."""
        if self._tables is None:
            from headrace.clients.internals.producer.tables import Tables

            self._tables = Tables(self)
        return self._tables

    def keyless_partition(self, topic: str, count: int, size: int) -> int:
        """Where so many bytes of rows without a key go."""
        with self._lock:
            return self._partitioner.partition(topic, None, None, count, size)

    def _prepared(self, topic: str, key: Any, value: Any, headers: Headers) -> tuple[Any, Any, Headers]:
        for each in self._interceptors:
            key, value, headers = each.on_send(topic, key, value, headers)
        if self._key_serializer is not None and key is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None and value is not None:
            value = self._value_serializer(value)
        return key, value, headers

    def _acknowledged(self, delivery: Delivery) -> None:
        error = delivery.exception(0)
        for each in self._interceptors:
            each.on_acknowledgement(None if error else delivery.result(0), error)

    def _tell_sender(self) -> None:
        """After something was queued: let the sender look, or just have its turn."""
        batches = self.batches
        if batches.is_due:
            batches.is_due = False
            if not self._is_awake:
                self._is_awake = True
                self.environment.loop.call_soon_threadsafe(self._wake_now)
            self._make_way()
        elif batches.is_full:
            self._make_way()
        batches.is_full = False

    def _wake_now(self) -> None:
        self._is_awake = False
        self.sender.wake()

    # On the loop

    async def obtain(self, topic: str, lacks: Lacks, partition: int | None, deadline_ms: float) -> None:
        """Wait for what `offer` lacked; an error once max.block.ms is over."""
        if lacks is Lacks.METADATA:
            await self._know(topic, partition, deadline_ms)
        else:
            await self._await_room(deadline_ms)

    async def _know(self, topic: str, partition: int | None, deadline_ms: float) -> None:
        check_topic(topic)
        creates = self.config.bool("allow.auto.create.topics")
        failures = 0
        while True:
            try:
                await self.client.patiently(
                    lambda: self.client.refresh([topic], create=creates),
                    timeout_ms=int(max(0, deadline_ms - self.environment.now_ms())),
                )
            except TimedOutError:
                # One broker that does not answer is no reason to give up: the next one may.
                if self.environment.now_ms() >= deadline_ms:
                    raise
                continue
            count = self.client.metadata.partition_count(topic)
            if count and (partition is None or 0 <= partition < count):
                self.sender.know(topic)
                return
            code = error_code(self.client.metadata.errors.get(topic, ErrorCode.NONE))
            if partition is not None and count:
                raise ClientError(f"topic {topic!r} has no partition {partition}: it has 0 to {count - 1}")
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not creates:
                raise NoSuchTopicError(topic)
            error = RefusedError(code, f"topic {topic!r}")
            failures += 1
            pause_ms = self.client.retry.wait_ms(failures)
            if not error.retriable or self.environment.now_ms() + pause_ms > deadline_ms:
                raise error
            await self.client.pause(pause_ms)

    async def _await_room(self, deadline_ms: float) -> None:
        """Until an eighth of the memory is free: who is let in for every batch only ever waits."""
        waiter: asyncio.Future[None] = self.environment.loop.create_future()
        self._room.append(waiter)
        if self.batches.free_bytes >= self.batches.memory_bytes:
            waiter.set_result(None)
        self.batches.hurry(1)  # what lingers holds the memory
        self.sender.wake()
        decided_before = self._decided_count
        try:
            await asyncio.wait_for(waiter, max(0.0, deadline_ms - self.environment.now_ms()) / 1000)
        except TimeoutError:
            if self._decided_count == decided_before:
                raise BufferFullError(
                    f"no memory for a record within max.block.ms: {self.batches.memory_bytes} bytes of "
                    "records (buffer.memory) wait for their acknowledgement"
                ) from None
        finally:
            self.batches.hurry(-1)
            self._room.remove(waiter)

    def _decided(self, batch: ProducerBatch) -> None:
        self._decided_count += 1
        if self._room and self.batches.free_bytes >= self.batches.memory_bytes // 8:
            for waiter in self._room:
                if not waiter.done():
                    waiter.set_result(None)

    async def flush(self) -> None:
        """Wait until everything that was taken so far is decided."""
        waiting = {batch for batch in self.batches.undecided() if not batch.is_done}
        if not waiting:
            return
        done: asyncio.Future[None] = self.environment.loop.create_future()
        left = len(waiting)

        def decided() -> None:
            nonlocal left
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        self.batches.hurry(1)
        try:
            for batch in waiting:
                batch.when_done(decided)
            self.sender.wake()
            await done
        finally:
            self.batches.hurry(-1)

    def metrics(self) -> dict[MetricName, float]:
        values = self.client.metrics.of_producer(self.environment.now_ms())
        return self.client.read_metrics("producer-metrics", values)

    async def close(self, timeout_ms: int | None) -> None:
        """Take no more, send what is there, and end; what is left after the time-out fails.

        A transaction that is open is aborted; one that is prepared stays so.
        """
        with self._lock:
            self.is_closed = True
            self._open.clear()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._finish()
            await self.reporter.push_last()
        except TimeoutError:
            pass
        finally:
            self.reporter.close()
            self.sender.close(TimedOutError("the producer was closed before the record was written"))
            self.client.close()

    async def _finish(self) -> None:
        transactions = self.sender.transactions
        if transactions is not None and transactions.state in (
            ProducerTxnState.IN_TRANSACTION,
            ProducerTxnState.ABORTABLE_ERROR,
        ):
            with contextlib.suppress(ClientError):  # its time-out will end it
                await transactions.abort(self.writes)
        await self.flush()


def _as_number(partition: Any) -> int:
    try:
        return index(partition)
    except TypeError:
        raise TypeError(f"a partition has to be a number, not {partition!r}") from None
