"""What a node starts with: its own defaults, a file of Kafka's, and the command line on top."""

from pathlib import Path

import pytest

from headrace.node.config import controller_port, load
from headrace.settings.definition import SettingError

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
        "CONTROLLER://127.0.0.1:19092",
    ]
    assert config.list("controller.quorum.voters") == ("1@127.0.0.1:19092",)
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
        "CONTROLLER://127.0.0.1:19999",
    ]
    assert config.list("controller.quorum.voters") == ("5@127.0.0.1:19999",)


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
        "CONTROLLER://127.0.0.1:19099",
    ]
    assert config.int("group.initial.rebalance.delay.ms") == 500


def test_wrong_settings_are_named(properties_file: Path) -> None:
    properties_file.write_text(SHIPPED + "num.partition=3\n")
    with pytest.raises(SettingError, match=r"^num\.partition: .*did you mean num\.partitions\?"):
        load(str(properties_file))
    with pytest.raises(SettingError, match=r"^num\.partitions: 'many' is not a whole number"):
        load(overrides={"num.partitions": "many"})


@pytest.mark.parametrize(
    "overrides",
    [
        {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
        {"config.providers": "file"},
    ],
)
def test_what_is_not_built_is_refused_rather_than_ignored(overrides: dict[str, str]) -> None:
    with pytest.raises(SettingError) as caught:
        load(overrides=overrides)
    assert caught.value.setting in overrides


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        load("/nowhere/server.properties")


def test_a_controllers_port() -> None:
    assert controller_port(9092) == 19092
    assert controller_port(60000) == 50000
    assert controller_port(0) == 0
