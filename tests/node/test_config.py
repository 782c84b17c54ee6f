"""What a node starts with: its own defaults, a file of Kafka's, and the command line on top."""

from pathlib import Path

import pytest

from headrace.node import config
from headrace.node.config import controller_port, load
from headrace.settings.definition import SettingError
from headrace.settings.not_yet import PRINCIPAL_BUILDER

# What Kafka 4 ships as config/server.properties, without its comments.
SHIPPED = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

# What a Kafka of ZooKeeper's days shipped.
WITH_ZOOKEEPER = """
broker.id=3
listeners=PLAINTEXT://localhost:9099
num.network.threads=3
log.dirs=/tmp/kafka-logs
offsets.topic.replication.factor=1
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=500
"""


@pytest.fixture
def properties_file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_a_single_node_needs_no_settings() -> None:
    config = load()
    assert config.node_id == 1
    assert config.roles == {"broker", "controller"}
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://127.0.0.1:9092",
        "CONTROLLER://127.0.0.1:0",
    ]
    assert config.list("controller.quorum.voters") == ("1@127.0.0.1:0",)
    assert config.log_dirs == ("data",)
    assert config.int("offsets.topic.replication.factor") == 1
    assert config.int("transaction.state.log.min.isr") == 1


def test_port_data_and_set() -> None:
    config = load(port=0, data="/somewhere", overrides={"num.partitions": "4"})
    assert [each.port for each in config.listeners] == [0, 0]
    assert config.log_dirs == ("/somewhere",)
    assert config.int("num.partitions") == 4


def test_set_goes_before_everything() -> None:
    config = load(data="/a", overrides={"log.dirs": "/b", "listeners": "PLAINTEXT://:9999", "node.id": "5"})
    assert config.log_dirs == ("/b",)
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://:9999",
        "CONTROLLER://127.0.0.1:0",
    ]
    assert config.list("controller.quorum.voters") == ("5@127.0.0.1:0",)


def test_the_file_that_kafka_ships(properties_file: Path) -> None:
    properties_file.write_text(SHIPPED)
    config = load(str(properties_file))
    assert [each.port for each in config.broker_listeners] == [9092]
    assert [each.port for each in config.controller_listeners] == [9093]
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)


def test_another_port_for_the_file_that_kafka_ships(properties_file: Path) -> None:
    properties_file.write_text(SHIPPED)
    config = load(str(properties_file), port=7000, data="/elsewhere")
    assert [each.port for each in config.listeners] == [7000, 9093]
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://localhost:7000"]
    assert config.log_dirs == ("/elsewhere",)


def test_a_file_from_the_days_of_zookeeper(properties_file: Path) -> None:
    properties_file.write_text(WITH_ZOOKEEPER)
    config = load(str(properties_file))
    assert config.node_id == 3
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://localhost:9099",
        "CONTROLLER://127.0.0.1:0",
    ]
    assert config.int("group.initial.rebalance.delay.ms") == 500


FILES = Path(__file__).parent / "properties"
NAMES_WITHOUT_EFFECT = {
    "zookeeper-2.8": {
        *("broker.id.generation.enable", "log.message.format.version", "log.unclean.leader.election.enable"),
        *("log.message.timestamp.difference.max.ms", "zookeeper.connect"),
        *("zookeeper.connection.timeout.ms", "zookeeper.set.acl"),
    },
    "migration-3.9": {
        *("zookeeper.connect", "zookeeper.metadata.migration.enable", "zookeeper.ssl.client.enable"),
        *("zookeeper.metadata.migration.min.batch.size", "control.plane.listener.name"),
        "password.encoder.secret",
    },
    "kraft-3.7": {
        *("log.message.downconversion.enable", "group.coordinator.new.enable"),
        *("offsets.commit.required.acks", "auto.include.jmx.reporter"),
    },
    "broker-3.9": {"eligible.leader.replicas.enable"},
    "kafka-4.3": set(),
    "broker-4.3": set(),
    "controller-4.3": set(),
    "bitnami": {"max.partition.fetch.bytes", "max.request.size"},
    "confluent-8": {"jmx.port"},
    "confluent-7": {"jmx.port", "jmx.hostname"},
    "operator": set(),
}


@pytest.mark.parametrize("name", NAMES_WITHOUT_EFFECT)
def test_the_file_of_any_kafka_is_taken(name: str) -> None:
    """Of a vendor's own names each is told, too."""
    file, told = FILES / f"{name}.properties", list[str]()
    load(str(file), warn=told.append)
    lines = file.read_text().splitlines()
    for warning in told:
        place, setting, _ = warning.split(": ", 2)
        path, _, number = place.rpartition(":")
        assert path == str(file)
        assert lines[int(number) - 1].startswith(f"{setting}=")
    vendors = ("confluent.", "cruise.control.")
    own = {each.partition("=")[0] for each in lines if each.startswith(vendors)}
    assert {each.split(": ")[1] for each in told} == NAMES_WITHOUT_EFFECT[name] | own


