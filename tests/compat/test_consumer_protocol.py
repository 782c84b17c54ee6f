"""librdkafka in groups whose broker assigns (KIP-848): many members, one more, one less, dead ones, restarts,
patterns, and groups that change from one protocol to the other while they run.
"""

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from headrace.clients import Admin
from tests.compat import brokers
from tests.compat.brokers import Broker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Record, eventually
from tests.compat.clients.member import PolledMember
from tests.compat.dump_check import check_files
from tests.compat.samples import hour_ago_ms

PARTITIONS = 100
EACH = 3
# A group whose sessions are as short as a test can wait for sets that itself: all others may be held up by a
# busy machine. Both brokers refuse it unless their limit is lowered.
SHORT_SESSION_MS = "8000"
SETTINGS = {
    "group.consumer.min.session.timeout.ms": SHORT_SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with brokers.under_test(tmp_path_factory.mktemp("broker"), SETTINGS) as started:
        started.start()
        yield started
        started.stop()


class Member(PolledMember):
    """A consumer on a thread of its own, which remembers what was taken from it."""

    def __init__(self, broker: Broker, group: str, topic: str, **settings: Any) -> None:
        settings = {"group.protocol": "consumer"} | settings
        self.revoked: list[int] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_revoke=self._note_revoked)
        self.begin()

    def _note_revoked(self, consumer: Consumer, places: list[Place]) -> None:
        self.revoked += [place.partition for place in places]

    def poll(self) -> list[Record]:
        messages = self._consumer.consume(500, 0.02)
        return [
            Record(each.partition(), 0, None, each.value(), offset=each.offset())
            for each in messages
            if each.error() is None
        ]

    def partitions(self) -> list[int]:
        return [each.partition for each in self._consumer.assignment()]

    @property
    def is_in(self) -> bool:
        return not self._is_leaving

    def topics(self) -> set[str]:
        found: set[str] = self._call(lambda: {each.topic for each in self._consumer.assignment()})
        return found

    def commit_now(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # Its partitions were read to their ends by who had them before.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def close_now(self) -> None:
        self._consumer.close()


Join = Callable[..., Member]


@pytest.fixture
def join(broker: Broker) -> Iterator[Join]:
    """Starts members; whoever is still there at the end leaves."""
    members: list[Member] = []

    def start(group: str, topic: str, **settings: Any) -> Member:
        members.append(Member(broker, group, topic, **settings))
        return members[-1]

    yield start
    for member in members:
        if member.is_in:
            member.leave()


def _fill(broker: Broker, topic: str, partitions: int, each: int = EACH) -> set[bytes]:
    values = range(partitions * each)
    records = [
        Record(at % partitions, hour_ago_ms(), b"key", b"%s-%d" % (uuid.uuid4().bytes, at)) for at in values
    ]
    Confluent(broker.bootstrap).produce(topic, records, "lz4")
    return {record.value or b"" for record in records}


def _share(members: list[Member]) -> list[list[int]]:
    return [member.assigned() for member in members]


def _await_even(members: list[Member], partitions: int) -> None:
    """Until every partition has one owner, and no member has two more than another."""

    def is_even() -> bool:
        owned = _share(members)
        sizes = [len(each) for each in owned]
        together = sorted(at for each in owned for at in each)
        return together == list(range(partitions)) and max(sizes) - min(sizes) <= 1

    eventually(is_even, f"{len(members)} members to share {partitions} partitions")


def _await_values(members: list[Member], values: set[bytes]) -> None:
    def have_all() -> bool:
        return values <= {record.value for member in members for record in member.records}

    eventually(have_all, f"members to read {len(values)} records")


def test_ten_members_an_eleventh_and_one_that_leaves(
    broker: Broker, make_topic: Callable[..., str], group: str, join: Join
) -> None:
    topic = make_topic(PARTITIONS)
    first = _fill(broker, topic, PARTITIONS)
    members = [join(group, topic) for _ in range(10)]
    _await_even(members, PARTITIONS)
    _await_values(members, first)
    for member in members:
        member.commit()
        member.revoked.clear()

    members.append(join(group, topic))
    _await_even(members, PARTITIONS)
    moved = sorted(at for member in members for at in member.revoked)
    assert moved == members[-1].assigned(), "only what the new member got was taken from the others"

    second = _fill(broker, topic, PARTITIONS)
    _await_values(members, second)
    for member in members:
        member.commit()
        member.revoked.clear()
    read = [record.value for member in members for record in member.records if record.value in second]
    assert len(read) == len(second), "nobody reads what another has"
    members.pop(0).leave()
    _await_even(members, PARTITIONS)
    assert not [at for member in members for at in member.revoked], "those who stay lose nothing"

    offsets = Confluent(broker.bootstrap).committed(group, topic)
    assert offsets == dict.fromkeys(range(PARTITIONS), 2 * EACH)


DOOMED = """
import sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer",
                     "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
consumer.subscribe([topic])
while True:
    consumer.poll(0.1)
"""


@pytest.fixture
def doomed(broker: Broker) -> Iterator[Callable[[str, str], "subprocess.Popen[bytes]"]]:
    """Members in processes of their own, which can be stopped in the middle of anything."""
    started: list[subprocess.Popen[bytes]] = []

    def start(group: str, topic: str) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen([sys.executable, "-c", DOOMED, broker.bootstrap, group, topic]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_member_that_dies_and_one_that_freezes(
    broker: Broker,
    make_topic: Callable[..., str],
    group: str,
    join: Join,
    doomed: Callable[[str, str], "subprocess.Popen[bytes]"],
) -> None:
    topic = make_topic(6)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs("group", group, set_to={"consumer.session.timeout.ms": SHORT_SESSION_MS})
    survivor = join(group, topic)
    killed, frozen = doomed(group, topic), doomed(group, topic)
    eventually(lambda: len(survivor.assigned()) == 2, "three members to share")
    killed.kill()
    eventually(lambda: len(survivor.assigned()) == 3, "the dead member's partitions to be given out")
    frozen.send_signal(signal.SIGSTOP)
    eventually(lambda: len(survivor.assigned()) == 6, "the frozen member's partitions to be given out")
    values = _fill(broker, topic, 6)
    _await_values([survivor], values)
    survivor.commit()
    frozen.send_signal(signal.SIGCONT)
    eventually(lambda: len(survivor.assigned()) == 3, "the member that was frozen to come back")
    assert Confluent(broker.bootstrap).committed(group, topic) == dict.fromkeys(range(6), EACH)


def test_members_go_on_after_the_broker_was_killed(
    broker: Broker, make_topic: Callable[..., str], group: str, join: Join
) -> None:
    topic = make_topic(4)
    members = [join(group, topic), join(group, topic, **{"group.instance.id": "static"})]
    _await_even(members, 4)
    _await_values(members, _fill(broker, topic, 4))
    for member in members:
        member.commit()
        member.revoked.clear()
    before = _share(members)
    if broker.data is not None:
        broker.kill()
        broker.start()
    _await_values(members, _fill(broker, topic, 4))
    assert _share(members) == before
    assert not [at for member in members for at in member.revoked]
    for member in members:
        member.commit()
    assert Confluent(broker.bootstrap).committed(group, topic) == dict.fromkeys(range(4), 2 * EACH)


def test_a_pattern_takes_in_topics_that_come_later(
    broker: Broker, make_topic: Callable[..., str], group: str, join: Join
) -> None:
    first = make_topic(1)
    member = join(group, f"^{first}.*", **{"topic.metadata.refresh.interval.ms": 1000})
    eventually(lambda: member.topics() == {first}, "the topic that the pattern matches")
    if broker.data is not None and isinstance(broker, brokers.ApacheKafkaBroker):
        return  # Kafka looks again after ten minutes at the latest
    Confluent(broker.bootstrap).create_topic(f"{first}-more", 1, {})
    eventually(lambda: member.topics() == {first, f"{first}-more"}, "the topic that came later")


def test_a_static_member_that_restarts_moves_nothing(
    make_topic: Callable[..., str], group: str, join: Join
) -> None:
    topic = make_topic(6)
    seat = {"group.instance.id": "seat"}
    members = [join(group, topic, **seat), join(group, topic)]
    _await_even(members, 6)
    before = _share(members)
    members[1].revoked.clear()
    members[0].leave()
    members[0] = join(group, topic, **seat)
    _await_even(members, 6)
    assert _share(members) == before
    assert members[1].revoked == []


CLASSIC = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 300,
    "session.timeout.ms": 45_000,
}


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_live_group_moves_to_the_new_protocol_and_back(
    broker: Broker, make_topic: Callable[..., str], group: str, join: Join, strategy: str
) -> None:
    classic = CLASSIC | {"partition.assignment.strategy": strategy}
    topic = make_topic(6)
    # One member: from the second rebalance on, librdkafka's leader writes its sticky assignor's user data
    # into assignments, and a group that has some is not moved, here and on Kafka.
    old = [join(group, topic, **classic)]
    _await_even(old, 6)
    values = _fill(broker, topic, 6)
    _await_values(old, values)
    old[0].commit()

    new = join(group, topic)
    _await_even([*old, new], 6)
    old.append(join(group, topic, **classic))
    _await_even([*old, new], 6)
    more = _fill(broker, topic, 6)
    _await_values([*old, new], more)
    for member in (*old, new):
        member.commit()
    old[0].leave()
    _await_even([old[1], new], 6)

    new.leave()
    _await_even([old[1]], 6)
    old.append(join(group, topic, **classic))
    _await_even(old[1:], 6)
    last = _fill(broker, topic, 6)
    _await_values(old[1:], last)
    for member in old[1:]:
        member.commit()
    assert Confluent(broker.bootstrap).committed(group, topic) == dict.fromkeys(range(6), 3 * EACH)


@pytest.mark.java
def test_apache_kafka_reads_every_record(broker: Broker) -> None:
    check_files(broker)
