"""aiokafka: pure Python on asyncio. An event loop on a thread of its own runs it; calls here wait for it."""

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.compat.brokers import REPLICAS
from tests.compat.clients.face import SESSION_MS, WAIT_SECONDS, Client, Record, check_code, refusal_of
from tests.compat.clients.reading import Reading, records_of

T = TypeVar("T")


class Aiokafka(Client):
    """Its admin client alters configurations by the older request."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._members: dict[str, _Member] = {}
        self._admin = self._run(self._start_admin())

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[int]:
        return self._run(self._produce(topic, records, codec))

    def consume(
        self, topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None = None
    ) -> list[Record]:
        return self._run(self._consume(topic, ends, starts))

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        async def ask(consumer: AIOKafkaConsumer, places: list[TopicPartition]) -> dict[int, int]:
            found = await consumer.offsets_for_times(dict.fromkeys(places, timestamp_ms))
            return {place.partition: answer.offset if answer else -1 for place, answer in found.items()}

        return self._ask_consumer(topic, ask)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        async def ask(consumer: AIOKafkaConsumer, places: list[TopicPartition]) -> dict[int, tuple[int, int]]:
            low, high = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            return {place.partition: (low[place], high[place]) for place in places}

        return self._ask_consumer(topic, ask)

    def join(self, member: str, group: str, topic: str) -> None:
        consumer = self._run(self._start_consumer(topic, group_id=group))
        self._members[member] = _Member(consumer, self._loop)

    def assigned(self, member: str) -> list[int]:
        async def ask() -> list[int]:
            return sorted(place.partition for place in self._members[member].consumer.assignment())

        return self._run(ask())

    def taken(self, member: str) -> list[Record]:
        return list(self._members[member].records)

    def commit(self, member: str) -> None:
        self._run(self._members[member].commit())

    def leave(self, member: str) -> None:
        self._run(self._members.pop(member).leave())

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {place.partition: each.offset for place, each in found.items() if place.topic == topic}

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, partitions, REPLICAS, topic_configs=dict(config))
        for name, code, *message in self._run(self._admin.create_topics([wanted])).topic_errors:
            check_code(code, f"{name} {message}")

    def topics(self) -> list[str]:
        return sorted(self._run(self._admin.list_topics()))

    def describe_topic(self, topic: str) -> dict[int, dict[str, Any]]:
        (found,) = self._run(self._admin.describe_topics([topic]))
        check_code(found["error_code"], topic)
        return {
            each["partition"]: {"leader": each["leader"], "replicas": each["replicas"], "isr": each["isr"]}
            for each in found["partitions"]
        }

    def add_partitions(self, topic: str, count: int) -> None:
        self._run(self._admin.create_partitions({topic: NewPartitions(count)}))

    def delete_topic(self, topic: str) -> None:
        for name, code in self._run(self._admin.delete_topics([topic])).topic_error_codes:
            check_code(code, name)

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._run(self._admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = answer.resources
        check_code(code, message)
        return {name: value for name, value, *_ in entries}

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
        (answer,) = self._run(self._admin.alter_configs([resource]))
        ((code, message, _, _),) = answer.resources
        check_code(code, message)

    def cluster(self) -> dict[str, Any]:
        found = self._run(self._admin.describe_cluster())
        brokers = [[each["node_id"], each["host"], each["port"]] for each in found["brokers"]]
        return {"controller": found["controller_id"], "brokers": brokers}

    def groups(self) -> list[str]:
        return sorted(name for name, *_ in self._run(self._admin.list_consumer_groups()))

    def describe_group(self, group: str) -> dict[str, Any]:
        (answer,) = self._run(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, _, members, *_),) = answer.groups
        check_code(code, group)
        return {"state": state, "members": len(members)}

    def delete_group(self, group: str) -> None:
        raise AssertionError("aiokafka has no DeleteGroups; roster.py says so")

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, at): RecordsToDelete(offset) for at, offset in before.items()}
        self._run(self._admin.delete_records(wanted))

    def close(self) -> None:
        for member in list(self._members):
            self.leave(member)
        self._run(self._admin.close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS)
        except KafkaError as error:
            raise refusal_of(error) from error

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        return admin

    async def _start_consumer(self, *topics: str, **settings: Any) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            **settings,
        )
        await consumer.start()
        return consumer

    def _ask_consumer(self, topic: str, ask: Any) -> Any:
        places = [TopicPartition(topic, at) for at in self.describe_topic(topic)]

        async def work() -> Any:
            consumer = await self._start_consumer()
            try:
                return await ask(consumer, places)
            finally:
                await consumer.stop()

        return self._run(work())

    async def _produce(self, topic: str, records: Sequence[Record], codec: str) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            max_request_size=10_000_000,
        )
        await producer.start()
        try:
            sent: list[Awaitable[Any]] = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            return [(await each).offset for each in sent]
        finally:
            await producer.stop()

    async def _consume(
        self, topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None
    ) -> list[Record]:
        consumer = await self._start_consumer()
        try:
            places = [TopicPartition(topic, at) for at in ends]
            consumer.assign(places)
            begin = await consumer.beginning_offsets(places)
            reading = Reading(starts or {place.partition: begin[place] for place in places}, ends)
            for place in places:
                consumer.seek(place, reading.starts[place.partition])
            while reading.waiting_for:
                reading.take(records_of(await consumer.getmany(timeout_ms=int(WAIT_SECONDS * 1000))))
        finally:
            await consumer.stop()
        return reading.result()


class _Member:
    def __init__(self, consumer: AIOKafkaConsumer, loop: asyncio.AbstractEventLoop) -> None:
        self.consumer = consumer
        self.records: list[Record] = []
        self._reading = asyncio.run_coroutine_threadsafe(self._read(), loop)

    async def _read(self) -> None:
        while True:
            self.records += records_of(await self.consumer.getmany(timeout_ms=100))

    async def commit(self) -> None:
        await self.consumer.commit()

    async def leave(self) -> None:
        self._reading.cancel()
        await self.consumer.stop()
