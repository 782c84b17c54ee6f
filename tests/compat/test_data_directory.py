"""One data directory, two systems: each is started on what the other left behind, with the same file of
settings, and serves all of it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.clients import Admin, AuthenticationError
from headrace.security.sasl import scram
from headrace.transport.system_network import free_ports
from tests.compat import prepare
from tests.compat.brokers import SETTINGS, ApacheKafkaBroker, Broker, HeadraceBroker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import CODECS, Client, Record, RefusedError, eventually
from tests.compat.prepare import UnavailableError
from tests.compat.samples import hour_ago_ms, numbered

pytestmark = pytest.mark.java

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
PARTITIONS = 2
GROUPS = {"readers": "classic", "modern": "consumer"}
"""Groups and the protocol of their members."""

NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""What a broker says that is still coming up."""

TOPIC_CONFIG = {"retention.ms": "864000000", "min.insync.replicas": "1", "segment.bytes": "2000000"}


class Kafka(ApacheKafkaBroker):
    """Apache Kafka on a directory that is there already."""

    def __init__(self, data: Path, bootstrap: str) -> None:
        super().__init__(data)
        self.bootstrap = bootstrap


class Headrace(HeadraceBroker):
    """`headrace start --config` with the file that Apache Kafka is started with."""

    def start(self) -> None:
        assert self.data is not None
        said_before = self.log.stat().st_size if self.log.exists() else 0
        headrace = Path(sys.executable).with_name("headrace")
        self._spawn([str(headrace), "start", "--config", str(self.data.with_suffix(".properties"))])
        self._wait_for("line", lambda: b"headrace ready: " in self.log.read_bytes()[said_before:])


