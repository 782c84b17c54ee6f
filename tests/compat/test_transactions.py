"""Transactions by libraries that we did not write: both versions of the protocol, and Apache Kafka's tools.

librdkafka, aiokafka and kafka-python add partitions themselves; the Java client leaves that to the broker.
"""

import re
import uuid
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat import prepare
from tests.compat.brokers import Broker, OutsideBroker
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.conftest import MakeTopic
from tests.compat.dump_check import check_files
from tests.compat.prepare import UnavailableError
from tests.compat.writers import PYTHON, ConfluentWriter, JavaWriter, Writer

TRANSACTIONS_COMMAND = "org.apache.kafka.tools.TransactionsCommand"

Open = Callable[[str], Writer]


@pytest.fixture(scope="module")
def java(broker: Broker) -> Iterator[Callable[[], Program]]:
    """One JVM for all, started when it is first needed."""
    started: list[Program] = []

    def program() -> Program:
        if not started:
            try:
                command = [*prepare.java_command(classes=prepare.java_program()), "Compat"]
            except UnavailableError as reason:
                pytest.skip(str(reason))
            started.append(Program([*command, broker.bootstrap, "classic"]))
        return started[0]

    yield program
    for each in started:
        each.close()


@pytest.fixture(params=[*PYTHON, pytest.param("java", marks=pytest.mark.java)])
def open_writer(
    request: pytest.FixtureRequest, broker: Broker, java: Callable[[], Program]
) -> Iterator[Open]:
    opened: list[Writer] = []

    def open_one(transactional_id: str) -> Writer:
        is_java = request.param == "java"
        writer = (
            JavaWriter(java(), transactional_id)
            if is_java
            else PYTHON[request.param](broker.bootstrap, transactional_id)
        )
        opened.append(writer)
        return writer

    yield open_one
    for writer in opened:
        writer.close()


def new_id() -> str:
    return f"x-{uuid.uuid4().hex[:8]}"


def read(broker: Broker, topic: str, *, committed: bool = True) -> list[str]:
    """All records of both partitions, as far as this kind of reader may see them."""
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, at, 0) for at in (0, 1)])
    found, ends = [], set()
    while len(ends) < 2:
        message = consumer.poll(60)
        assert message is not None, "the end of the partitions is not told"
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ends.add(message.partition())
        else:
            found.append(message.value().decode())
    consumer.close()
    return sorted(found)


def await_read(broker: Broker, topic: str, expected: list[str]) -> None:
    """What was committed is this and no more. A commit is answered when it is decided: the markers that let
    readers see it come after that.
    """
    eventually(lambda: read(broker, topic) == expected, lambda: f"{expected}: {read(broker, topic)}")


def await_committed(broker: Broker, group: str, topic: str, expected: dict[int, int]) -> None:
    """Of a transaction's offsets, too, the markers come after the answer."""
    eventually(
        lambda: committed_offsets(broker, group, topic) == expected,
        lambda: f"{expected}: {committed_offsets(broker, group, topic)}",
    )


def committed_offsets(broker: Broker, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    rows = consumer.committed([TopicPartition(topic, at) for at in (0, 1)], 60)
    consumer.close()
    return {row.partition: row.offset for row in rows if row.offset >= 0}


def test_what_was_committed_is_read_and_what_was_aborted_is_not(
    broker: Broker, make_topic: MakeTopic, open_writer: Open
) -> None:
    topic = make_topic(2)
    writer = open_writer(new_id())
    for turn, ends in enumerate((writer.commit, writer.abort, writer.commit)):
        writer.begin()
        for partition in (0, 1):
            writer.send(topic, partition, f"{turn}-{partition}")
        if turn == 2:
            await_read(broker, topic, ["0-0", "0-1"])
        ends()
    await_read(broker, topic, ["0-0", "0-1", "2-0", "2-1"])
    assert len(read(broker, topic, committed=False)) == 6


def test_offsets_are_committed_with_the_records_or_not_at_all(
    broker: Broker, make_topic: MakeTopic, open_writer: Open, group: str
) -> None:
    topic = make_topic(2)
    writer = open_writer(new_id())
    writer.begin()
    writer.send(topic, 0, "one")
    writer.offsets(group, topic, {0: 7, 1: 8})
    writer.commit()
    await_committed(broker, group, topic, {0: 7, 1: 8})
    writer.begin()
    writer.offsets(group, topic, {0: 9})
    writer.abort()
    await_committed(broker, group, topic, {0: 7, 1: 8})
    await_read(broker, topic, ["one"])


def test_a_zombie_is_fenced(broker: Broker, make_topic: MakeTopic, open_writer: Open) -> None:
    topic, name = make_topic(2), new_id()
    zombie = open_writer(name)
    zombie.begin()
    zombie.send(topic, 0, "lost")
    heir = open_writer(name)
    heir.begin()
    heir.send(topic, 0, "kept")
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|transition"):
        zombie.commit()
    heir.commit()
    await_read(broker, topic, ["kept"])


def test_a_transaction_outlives_the_broker(broker: Broker, make_topic: MakeTopic) -> None:
    """The broker is killed with a transaction open; its producer goes on and commits."""
    if isinstance(broker, OutsideBroker):
        pytest.skip("COMPAT_BOOTSTRAP names a broker that is not ours to kill")
    topic = make_topic(2)
    writer = ConfluentWriter(broker.bootstrap, new_id())
    writer.begin()
    writer.send(topic, 0, "before")
    broker.kill()
    broker.start()
    writer.send(topic, 1, "after")
    writer.commit()
    await_read(broker, topic, ["after", "before"])
    writer.close()


@pytest.mark.java
def test_apache_kafkas_tool_sees_transactions(
    broker: Broker, make_topic: MakeTopic, java: Callable[[], Program]
) -> None:
    def tool(*arguments: str) -> str:
        words = ["--bootstrap-server", broker.bootstrap, *arguments]
        done = java().ask("tool", main=TRANSACTIONS_COMMAND, arguments=words, stdin="")
        assert done["code"] == 0, done
        return str(done["out"])

    topic, name = make_topic(2), new_id()
    writer = JavaWriter(java(), name)
    writer.begin()
    writer.send(topic, 1, "open")
    assert re.search(rf"{name}\s+\d+\s+\d+\s+Ongoing", tool("list"))
    assert re.search(rf"{name}\s+\d+\s+\d+\s+Ongoing", tool("list", "--transactional-id-pattern", "x-.*"))
    assert name not in tool("list", "--duration-filter", "3600000")
    assert f"{topic}-1" in tool("describe", "--transactional-id", name)
    producers = tool("describe-producers", "--topic", topic, "--partition", "1")
    assert re.search(r"\s0\s*$", producers), "the offset where the open transaction starts"
    tool("find-hanging", "--topic", topic, "--max-transaction-timeout", "1")
    # By hand, as where no coordinator would do it.
    tool("abort", "--topic", topic, "--partition", "1", "--start-offset", "0")
    eventually(
        lambda: "None" in tool("describe-producers", "--topic", topic, "--partition", "1"), "the marker"
    )
    assert read(broker, topic) == []
    writer.close()


@pytest.mark.java
def test_apache_kafka_reads_every_file(broker: Broker) -> None:
    """Among them `__transaction_state`, by its own decoder, and `.txnindex`."""
    check_files(broker)
