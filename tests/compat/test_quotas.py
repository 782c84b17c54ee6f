"""Quotas as stock clients and Kafka's own tools meet them: set by kafka-configs, told to librdkafka, held to
by a producer that sends as fast as it can."""

import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat import prepare
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError
from tests.compat.stock_kafka import KAFKA_SLOWLY, running_either

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"

# Two windows of a second: so much of its rate may a client use at once, so that a short test sees the rate.
WINDOWS = 2
SETTINGS = {"quota.window.num": str(WINDOWS), "controller.quota.window.num": str(WINDOWS)}
RATE = 400_000
RECORDS, RECORD_BYTES = 2000, 1000

Tool = Callable[..., str]


@pytest.fixture(scope="module", params=KAFKA_SLOWLY)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_either(request.param, tmp_path_factory, SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    """Runs one of Kafka's tools and answers what it printed."""
    try:
        program = Program([*prepare.java_command(classes=prepare.java_program()), "Compat"])
    except UnavailableError as reason:
        pytest.skip(str(reason))

    def run(main: str, *words: str, code: int = 0) -> str:
        done = program.ask("tool", main=main, arguments=list(words), stdin="")
        said = str(done["out"]) + str(done["err"])
        assert done["code"] == code, f"{main} {' '.join(words)} ended with {done['code']}:\n{said}"
        return said

    yield run
    program.close()


def make_topic(bootstrap: str, name: str, partitions: int = 1, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **settings})
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result(30)


@pytest.mark.java
@pytest.mark.parametrize(
    ("entity", "told"),
    [
        (["--entity-type", "users", "--entity-name", "alice"], "user-principal 'alice'"),
        (["--entity-type", "users", "--entity-default"], "the default user-principal"),
        (["--entity-type", "clients", "--entity-name", "app"], "client-id 'app'"),
        (["--entity-type", "clients", "--entity-default"], "the default client-id"),
        (
            [
                "--entity-type",
                "users",
                "--entity-name",
                "alice",
                "--entity-type",
                "clients",
                "--entity-name",
                "a",
            ],
            "user-principal 'alice', client-id 'a'",
        ),
        (
            ["--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-default"],
            "the default user-principal, the default client-id",
        ),
    ],
)
def test_kafka_configs_sets_quotas(bootstrap: str, tool: Tool, entity: list[str], told: str) -> None:
    where = ["--bootstrap-server", bootstrap, *entity]
    limits = "producer_byte_rate=100000,consumer_byte_rate=200000,request_percentage=75.5"
    tool(CONFIG_COMMAND, *where, "--alter", "--add-config", limits)

    def described() -> str:
        said = tool(CONFIG_COMMAND, *where, "--describe")
        return said if "producer_byte_rate" in said else ""

    said = eventually(described, "the quota to be told")
    assert f"Quota configs for {told} are" in said
    assert set(re.findall(r"\w+=[\d.]+", said)) == {
        "producer_byte_rate=100000.0",
        "consumer_byte_rate=200000.0",
        "request_percentage=75.5",
    }
    names = "producer_byte_rate,consumer_byte_rate,request_percentage"
    tool(CONFIG_COMMAND, *where, "--alter", "--delete-config", names)
    eventually(lambda: "byte_rate" not in tool(CONFIG_COMMAND, *where, "--describe"), "the quota to be gone")


@pytest.mark.java
@pytest.mark.parametrize("name", [["--entity-name", "10.9.8.7"], ["--entity-default"]])
def test_kafka_configs_sets_quotas_of_addresses(bootstrap: str, tool: Tool, name: list[str]) -> None:
    where = ["--bootstrap-server", bootstrap, "--entity-type", "ips", *name]
    tool(CONFIG_COMMAND, *where, "--alter", "--add-config", "connection_creation_rate=5000")
    told = "connection_creation_rate=5000.0"
    eventually(lambda: told in tool(CONFIG_COMMAND, *where, "--describe"), "the quota to be told")
    tool(CONFIG_COMMAND, *where, "--alter", "--delete-config", "connection_creation_rate")
    eventually(lambda: told not in tool(CONFIG_COMMAND, *where, "--describe"), "the quota to be gone")


def is_held(seconds: float) -> bool:
    """Whether all records in this time are what the rate allows. A slow machine only makes it longer; without
    a quota it is a fraction of a second.
    """
    return RATE * 1.1 * (seconds + WINDOWS) >= RECORDS * RECORD_BYTES


