"""The share consumers (KIP-932): `ShareConsumer` for programs with threads, `AsyncShareConsumer` on a loop.

    with ShareConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "jobs"}) as consumer:
        consumer.subscribe(["tasks"])
        while True:
            for record in consumer.poll(1.0):
                ...  # the next poll accepts it

A share group is a queue: any member gets any record, more members than partitions are of use, and a record
that nobody accepts in time is handed out again. With share.acknowledgement.mode=explicit the program says for
each record what shall become of it:

    for record in consumer.poll(1.0):
        try:
            work(record.value)
            consumer.acknowledge(record)
        except TryLater:
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        except Hopeless:
            consumer.acknowledge(record, AcknowledgeType.REJECT)

Every call of `ShareConsumer` is `AsyncShareConsumer`'s of the same name, waited for.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from headrace.base.ids import TopicPartition
from headrace.clients.config import share_consumer_config
from headrace.clients.errors import ClientError
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.background import SyncClient, calls, waits_for
from headrace.clients.internals.client_metrics import MetricName
from headrace.clients.internals.consumer.completed_fetch import Deserializer
from headrace.clients.internals.environment import ClientEnvironment, system_environment
from headrace.clients.internals.share.core import OnCommit, ShareConsumerCore, ShareRecord
from headrace.wire.schemas.share_fetch import AcknowledgeType


class AsyncShareConsumer:
    """Takes records out of a queue, on an event loop.

    Settings are Kafka's, as a mapping or as keywords with _ for dots. A deserializer makes a key or a value
    of bytes. One task at a time may use a consumer.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        environment: ClientEnvironment | None = None,
        **more: Any,
    ) -> None:
        config = share_consumer_config(settings, **more)
        environment = environment or system_environment(asyncio.get_running_loop(), config)
        self.core = ShareConsumerCore(
            environment, config, key_deserializer=key_deserializer, value_deserializer=value_deserializer
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        while True:
            for record in await self.poll(60.0):
                yield record

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Take records of these topics."""
        self.core.subscribe(tuple(names_of(topics)))

    @property
    def subscription(self) -> set[str]:
        """The topics that are subscribed to."""
        return set(self.core.membership.topics)

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that this member takes records of now; others may take of the same."""
        return set(self.core.membership.assigned)

    async def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> list[ShareRecord]:
        """Records that are held for this member; waits up to `timeout` seconds for the first.

        With share.acknowledgement.mode=implicit this accepts what the last poll gave.
        """
        return await self.core.poll(timeout * 1000, max_records)

    async def poll_arrow(self, timeout: float = 0.0, *, columns: Sequence[str] | None = None) -> Any:
        """All that is held for this member and was not polled, as a pyarrow.Table: the columns of
        `Consumer.poll_arrow` and delivery_count, or the `columns` asked for. Deserializers have no part in
        it. Needs pyarrow (pip install 'headrace[arrow]').
        """
        from headrace.clients.internals.share.tables import ColumnReader  # numpy and pyarrow

        reader = ColumnReader(columns)
        return reader.table(await self.core.poll_batches(timeout * 1000, reader.read))

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what shall become of a record; it is sent with the next poll or commit."""
        self.core.acknowledge({TopicPartition(record.topic, record.partition): [record.offset]}, kind)

    def acknowledge_arrow(self, table: Any, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say it of all rows of a table that `poll_arrow` gave, or of some: it goes by the columns topic,
        partition and offset. Where one of them is not held, nothing is said of any."""
        from headrace.clients.internals.share.tables import places_of

        self.core.acknowledge(places_of(table), kind)

    async def commit(self) -> dict[TopicPartition, ClientError | None]:
        """Send the acknowledgements; by partition None, or why they were not taken."""
        return await self.core.commit()

    def on_commit(self, callback: OnCommit | None) -> None:
        """Call this with the outcome of acknowledgements, as `commit` returns it, whenever some were sent."""
        self.core.on_commit = callback

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is held for this member; None before the first were fetched."""
        return self.core.lock_timeout_ms

    def metrics(self) -> dict[MetricName, float]:
        """What this consumer has done so far, by the names that Kafka's share consumer has for it."""
        return self.core.metrics()

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Send the acknowledgements, give back what is held, leave the group, and end."""
        await self.core.close(timeout_ms)


class ShareConsumer(SyncClient[AsyncShareConsumer]):
    """Takes records out of a queue, for programs with threads. Settings as for `AsyncShareConsumer`.

    One thread at a time may use a consumer; `on_commit`'s callback is called in the thread of its loop.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **more: Any,
    ) -> None:
        config = share_consumer_config(settings, **more)

        def make(environment: ClientEnvironment) -> AsyncShareConsumer:
            return AsyncShareConsumer(
                config.given,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                environment=environment,
            )

        super().__init__("headrace-share-consumer", config, make)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ShareRecord]:
        while True:
            yield from self.poll(60.0)

    subscribe = calls(AsyncShareConsumer.subscribe)
    poll = waits_for(AsyncShareConsumer.poll)
    poll_arrow = waits_for(AsyncShareConsumer.poll_arrow)
    acknowledge = calls(AsyncShareConsumer.acknowledge)
    acknowledge_arrow = calls(AsyncShareConsumer.acknowledge_arrow)
    commit = waits_for(AsyncShareConsumer.commit)
    on_commit = calls(AsyncShareConsumer.on_commit)
    metrics = calls(AsyncShareConsumer.metrics)

    @property
    def subscription(self) -> set[str]:
        """The topics that are subscribed to."""
        return self._async.subscription

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that this member takes records of now; others may take of the same."""
        return self._async.assignment

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is held for this member; None before the first were fetched."""
        return self._async.acquisition_lock_timeout_ms

    def close(self, timeout_ms: int = 30_000) -> None:
        """Send the acknowledgements, give back what is held, leave the group, and end."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.closing(self._background):
                self._background.run(self._async.close, timeout_ms)
