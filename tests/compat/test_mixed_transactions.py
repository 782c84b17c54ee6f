"""Transactions in a cluster of two systems: an Apache Kafka broker and a headrace broker, under either's
controller. The coordinator of a transaction is on one, its partitions and its group's coordinator on both:
they add partitions, verify them and send markers to each other, by both versions of the protocol.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.base.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.compat import prepare
from tests.compat.clients.external import Program
from tests.compat.clients.face import eventually
from tests.compat.either import Pair, System
from tests.compat.prepare import UnavailableError
from tests.compat.test_transactions import await_committed, await_read, committed_offsets, new_id
from tests.compat.writers import ConfluentWriter, JavaWriter, Writer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "shared"
SETTINGS = {
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(
    params=[
        pytest.param(("headrace", "kafka"), id="headrace's controller"),
        pytest.param(("kafka", "headrace"), id="Kafka's controller", marks=pytest.mark.slow),
    ]
)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Both systems, with a topic of two partitions, one led by each."""
    try:
        prepare.java_program()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    first: System
    second: System
    first, second = request.param
    with Pair(tmp_path, SETTINGS) as pair:
        pair.start(first, second)
        topic = NewTopic(TOPIC, 2, replica_assignment=[[1, 2], [2, 1]])
        admin = AdminClient({"bootstrap.servers": pair.bootstrap})
        admin.create_topics([topic])[TOPIC].result(60)
        yield pair


@pytest.fixture
def writers(pair: Pair) -> Iterator[list[Writer]]:
    """One by the rules of version 2, one by the older ones."""
    command = [*prepare.java_command(classes=prepare.java_program()), "Compat"]
    program = Program([*command, pair.bootstrap, "classic"])
    opened: list[Writer] = [JavaWriter(program, new_id()), ConfluentWriter(pair.bootstrap, new_id())]
    yield opened
    for writer in opened:
        writer.close()
    program.close()


def _has_group_coordinator(pair: Pair) -> bool:
    """To ask for one makes its topic. The leader that one system tells of may not know of it yet."""
    try:
        committed_offsets(pair, "g", TOPIC)
    except KafkaException:
        return False
    return True


def test_coordinator_and_partitions_are_on_different_systems(pair: Pair, writers: list[Writer]) -> None:
    expected: list[str] = []
    eventually(lambda: _has_group_coordinator(pair), "a coordinator for groups")
    for coordinator in (1, 2):
        for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
            pair.lead(topic, 1, coordinator if topic == TRANSACTIONS_TOPIC else 3 - coordinator)
        for number, writer in enumerate(writers):
            group = f"g-{coordinator}-{number}"
            for turn, ends in enumerate((writer.commit, writer.abort, writer.commit)):
                values = [f"{coordinator}-{number}-{turn}-{at}" for at in (0, 1)]
                writer.begin()
                for at, value in enumerate(values):
                    writer.send(TOPIC, at, value)
                writer.offsets(group, TOPIC, {0: turn, 1: turn})
                ends()
                expected += values if ends == writer.commit else []
            await_committed(pair, group, TOPIC, {0: 2, 1: 2})
        await_read(pair, TOPIC, sorted(expected))
    assert len(expected) == 16
