"""Two systems replicate to each other: an Apache Kafka broker registers with headrace's controller, follows
its leader, leads it, and gives the lead back. The logs of both are the same, byte for byte.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from headrace.base.ids import TopicPartition
from headrace.clients import Admin
from headrace.clients.administering.topics import PartitionDescription
from headrace.log.meta_properties import decode_meta_properties
from tests.compat import prepare
from tests.compat.brokers import ApacheKafkaBroker, HeadraceBroker, answers, free_ports
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError

pytestmark = pytest.mark.java

T = TopicPartition("shared", 0)
HEADRACE, KAFKA = 1, 2
RECORDS = 200


class KafkaFollower(ApacheKafkaBroker):
    """A broker without a controller: it finds headrace's."""

    def __init__(self, data: Path, controller_port: int, cluster_id: str) -> None:
        super().__init__(data, {"controller.quorum.voters": f"{HEADRACE}@127.0.0.1:{controller_port}"})
        self._cluster_id = cluster_id

    def _format(self, properties: Path) -> None:
        (port,) = free_ports(1)
        self.bootstrap = f"127.0.0.1:{port}"
        lines = {
            "process.roles": "broker",
            "node.id": str(KAFKA),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
        } | self.settings
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        tool = [*prepare.java_command(), "kafka.tools.StorageTool", "format"]
        tool += ["-t", self._cluster_id, "-c", str(properties)]
        subprocess.run(tool, check=True, capture_output=True)


class Both:
    """The two brokers, and somebody who writes to whoever leads."""

    def __init__(self, headrace: HeadraceBroker, kafka: KafkaFollower) -> None:
        self.headrace = headrace
        self.kafka = kafka
        self.admin = Admin(bootstrap_servers=headrace.bootstrap)

    def described(self) -> PartitionDescription:
        return self.admin.describe_topics([T.topic])[0].partitions[0]

    def lead(self, first: int, second: int) -> None:
        """Have the first one lead, once both are in sync."""
        assert not self.admin.reassign({T: [first, second]})
        eventually(
            lambda: not self.admin.list_reassignments() and set(self.described().isr) == {1, 2},
            lambda: f"both are in sync: {self.described()}",
        )
        self.admin.elect_leaders([T])
        eventually(lambda: self.described().leader == first, f"broker {first} leads")

    def write(self) -> None:
        failed: list[KafkaError] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        servers = f"{self.headrace.bootstrap},{self.kafka.bootstrap}"
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce(T.topic, b"%d" % number, on_delivery=told)
        assert producer.flush(60) == 0
        assert not failed

    def log_of(self, broker: HeadraceBroker | KafkaFollower) -> bytes:
        return (broker.partition_folder(*T) / "00000000000000000000.log").read_bytes()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    try:
        prepare.java_command()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    port, controller_port = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": f"{HEADRACE}@127.0.0.1:{controller_port}",
        "min.insync.replicas": "2",
    }
    with HeadraceBroker(tmp_path / "headrace", settings) as headrace:
        headrace.start()
        meta = decode_meta_properties((tmp_path / "headrace/meta.properties").read_bytes())
        with KafkaFollower(tmp_path / "kafka", controller_port, meta.cluster_id) as kafka:
            kafka.start()
            assert answers(kafka.bootstrap)
            both = Both(headrace, kafka)
            eventually(lambda: len(both.admin.describe_cluster().brokers) == 2, "both are registered")
            yield both
            both.admin.close()


def test_the_lead_goes_back_and_forth_and_the_logs_stay_the_same(both: Both) -> None:
    both.admin.create_topic(T.topic, partitions=1, replication=2)
    written = 0
    for first, second in ((HEADRACE, KAFKA), (KAFKA, HEADRACE), (HEADRACE, KAFKA)):
        both.lead(first, second)
        both.write()
        ours, theirs = both.log_of(both.headrace), both.log_of(both.kafka)
        assert len(ours) > written
        assert ours == theirs
        written = len(ours)
