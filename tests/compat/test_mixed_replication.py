"""Two systems are one cluster: an Apache Kafka broker registers with headrace's controller, and a headrace
broker with Kafka's; each follows the other and leads it, under load. Nothing is lost or doubled, and the
logs of both are the same, byte for byte. A node's folder goes from one system to the other while its
cluster works."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import prepare
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import eventually
from tests.compat.either import Pair, System
from tests.compat.faults import checker
from tests.compat.faults.writers import AiokafkaWriter, ConfluentWriter, Writer
from tests.compat.prepare import UnavailableError

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "shared"
PARTITIONS = 2
BETWEEN = 40  # records that each producer gets through between two changes


class Load:
    """Producers of two libraries, which go on whoever leads; and the verdict."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        args = (pair.bootstrap, TOPIC, PARTITIONS, 150.0)
        self._writers: list[Writer] = [ConfluentWriter(*args), AiokafkaWriter(*args)]

    def start(self) -> None:
        for writer in self._writers:
            writer.start()
        self.get_on()

    def get_on(self) -> None:
        goals = {each.name: len(each.acknowledged) + BETWEEN for each in self._writers}
        eventually(
            lambda: all(each.trouble or len(each.acknowledged) >= goals[each.name] for each in self._writers),
            lambda: f"answers: { {each.name: (len(each.acknowledged), goals) for each in self._writers} }",
        )

    def judge(self) -> None:
        """Everything is there once and in order, and no producer saw an error; both nodes stop."""
        for writer in self._writers:
            writer.stop()
        eventually(lambda: all(each.is_done for each in self._writers), "every producer has its answers")
        with self._pair.admin() as admin:
            self._pair.await_sync(admin, TOPIC)
        client = Confluent(self._pair.bootstrap)
        ends = {at: end for at, (_, end) in client.bounds(TOPIC).items()}
        log: dict[int, list[tuple[int, bytes]]] = {at: [] for at in ends}
        for record in client.consume(TOPIC, ends):
            log[record.partition].append((record.offset, record.value or b""))
        told = [each.told for each in self._writers]
        assert checker.check(told, log, {}) == []
        assert [each.trouble for each in self._writers] == [None, None]
        assert all(each.sent == len(each.acknowledged) for each in self._writers)
        self._pair.stop()
        for partition in range(PARTITIONS):
            ours, theirs = (_log_of(self._pair, number, partition) for number in (1, 2))
            assert len(ours) > 0
            assert ours == theirs


def _log_of(pair: Pair, number: int, partition: int) -> bytes:
    folder = pair.nodes[number].partition_folder(TOPIC, partition)
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        prepare.kafka_libs()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with Pair(tmp_path, {"min.insync.replicas": "1"}) as pair:
        yield pair


@pytest.mark.parametrize(
    ("first", "second"),
    [("headrace", "kafka"), pytest.param("kafka", "headrace", marks=pytest.mark.slow)],
)
def test_the_lead_goes_back_and_forth_under_load(pair: Pair, first: System, second: System) -> None:
    pair.start(first, second)
    with pair.admin() as admin:
        admin.create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=2, configs={"min.insync.replicas": "2"}
        )
    load = Load(pair)
    load.start()
    for leader in (1, 2, 1, 2, 1):
        pair.lead(TOPIC, PARTITIONS, leader)
        load.get_on()
    load.judge()


@pytest.mark.slow
def test_folders_go_from_one_system_to_the_other_under_load(pair: Pair) -> None:
    """Each node in turn, there and back, while producers write to whoever is there."""
    pair.start("headrace", "kafka")
    with pair.admin() as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
    load = Load(pair)
    load.start()
    for number, system in ((2, "headrace"), (1, "kafka"), (2, "kafka"), (1, "headrace")):
        pair.nodes[number].change_to(system)
        with pair.admin() as admin:
            pair.await_sync(admin, TOPIC)
        pair.lead(TOPIC, PARTITIONS, number)
        load.get_on()
    load.judge()
