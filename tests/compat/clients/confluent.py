"""confluent-kafka: librdkafka, the C client under most languages' clients."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.brokers import REPLICAS
from tests.compat.clients.face import SESSION_MS, WAIT_SECONDS, Client, Record, RefusedError
from tests.compat.clients.member import PolledMember
from tests.compat.clients.reading import Reading

READ_MANY = 500


class Confluent(Client):
    """The Python face of librdkafka; its groups by the classic protocol or by the one of KIP-848."""

    def __init__(
        self, bootstrap: str, group_protocol: str = "classic", settings: Mapping[str, Any] | None = None
    ) -> None:
        # Its log says only what the calls answer too, and goes on after the broker has stopped.
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0, **(settings or {})}
        self._group_settings: dict[str, Any] = {"group.protocol": group_protocol}
        if group_protocol == "classic":  # else the broker says how often
            self._group_settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
        self._admin = AdminClient(self._settings)
        self._members: dict[str, _Member] = {}

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[int]:
        producer = Producer(
            self._settings | {"compression.type": codec, "message.max.bytes": 10_000_000, "linger.ms": 5}
        )
        offsets = [-1] * len(records)
        errors: list[KafkaError] = []

        def note(at: int, error: KafkaError | None, message: Message) -> None:
            offsets[at] = message.offset()
            if error is not None:
                errors.append(error)

        for at, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=lambda error, message, at=at: note(at, error, message),
            )
        assert producer.flush(WAIT_SECONDS) == 0, "not all records were acknowledged in time"
        if errors:
            raise RefusedError(errors[0].code(), errors[0].str())
        return offsets

    def consume(
        self, topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None = None
    ) -> list[Record]:
        consumer = self._consumer("unused")
        reading = Reading(starts or {at: low for at, (low, _) in self.bounds(topic).items()}, ends)
        consumer.assign([Place(topic, at, reading.starts[at]) for at in reading.waiting_for])
        while reading.waiting_for:
            message = consumer.poll(WAIT_SECONDS)
            reading.take([] if message is None else [_record(message)])
        consumer.close()
        return reading.result()

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        with _refusals():
            spec = OffsetSpec.for_timestamp(timestamp_ms)
            answers = self._admin.list_offsets({Place(topic, at): spec for at in self.describe_topic(topic)})
            return {place.partition: answer.result(WAIT_SECONDS).offset for place, answer in answers.items()}

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        with _refusals():
            places = [Place(topic, at) for at in self.describe_topic(topic)]
            ends = []
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
                answers = self._admin.list_offsets(dict.fromkeys(places, spec))
                ends.append(
                    {place.partition: answer.result(WAIT_SECONDS).offset for place, answer in answers.items()}
                )
            return {at: (ends[0][at], ends[1][at]) for at in ends[0]}

    def join(self, member: str, group: str, topic: str) -> None:
        self._members[member] = _Member(self._consumer(group), topic)

    def assigned(self, member: str) -> list[int]:
        return self._members[member].assigned()

    def taken(self, member: str) -> list[Record]:
        return list(self._members[member].records)

    def commit(self, member: str) -> None:
        self._members[member].commit()

    def leave(self, member: str) -> None:
        self._members.pop(member).leave()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with _refusals():
            answer = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
            places = answer.result(WAIT_SECONDS).topic_partitions
            return {
                each.partition: each.offset for each in places if each.topic == topic and each.offset >= 0
            }

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._await(self._admin.create_topics([NewTopic(topic, partitions, REPLICAS, config=dict(config))]))

    def topics(self) -> list[str]:
        return sorted(self._admin.list_topics(timeout=WAIT_SECONDS).topics)

    def describe_topic(self, topic: str) -> dict[int, dict[str, Any]]:
        found = self._admin.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
        if found.error is not None:
            raise RefusedError(found.error.code(), found.error.str())
        return {
            at: {"leader": each.leader, "replicas": each.replicas, "isr": each.isrs}
            for at, each in found.partitions.items()
        }

    def add_partitions(self, topic: str, count: int) -> None:
        self._await(self._admin.create_partitions([NewPartitions(topic, count)]))

    def delete_topic(self, topic: str) -> None:
        self._await(self._admin.delete_topics([topic]))

    def topic_config(self, topic: str) -> dict[str, str]:
        with _refusals():
            resource = ConfigResource(ResourceType.TOPIC, topic)
            entries = self._admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
            return {name: entry.value for name, entry in entries.items()}

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        change = AlterConfigOpType.SET
        entries = [ConfigEntry(name, value, incremental_operation=change) for name, value in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._await(self._admin.incremental_alter_configs([resource]))

    def cluster(self) -> dict[str, Any]:
        with _refusals():
            found = self._admin.describe_cluster().result(WAIT_SECONDS)
            return {
                "controller": found.controller.id,
                "brokers": [[node.id, node.host, node.port] for node in found.nodes],
            }

    def groups(self) -> list[str]:
        with _refusals():
            return sorted(
                each.group_id for each in self._admin.list_consumer_groups().result(WAIT_SECONDS).valid
            )

    def describe_group(self, group: str) -> dict[str, Any]:
        with _refusals():
            found = self._admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
            return {"state": found.state.name.title(), "members": len(found.members)}

    def delete_group(self, group: str) -> None:
        self._await(self._admin.delete_consumer_groups([group]))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        self._await(self._admin.delete_records([Place(topic, at, offset) for at, offset in before.items()]))

    def close(self) -> None:
        for member in list(self._members):
            self.leave(member)

    def _consumer(self, group: str) -> Consumer:
        more = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer(self._settings | more | self._group_settings)

    @staticmethod
    def _await(answers: Mapping[Any, Any]) -> None:
        with _refusals():
            for answer in answers.values():
                answer.result(WAIT_SECONDS)


class _Member(PolledMember):
    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        consumer.subscribe([topic])
        self.begin()

    def poll(self) -> list[Record]:
        return [_record(message) for message in self._consumer.consume(READ_MANY, timeout=0.05)]

    def partitions(self) -> list[int]:
        return [place.partition for place in self._consumer.assignment()]

    def commit_now(self) -> None:
        read = [place for place in self._consumer.position(self._consumer.assignment()) if place.offset >= 0]
        self._consumer.commit(offsets=read, asynchronous=False)

    def close_now(self) -> None:
        self._consumer.close()


def _record(message: Message) -> Record:
    if message.error() is not None:
        raise RefusedError(message.error().code(), message.error().str())
    return Record(
        partition=message.partition(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        offset=message.offset(),
    )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise RefusedError(error.args[0].code(), error.args[0].str()) from error
