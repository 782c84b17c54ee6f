"""Rights that are taken away from clients in the middle of their work: they are told which, others go on, and
with the rights they go on themselves. The other libraries' turn is in test_secure_clients.py.
"""

import asyncio
import ssl
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError as AiokafkaRefusal
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from headrace.clients import AclBinding, AclBindingFilter, Admin
from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"group.initial.rebalance.delay.ms": "0"}, secure=True) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(cluster.client_settings("admin")) as admin:
        admin.create_topic(name, partitions=1, replication_factor=1)
    return name


@contextmanager
def revoked(cluster: Cluster, operation: str, kind: str, name: str) -> Iterator[None]:
    """Without this right of `app` meanwhile."""
    with Admin(cluster.client_settings("admin")) as admin:
        admin.create_acls(AclBinding("User:app", operation, kind, name, permission="deny"))
        try:
            yield
        finally:
            admin.delete_acls(AclBindingFilter(resource_type=kind, resource_name=name, pattern="literal"))


def is_refused(cluster: Cluster, write: Callable[[], None], refusal: type[Exception]) -> bool:
    try:
        write()
    except refusal as told:
        text = f"{told!r} {told}"
        assert cluster.client_settings("app")["sasl.password"] not in text
        return True
    return False


def may_do(work: Callable[[], None], refusal: type[Exception]) -> bool:
    try:
        work()
    except refusal:
        return False
    return True


def confluent_write(settings: Settings, topic: str) -> Callable[[], None]:
    producer = Producer(settings | {"linger.ms": 0})

    def write() -> None:
        failed: list[KafkaError] = []
        producer.produce(topic, b"x", on_delivery=lambda error, _: error and failed.append(error))
        assert producer.flush(60) == 0
        if failed:
            assert failed[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, failed[0]
            raise KafkaException(failed[0])

    return write


def python_words(settings: Settings) -> Settings:
    return {
        "bootstrap_servers": settings["bootstrap.servers"],
        "security_protocol": settings["security.protocol"],
        "sasl_mechanism": settings["sasl.mechanisms"],
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
    }


def test_librdkafka_is_told_and_goes_on_with_its_rights(cluster: Cluster, topic: str) -> None:
    write = confluent_write(cluster.librdkafka_settings("app"), topic)
    other = confluent_write(cluster.librdkafka_settings("admin"), topic)
    write()
    with revoked(cluster, "write", "topic", topic):
        eventually(lambda: is_refused(cluster, write, KafkaException), "a refusal")
        other()
    eventually(lambda: may_do(write, KafkaException), "the right")


def test_kafka_python_is_told(cluster: Cluster, topic: str) -> None:
    """Its producer takes the refusal for final, and does not ask again."""
    settings = cluster.librdkafka_settings("app")
    producer = KafkaProducer(ssl_cafile=settings["ssl.ca.location"], **python_words(settings))

    def write() -> None:
        producer.send(topic, b"x").get(60)

    write()
    with revoked(cluster, "write", "topic", topic):
        eventually(lambda: is_refused(cluster, write, TopicAuthorizationFailedError), "a refusal")
    producer.close()


def test_aiokafka_is_told_and_goes_on_with_its_rights(cluster: Cluster, topic: str) -> None:
    settings = cluster.librdkafka_settings("app")
    context = ssl.create_default_context(cafile=settings["ssl.ca.location"])

    async def until(is_so: Callable[[bool], bool], producer: AIOKafkaProducer) -> None:
        while True:
            try:
                await producer.send_and_wait(topic, b"x")
            except AiokafkaRefusal:
                if is_so(False):
                    return
            else:
                if is_so(True):
                    return

    async def run() -> None:
        async with AIOKafkaProducer(ssl_context=context, **python_words(settings)) as producer:
            await producer.send_and_wait(topic, b"x")
            with revoked(cluster, "write", "topic", topic):
                await until(lambda could: not could, producer)
            await until(lambda could: could, producer)

    asyncio.run(asyncio.wait_for(run(), 240))


def test_a_consumer_hears_which_right_it_lost(cluster: Cluster, topic: str) -> None:
    settings = cluster.librdkafka_settings("app")
    confluent_write(settings, topic)()
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen: list[int] = []

    def hears(code: int) -> Callable[[], bool]:
        def is_told() -> bool:
            message = consumer.poll(0.1)
            if message is not None:
                error = message.error()
                seen.append(error.code() if error is not None else 0)
            return code in seen

        return is_told

    def may_commit() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise
            return False
        return True

    eventually(hears(0), "a record")
    with revoked(cluster, "read", "topic", topic):
        eventually(hears(KafkaError.TOPIC_AUTHORIZATION_FAILED), "a refusal of the topic")
    eventually(may_commit, "the right to the group")
    with revoked(cluster, "read", "group", topic):
        eventually(lambda: not may_commit(), "a refusal of the group")
    consumer.close()


def test_a_transaction_whose_right_is_gone_is_not_committed(cluster: Cluster, topic: str) -> None:
    settings = cluster.librdkafka_settings("app")
    producer = Producer(settings | {"transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"never seen")
    assert producer.flush(60) == 0
    with revoked(cluster, "write", "transactional_id", topic):
        with pytest.raises(KafkaException) as told:
            producer.commit_transaction(60)
        assert told.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # A new producer of the id ends what the former has left.
    after = Producer(settings | {"transactional.id": topic})
    after.init_transactions(60)
    after.begin_transaction()
    after.produce(topic, b"seen")
    after.commit_transaction(60)
    reader = Consumer(
        settings
        | {"group.id": f"{topic}-r", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    )
    reader.subscribe([topic])
    found: list[bytes] = []
    eventually(
        lambda: (
            found.extend(each.value() for each in reader.consume(10, 0.2) if not each.error()) or bool(found)
        ),
        "the record",
    )
    reader.close()
    assert found == [b"seen"]