class Directory:
    """A folder of logs with the one file of settings that both systems take."""

    def __init__(self, data: Path) -> None:
        self.data = data
        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        lines = {
            "process.roles": "broker,controller",
            "node.id": "7",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"7@127.0.0.1:{controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data),
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": "1",
        } | SETTINGS
        self.properties = data.with_suffix(".properties")
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def format(self, *options: str) -> None:
        """As Apache Kafka's users do it before the first start."""
        command = [*prepare.java_command(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        subprocess.run([*command, "-c", str(self.properties), *options], check=True, capture_output=True)

    def kafka(self) -> Broker:
        return Kafka(self.data, self.bootstrap)

    def headrace(self) -> Broker:
        return Headrace(self.data)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    try:
        prepare.kafka_libs()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    return Directory(tmp_path / "data")


class Visit:
    """A user of the directory, whichever system serves it, who remembers all that was written: `records` and
    `configs` by topic, `committed` offsets by group.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.client: Client
        self.members: dict[str, Client] = {}
        self.records: dict[str, list[Record]] = {}
        self.committed: dict[str, dict[int, int]] = {}
        self.configs: dict[str, dict[str, str]] = {}

    @contextmanager
    def under(self, broker: Broker) -> Iterator[None]:
        """From the start of a broker to its clean stop. The client is a new one: librdkafka's admin may look
        for a coordinator that was restarted for longer than a test waits.
        """
        with broker:
            broker.start()
            self.client = Confluent(self._directory.bootstrap)
            self.members = {each: Confluent(self._directory.bootstrap, each) for each in GROUPS.values()}
            yield
            for client in (self.client, *self.members.values()):
                client.close()
            broker.stop()
        mark = json.loads((self._directory.data / ".kafka_cleanshutdown").read_text())
        assert mark.keys() == {"version", "brokerEpoch"}, "the proof that no record was lost"

    def make_topic(self, topic: str) -> None:
        self.client.create_topic(topic, PARTITIONS, TOPIC_CONFIG)
        self.configs[topic] = dict(TOPIC_CONFIG)
        self.records[topic] = []

    def write(self, topic: str) -> None:
        """Every codec, into every partition."""
        for codec in CODECS:
            sent = [
                Record(at % PARTITIONS, hour_ago_ms() + at, b"k%d" % at, codec.encode() * 50, (("h", b"v"),))
                for at in range(40)
            ]
            self.client.produce(topic, sent, codec)
            self.records[topic] += sent

    def change_config(self, topic: str, **changes: str) -> None:
        named = {name.replace("_", "."): value for name, value in changes.items()}
        self.client.alter_topic_config(topic, named)
        self.configs[topic] |= named

    def commit(self, topic: str) -> None:
        """A member of each group reads what its group has not committed yet, and commits it."""
        ends = self._ends(topic)
        for group, protocol in GROUPS.items():
            left = sum(ends.values()) - sum(self.committed.get(group, {}).values())
            _read_and_commit(self.members[protocol], group, topic, left)
            self.committed[group] = ends

    def check(self, topic: str) -> None:
        """All that anyone wrote is there, in the order and with the offsets of its writing."""
        ends = self._ends(topic)
        assert eventually(partial(self._bounds, topic), "leaders") == {
            at: (0, end) for at, end in ends.items()
        }
        assert self.client.consume(topic, ends) == numbered(self.records[topic])
        config = self.client.topic_config(topic)
        assert {name: config[name] for name in self.configs[topic]} == self.configs[topic]
        for group, offsets in self.committed.items():
            assert eventually(partial(self._committed, group, topic), "offsets") == offsets

    def _committed(self, group: str, topic: str) -> dict[int, int] | None:
        """None while the coordinator, which was just started, has not read its groups yet."""
        try:
            return self.client.committed(group, topic)
        except RefusedError as refusal:
            if refusal.code not in NOT_YET:
                raise
            return None

    def _bounds(self, topic: str) -> dict[int, tuple[int, int]] | None:
        """None while a broker that was just started tells of a leader that does not lead yet."""
        try:
            return self.client.bounds(topic)
        except RefusedError as refusal:
            if refusal.code not in NOT_YET:
                raise
            return None

    def _ends(self, topic: str) -> dict[int, int]:
        return {at: sum(each.partition == at for each in self.records[topic]) for at in range(PARTITIONS)}


def _read_and_commit(client: Client, group: str, topic: str, count: int) -> None:
    client.join("m", group, topic)
    eventually(lambda: len(client.taken("m")) >= count, "the rest of the topic")
    assert len(client.taken("m")) == count, "from the committed offsets on"
    client.commit("m")
    client.leave("m")


def test_a_directory_goes_from_apache_kafka_to_headrace_and_back(directory: Directory) -> None:
    directory.format()
    visit = Visit(directory)
    with visit.under(directory.kafka()):
        visit.make_topic("river")
        visit.make_topic("gone")
        visit.write("river")
        visit.commit("river")
        visit.change_config("river", max_message_bytes="700000")
    with visit.under(directory.headrace()):
        visit.check("river")
        visit.write("river")
        visit.commit("river")
        visit.change_config("river", retention_ms="777000000")
        visit.client.delete_topic("gone")
        visit.make_topic("lake")
        visit.write("lake")
    with visit.under(directory.kafka()):
        assert set(visit.client.topics()) - {"__consumer_offsets"} == {"river", "lake"}
        visit.check("river")
        visit.write("river")
        visit.commit("river")
        visit.committed.clear()
        visit.check("lake")


@pytest.mark.slow  # the way there and back has it in the middle
def test_a_directory_born_in_headrace_is_started_by_apache_kafka(directory: Directory) -> None:
    visit = Visit(directory)
    with visit.under(directory.headrace()):
        visit.make_topic("river")
        visit.write("river")
        visit.commit("river")
        visit.change_config("river", max_message_bytes="700000")
    with visit.under(directory.kafka()):
        visit.check("river")
        visit.write("river")
        visit.commit("river")


def test_users_that_apache_kafka_has_formatted_the_folder_with_log_in_here(directory: Directory) -> None:
    """`--add-scram`, with passwords and with what was made of one beforehand."""
    (port,) = free_ports(1)
    text = directory.properties.read_text()
    directory.properties.write_text(
        text.replace("listeners=", f"listeners=SASL_PLAINTEXT://127.0.0.1:{port},", 1).replace(
            "PLAINTEXT:PLAINTEXT", "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT", 1
        )
        + "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512\ninter.broker.listener.name=PLAINTEXT\n"
    )
    salt = b"salt that is given"
    salted = scram.salted_password("sha256", "carols-secret", salt, 8192)
    directory.format(
        *("--add-scram", "SCRAM-SHA-256=[name=alice,password=alices-secret]"),
        *("--add-scram", "SCRAM-SHA-512=[name=bob,iterations=8192,password=bobs-secret]"),
        "--add-scram",
        f"SCRAM-SHA-256=[name=carol,salt={scram.encode64(salt)},saltedpassword={scram.encode64(salted)},"
        "iterations=8192]",
    )

    def log_in(user: str, mechanism: str, password: str) -> None:
        settings = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
        login = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        with Admin(settings | login) as admin:
            admin.list_topics()

    with directory.headrace() as broker:
        broker.start()
        log_in("alice", "SCRAM-SHA-256", "alices-secret")
        log_in("bob", "SCRAM-SHA-512", "bobs-secret")
        log_in("carol", "SCRAM-SHA-256", "carols-secret")
        for user, mechanism, password in (
            ("alice", "SCRAM-SHA-256", "bobs-secret"),
            ("alice", "SCRAM-SHA-512", "alices-secret"),
        ):
            with pytest.raises(AuthenticationError):
                log_in(user, mechanism, password)
        broker.stop()