def test_a_warning_names_what_was_meant(properties_file: Path) -> None:
    properties_file.write_text("# mine\nnode.id=1\nlog.unclean.leader.election.enable=true\nx.y=1\n")
    told: list[str] = []
    config = load(str(properties_file), warn=told.append)
    unknown = "it has no effect: there is no broker setting of this name"
    meant = "did you mean unclean.leader.election.enable?"
    assert told == [
        f"{properties_file}:3: log.unclean.leader.election.enable: {unknown}; {meant}",
        f"{properties_file}:4: x.y: {unknown}.",
    ]
    assert "x.y" not in config.static
    assert not config.bool("unclean.leader.election.enable")


def test_strict_refuses_what_has_no_effect(properties_file: Path) -> None:
    properties_file.write_text(WITH_ZOOKEEPER + "x.y=1\n")
    with pytest.raises(SettingError) as caught:
        load(str(properties_file), strict=True)
    assert [each.split(": ")[1] for each in str(caught.value).splitlines()[1:]] == [
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "x.y",
    ]


def test_on_the_command_line_an_unknown_name_is_an_error(properties_file: Path) -> None:
    properties_file.write_text("num.partition=3\n")
    with pytest.raises(SettingError, match=r"^num\.partition: .*did you mean num\.partitions\?"):
        load(str(properties_file), overrides={"num.partition": "3"})


def test_wrong_settings_are_named(properties_file: Path) -> None:
    properties_file.write_text("node.id=1\nnum.partitions=many\n")
    with pytest.raises(SettingError, match=r"^num\.partitions: 'many' is not a .*server\.properties:2\)$"):
        load(str(properties_file))
    with pytest.raises(SettingError, match=r"^num\.partitions: 'many' is not a whole number"):
        load(overrides={"num.partitions": "many"})


@pytest.mark.parametrize(
    "overrides",
    [
        {"authorizer.class.name": "org.example.Authorizer"},
    ],
)
def test_what_is_not_built_is_refused_rather_than_ignored(overrides: dict[str, str]) -> None:
    with pytest.raises(SettingError) as caught:
        load(overrides=overrides)
    assert caught.value.setting in overrides


def test_a_file_of_an_operator_whose_doors_are_locked() -> None:
    file = str(FILES / "strimzi.properties")
    with pytest.raises(
        SettingError, match=r"REPLICATION-9091://0.0.0.0:9091 asks for SSL, which needs a key"
    ):
        load(file)
    config = load(file, {"ssl.keystore.location": "node.p12"})
    protocols = {each.name: each.protocol for each in config.listeners}
    assert protocols == {"REPLICATION-9091": "SSL", "PLAIN-9092": "PLAINTEXT", "TLS-9093": "SASL_SSL"}


def test_an_error_about_a_listener_names_it() -> None:
    with pytest.raises(SettingError) as caught:
        load(overrides={"listener.name.plaintext.max.connections": "x"})
    assert str(caught.value).startswith("listener.name.plaintext.max.connections: 'x'")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        load("/nowhere/server.properties")


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (9092, 19092),
        (29092, 19092),  # not 39092, which an outgoing connection of any program may have
        (45000, 55000),  # both are lent: whoever chose this port lives with that
        (60000, 50000),
        (0, 0),
    ],
)
def test_a_controllers_port_is_none_that_the_system_lends(
    monkeypatch: pytest.MonkeyPatch, port: int, expected: int
) -> None:
    monkeypatch.setattr(config, "LENT_PORTS_FILE", "/nowhere")
    assert controller_port(port) == expected


def test_the_system_says_which_ports_it_lends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "ip_local_port_range"
    file.write_text("20000\t25000\n")
    monkeypatch.setattr(config, "LENT_PORTS_FILE", str(file))
    assert controller_port(29_092) == 39_092
    assert controller_port(12_000) == 2_000
    assert controller_port(10_500) == 20_500  # below there are ports of the system's own services


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("create.topic.policy.class.name", "headrace acl"),
        ("alter.config.policy.class.name", "headrace acl"),
        ("principal.builder.class", "ssl.principal.mapping.rules"),
    ],
)
def test_a_class_that_would_have_to_be_asked_is_refused(name: str, instead: str) -> None:
    with pytest.raises(SettingError, match=r"org\.example\.Strict cannot be run") as refused:
        load(None, {name: "org.example.Strict"})
    assert refused.value.setting == name
    assert instead in str(refused.value)


def test_the_principal_builder_that_is_built_in_may_be_named() -> None:
    load(None, {"principal.builder.class": PRINCIPAL_BUILDER})
