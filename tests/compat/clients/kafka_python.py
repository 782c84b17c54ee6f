"""kafka-python: pure Python, synchronous."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.compat.brokers import REPLICAS
from tests.compat.clients.face import (
    SESSION_MS,
    WAIT_SECONDS,
    Client,
    Record,
    RefusedError,
    check_code,
    eventually,
    refusal_of,
)
from tests.compat.clients.member import PolledMember
from tests.compat.clients.reading import Reading, records_of

EARLIEST, LATEST = -2, -1


class KafkaPython(Client):
    """The oldest Python client."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._members: dict[str, _Member] = {}

    def produce(self, topic: str, records: Sequence[Record], codec: str) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            max_request_size=10_000_000,
        )
        try:
            with _refusals():
                sent = [
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                return [each.get(WAIT_SECONDS).offset for each in sent]
        finally:
            producer.close(WAIT_SECONDS)

    def consume(
        self, topic: str, ends: Mapping[int, int], starts: Mapping[int, int] | None = None
    ) -> list[Record]:
        reading = Reading(starts or {at: low for at, (low, _) in self.bounds(topic).items()}, ends)
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, enable_auto_commit=False)
        places = [TopicPartition(topic, at) for at in reading.waiting_for]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, reading.starts[place.partition])
        while reading.waiting_for:
            reading.take(records_of(consumer.poll(timeout_ms=int(WAIT_SECONDS * 1000))))
        consumer.close()
        return reading.result()

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None)
        with _refusals(), contextlib.closing(consumer):
            places = [TopicPartition(topic, at) for at in self.describe_topic(topic)]
            found = consumer.offsets_for_times(dict.fromkeys(places, timestamp_ms))
            return {place.partition: answer.offset if answer else -1 for place, answer in found.items()}

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        with _refusals():
            places = [TopicPartition(topic, at) for at in self.describe_topic(topic)]
            low, high = (
                self._admin.list_partition_offsets(dict.fromkeys(places, spec)) for spec in (EARLIEST, LATEST)
            )
            return {place.partition: (low[place].offset, high[place].offset) for place in places}

    def join(self, member: str, group: str, topic: str) -> None:
        self._members[member] = _Member(self._bootstrap, group, topic)

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
            found = self._admin.list_group_offsets(group)[group]
            return {place.partition: each.offset for place, each in found.items() if place.topic == topic}

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        with _refusals():
            wanted = {"num_partitions": partitions, "replication_factor": REPLICAS, "configs": dict(config)}
            self._admin.create_topics({topic: wanted})

    def topics(self) -> list[str]:
        return sorted(self._admin.list_topics())

    def describe_topic(self, topic: str) -> dict[int, dict[str, Any]]:
        with _refusals():
            (found,) = self._admin.describe_topics([topic])
            check_code(found["error_code"], topic)
            return {
                each["partition_index"]: {
                    "leader": each["leader_id"],
                    "replicas": each["replica_nodes"],
                    "isr": each["isr_nodes"],
                }
                for each in found["partitions"]
            }

    def add_partitions(self, topic: str, count: int) -> None:
        with _refusals():
            self._admin.create_partitions({topic: count})

    def delete_topic(self, topic: str) -> None:
        with _refusals():
            self._admin.delete_topics([topic])

    def topic_config(self, topic: str) -> dict[str, str]:
        with _refusals():
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            found = self._admin.describe_configs([resource], config_filter="all")["topic"][topic]
            return {name: each["value"] for name, each in found.items()}

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        with _refusals():
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
            outcome = self._admin.alter_configs([resource])["topic"][topic]
            refused = re.match(r"\[Error (\d+)\]", outcome)  # the code is only in the text
            if refused:
                raise RefusedError(int(refused[1]), outcome)

    def cluster(self) -> dict[str, Any]:
        with _refusals():
            found = self._admin.describe_cluster()
            brokers = [[each["broker_id"], each["host"], each["port"]] for each in found["brokers"]]
            return {"controller": found["controller_id"], "brokers": brokers}

    def groups(self) -> list[str]:
        with _refusals():
            return sorted(each["group_id"] for each in self._admin.list_groups())

    def describe_group(self, group: str) -> dict[str, Any]:
        with _refusals():
            found = self._admin.describe_groups([group])[group]
            return {"state": found["group_state"], "members": len(found["members"])}

    def delete_group(self, group: str) -> None:
        with _refusals():
            outcome = self._admin.delete_groups([group])[group]
            if outcome != "OK":
                raise getattr(kafka_errors, outcome)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        with _refusals():
            self._admin.delete_records({TopicPartition(topic, at): offset for at, offset in before.items()})

    def close(self) -> None:
        for member in list(self._members):
            self.leave(member)
        self._admin.close()


class _Member(PolledMember):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
        )
        self._consumer.subscribe([topic])
        # A leader that joins before its view of the topic has arrived joins again by itself once it has:
        # a rebalance that no scenario asked for, and with 3.0.12 one that now and then never ends. Only the
        # coordinator inside the client knows when the view is there.
        view = self._consumer._coordinator
        eventually(lambda: view._metadata_snapshot.get(topic), f"kafka-python to know {topic}")
        self.begin()

    def poll(self) -> list[Record]:
        return records_of(self._consumer.poll(timeout_ms=50))

    def partitions(self) -> list[int]:
        return [place.partition for place in self._consumer.assignment()]

    def commit_now(self) -> None:
        places = self._consumer.assignment()
        with _refusals():
            self._consumer.commit(
                {place: OffsetAndMetadata(self._consumer.position(place), "", -1) for place in places}
            )

    def close_now(self) -> None:
        self._consumer.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise refusal_of(error) from error
