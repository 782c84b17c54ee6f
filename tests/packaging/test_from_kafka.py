"""A cluster of Apache Kafka becomes one of headrace, node by node and under load, by the steps of
docs/from-kafka.md; one node goes back on the way. A single node takes the same steps in the short form."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import SETTINGS, answers
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Record, eventually
from tests.compat.either import CLUSTER_ID, FLAGS
from tests.compat.faults.rolling import Load
from tests.compat.faults.topic import create_topic, differing
from tests.compat.samples import hour_ago_ms
from tests.packaging.machine import THIS_ENVIRONMENT, Machine, steps
from tests.packaging.systemctl import below

pytestmark = pytest.mark.java

PAGE = "from-kafka.md"
LOOK, MOVE = "1. Look before you move", "2. Move a node"
BACK, AFTER = "3. Go back, if you must", "4. Afterwards"
UNITS = ("kafka", "headrace")


class Cluster:
    """Machines with a node of Apache Kafka each, as its users have them."""

    def __init__(self, folder: Path, count: int) -> None:
        ports = free_ports(2 * count)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports[:count])
        voters = ",".join(f"{at + 1}@127.0.0.1:{ports[count + at]}" for at in range(count))
        self.machines = [Machine(folder / f"kafka-{at + 1}", self.bootstrap) for at in range(count)]
        for at, machine in enumerate(self.machines):
            machine.install(THIS_ENVIRONMENT)
            self._configure(machine, at + 1, ports[at], ports[count + at], voters, min(count, 3))

    def _configure(
        self, machine: Machine, number: int, port: int, controller_port: int, voters: str, replicas: int
    ) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{machine.root}/var/lib/kafka",
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": str(replicas),
        } | SETTINGS
        (machine.root / "etc/kafka").mkdir()
        file = machine.root / "etc/kafka/server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        tool = [*prepare.java_command(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        subprocess.run([*tool, "-c", str(file)], check=True, capture_output=True)
        command = shlex.join([*prepare.java_command(*FLAGS), "kafka.Kafka", str(file)])
        unit = machine.root / "etc/systemd/system/kafka.service"
        unit.write_text(f"[Service]\nType=exec\nExecStart={command}\n")

    def start(self) -> None:
        for machine in self.machines:
            machine.take("systemctl start kafka")
        for address in self.bootstrap.split(","):
            eventually(lambda address=address: answers(address), f"{address} answers")
        self.machines[0].take(f"headrace cluster await-sync --brokers {len(self.machines)}")

    def end(self) -> None:
        for machine in self.machines:
            machine.end(*UNITS)

    def take(self, machine: Machine, heading: str) -> None:
        """The document's cluster has three nodes."""
        for block in steps(PAGE, heading):
            machine.take(block.replace("--brokers 3", f"--brokers {len(self.machines)}"))


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        prepare.kafka_libs()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    made = Cluster(tmp_path, request.param)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_three_nodes_move_under_load(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap)
    load = Load(cluster.bootstrap)
    load.start()
    first = cluster.machines[0]
    for machine in cluster.machines:
        cluster.take(machine, LOOK)
    cluster.take(first, MOVE)
    load.get_on()
    cluster.take(first, BACK)
    load.get_on()
    for machine in cluster.machines:
        cluster.take(machine, MOVE)
        load.get_on()
        assert (machine.pid_of("kafka"), machine.pid_of("headrace") is None) == (None, False)
    cluster.take(first, AFTER)
    load.get_on()
    assert load.end() == []
    for machine in cluster.machines:
        machine.take("systemctl stop headrace")
    assert differing([machine.root / "var/lib/kafka" for machine in cluster.machines]) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_one_node_moves(cluster: Cluster) -> None:
    (machine,) = cluster.machines
    sent = [Record(0, hour_ago_ms() + at, b"k", b"%d" % at, ()) for at in range(20)]
    before = Confluent(cluster.bootstrap)
    before.create_topic("river", 1, {"retention.ms": "-1"})
    before.produce("river", sent, "none")
    before.close()
    cluster.take(machine, LOOK)
    cluster.take(machine, MOVE)
    after = Confluent(cluster.bootstrap)
    assert [each.value for each in after.consume("river", {0: 20})] == [each.value for each in sent]
    after.produce("river", sent, "none")
    after.close()
    cluster.take(machine, AFTER)
    machine.take("systemctl stop headrace")


def test_folders_of_the_document_are_the_machines_own() -> None:
    text = "cp /etc/kafka/a /opt/headrace-1/bin ./etc/x https://host/var/y"
    assert below(Path("/m"), text) == "cp /m/etc/kafka/a /m/opt/headrace-1/bin ./etc/x https://host/var/y"
