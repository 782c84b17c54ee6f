"""Nodes that either system can run: one folder and one file of settings, which Apache Kafka and headrace
both take.

Node 1 is broker and controller, node 2 a broker that registers with it. Which system runs which is chosen
at every start, so that each can be the other's controller, leader and follower, and go on where the other
stopped."""

import subprocess
from pathlib import Path
from typing import Final, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, TopicPartitionInfo
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import Broker
from tests.compat.clients.face import eventually
from tests.compat.cluster import HEADRACE

System = Literal["headrace", "kafka"]
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
FLAGS: Final = ("-Xms256M", "-Xmx512M", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1")


class EitherNode(Broker):
    """A node's folder and settings, and whichever system runs on them."""

    clean_codes = (0, 143)  # a JVM that ends in order upon SIGTERM says 128 + 15

    def __init__(
        self, data: Path, settings: dict[str, str], bootstrap: str, login: dict[str, str] | None = None
    ) -> None:
        super().__init__(data, settings)
        self.bootstrap = bootstrap
        self._login = login or {}
        self.system: System = "headrace"

    @property
    def properties(self) -> Path:
        assert self.data is not None
        return self.data.with_suffix(".properties")

    def format(self, system: System) -> None:
        """Before the first start, as the system's own users do it."""
        self.system = system
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        tool = [HEADRACE, "format"]
        if system == "kafka":
            tool = [*prepare.java_command(), "kafka.tools.StorageTool", "format"]
        subprocess.run([*tool, "-t", CLUSTER_ID, "-c", str(self.properties)], check=True, capture_output=True)

    def start(self) -> None:
        if self.system == "headrace":
            self._spawn([HEADRACE, "start", "--config", str(self.properties)])
        else:
            self._spawn([*prepare.java_command(*FLAGS), "kafka.Kafka", str(self.properties)])
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0} | self._login)
        self._wait_for("answer", lambda: _answers(admin))

    def change_to(self, system: System) -> None:
        """Stop it in order, and start the other system on what it left."""
        self.stop()
        self.system = system
        self.start()


class Pair:
    """Two nodes, and an administrator who tells them who leads: with a login, in the words of librdkafka and
    of our own client, where the settings ask for one."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str],
        login: dict[str, str] | None = None,
        own_login: dict[str, str] | None = None,
    ) -> None:
        self._own_login = own_login or {}
        ports = free_ports(3)
        voters = f"1@127.0.0.1:{ports[2]}"
        controller = f",CONTROLLER://127.0.0.1:{ports[2]}"
        self.nodes = {}
        for number in (1, 2):
            clients = f"PLAINTEXT://127.0.0.1:{ports[number - 1]}"
            own = {
                "process.roles": "broker,controller" if number == 1 else "broker",
                "node.id": str(number),
                "listeners": clients + (controller if number == 1 else ""),
                "advertised.listeners": clients,
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": str(folder / f"node{number}"),
                "offsets.topic.num.partitions": "3",
                "offsets.topic.replication.factor": "2",
            }
            self.nodes[number] = EitherNode(
                folder / f"node{number}",
                own | settings,
                f"127.0.0.1:{ports[number - 1]}",
                login,
            )
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.__exit__()

    def start(self, first: System, second: System) -> None:
        for number, system in ((1, first), (2, second)):
            self.nodes[number].format(system)
            self.nodes[number].start()
        with self.admin() as admin:
            eventually(lambda: len(admin.describe_cluster().brokers) == 2, "both are registered")

    def stop(self) -> None:
        """The broker first: it hands over to the other one."""
        self.nodes[2].stop()
        self.nodes[1].stop()

    def admin(self) -> Admin:
        return Admin({"bootstrap.servers": self.bootstrap} | self._own_login)

    def lead(self, topic: str, partitions: int, first: int) -> None:
        """Have this node lead all partitions, once both are in sync."""
        places = [TopicPartition(topic, at) for at in range(partitions)]
        with self.admin() as admin:
            assert not admin.reassign({place: [first, 3 - first] for place in places})
            self.await_sync(admin, topic)
            admin.elect_leaders(places)
            eventually(
                lambda: {each.leader for each in _described(admin, topic)} == {first}, f"node {first} leads"
            )

    def await_sync(self, admin: Admin, topic: str) -> None:
        eventually(
            lambda: (
                not admin.list_reassignments()
                and all(set(each.isr) == {1, 2} for each in _described(admin, topic))
            ),
            lambda: f"both are in sync: {_described(admin, topic)}",
        )


def _described(admin: Admin, topic: str) -> list[TopicPartitionInfo]:
    return list(admin.describe_topics([topic])[0].partitions)


def _answers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return False