@pytest.mark.java
def test_a_java_producer_is_held_to_its_rate(bootstrap: str, tool: Tool) -> None:
    make_topic(bootstrap, "perf")
    entity = ["--bootstrap-server", bootstrap, "--entity-type", "clients", "--entity-name", "perf"]
    tool(CONFIG_COMMAND, *entity, "--alter", "--add-config", f"producer_byte_rate={RATE}")
    properties = ["bootstrap.servers=" + bootstrap, "client.id=perf", "batch.size=16384"]
    said = tool(
        *(PERFORMANCE, "--topic", "perf", "--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES)),
        *("--throughput", "-1", "--producer-props", *properties),
    )
    found = re.findall(rf"{RECORDS} records sent, ([\d.]+) records/sec", said)
    assert found, said
    assert is_held(RECORDS / float(found[0])), said


def set_quota(bootstrap: str, tool: Tool, client: str, limit: str, value: float) -> None:
    entity = ["--bootstrap-server", bootstrap, "--entity-type", "clients", "--entity-name", client]
    tool(CONFIG_COMMAND, *entity, "--alter", "--add-config", f"{limit}={value}")
    eventually(lambda: limit in tool(CONFIG_COMMAND, *entity, "--describe"), "the quota to be told")


@pytest.mark.java
def test_librdkafka_is_told_and_held(bootstrap: str, tool: Tool) -> None:
    """Both ways: what is produced, and what is fetched."""
    make_topic(bootstrap, "told")
    set_quota(bootstrap, tool, "told-producer", "producer_byte_rate", RATE)
    set_quota(bootstrap, tool, "told-consumer", "consumer_byte_rate", RATE)
    told: list[float] = []
    common = {"bootstrap.servers": bootstrap, "throttle_cb": lambda event: told.append(event.throttle_time)}
    producer = Producer({**common, "client.id": "told-producer", "batch.size": 16384, "linger.ms": 5})
    began = time.monotonic()
    for _ in range(RECORDS):
        producer.produce("told", bytes(RECORD_BYTES), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert is_held(time.monotonic() - began)
    assert max(told) > 0.01
    told.clear()
    consumer = Consumer(
        {
            **common,
            "client.id": "told-consumer",
            "group.id": "told",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 100_000,
        }
    )
    began = time.monotonic()
    consumer.assign([TopicPartition("told", 0, 0)])
    for _ in range(RECORDS):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
    assert is_held(time.monotonic() - began)
    consumer.close()
    assert max(told) > 0.01


@pytest.mark.java
def test_a_client_without_a_quota_is_not_slowed_by_others(bootstrap: str, tool: Tool) -> None:
    make_topic(bootstrap, "beside")
    set_quota(bootstrap, tool, "slow", "producer_byte_rate", 20_000)
    slow = Producer({"bootstrap.servers": bootstrap, "client.id": "slow", "batch.num.messages": 10})
    for _ in range(3000):  # two and a half minutes at its rate
        slow.produce("beside", bytes(1000), partition=0)
    pushing = threading.Thread(target=slow.flush, args=(3,))
    pushing.start()
    free = Producer({"bootstrap.servers": bootstrap, "client.id": "free", "linger.ms": 0})
    for _ in range(2000):
        free.produce("beside", bytes(1000), partition=0)
    assert free.flush(60) == 0
    assert len(slow) > 0, "the other one was not held up at all"
    pushing.join()
    slow.purge()
    slow.flush(5)


@pytest.mark.java
def test_topics_are_made_at_their_rate(bootstrap: str, tool: Tool) -> None:
    """What overdraws the bucket is done; what comes then is refused, for a minute and a half here."""
    where = ["--bootstrap-server", bootstrap]
    entity = [*where, "--entity-type", "users", "--entity-default"]
    tool(CONFIG_COMMAND, *entity, "--alter", "--add-config", "controller_mutation_rate=0.2")
    eventually(
        lambda: "controller_mutation_rate" in tool(CONFIG_COMMAND, *entity, "--describe"),
        "the quota to be told",
    )
    create = [*where, "--create", "--partitions", "20", "--topic"]
    tool(TOPIC_COMMAND, *create, "made")
    refused = tool(TOPIC_COMMAND, *create, "refused", code=1)
    assert "The throttling quota has been exceeded." in refused
    tool(CONFIG_COMMAND, *entity, "--alter", "--delete-config", "controller_mutation_rate")
