"""A broker's settings: layers, types, names that are taken and names that are not, rules between settings."""

import pytest

from headrace.settings.broker import BROKER
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.changes import check_broker_settings, check_group_settings, check_topic_settings
from headrace.settings.definition import ConfigSource, SettingError

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def test_typed_values() -> None:
    config = BrokerConfig({**NODE, "num.partitions": "6", "log.dirs": "/a,/b"})
    assert config.int("num.partitions") == 6
    assert config.int("message.max.bytes") == 1048588
    assert config.bool("auto.create.topics.enable") is True
    assert config.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.str("compression.type") == "producer"
    assert config.str("broker.rack") == ""
    assert config.get("broker.rack") is None
    assert config.list("log.dirs") == ("/a", "/b")
    assert config.list("advertised.listeners") == ()
    assert config.log_dirs == ("/a", "/b")
    assert config.metadata_log_dir == "/a"


def test_the_nodes_number_may_come_by_its_older_name() -> None:
    properties = {name: text for name, text in NODE.items() if name != "node.id"}
    assert BrokerConfig({**properties, "broker.id": "7"}).node_id == 7


def test_layers_and_their_order() -> None:
    config = BrokerConfig({**NODE, "num.io.threads": "2"})
    assert config.source("num.io.threads") is ConfigSource.STATIC
    changed = config.set_dynamic(broker={}, default={"num.io.threads": "3", "log.retention.ms": "5"})
    assert changed == {"num.io.threads", "log.retention.ms"}
    assert config.int("num.io.threads") == 3
    assert config.source("num.io.threads") is ConfigSource.DYNAMIC_DEFAULT
    changed = config.set_dynamic(broker={"num.io.threads": "4"}, default={"num.io.threads": "3"})
    assert changed == {"num.io.threads", "log.retention.ms"}
    assert config.int("num.io.threads") == 4
    assert config.source("num.io.threads") is ConfigSource.DYNAMIC_BROKER
    assert config.source("num.partitions") is ConfigSource.DEFAULT


def test_a_dynamic_value_that_cannot_be_read_counts_as_not_set() -> None:
    config = BrokerConfig(NODE)
    assert not config.set_dynamic(broker={"num.io.threads": "many", "gone.in.this.version": "1"}, default={})
    assert config.int("num.io.threads") == 8


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.external.ssl.keystore.location",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
        "listener.name.internal.anything",
        "rsm.config.bucket",
        "rlmm.config.remote.log.metadata.topic.num.partitions",
        "create.topic.policy.minimum",
        "client.quota.callback.static.produce",
        "zookeeper.connect",
        "zookeeper.ssl.client.enable",
        "super.users",
        "inter.broker.protocol.version",
    ],
)
def test_names_beside_kafkas_own_that_are_taken(name: str) -> None:
    assert BrokerConfig({**NODE, name: "x"}).get(name) == "x"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("log.retention.hour", "log.retention.hours"),
        ("num.partition", "num.partitions"),
        ("advertised.listener", "advertised.listeners"),
        ("sasl.login.refersh.window.jitter", "sasl.login.refresh.window.jitter"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig({**NODE, name: "1"})
    assert caught.value.setting == name
    assert f"did you mean {meant}?" in str(caught.value)


def test_a_name_like_no_other_has_no_suggestion() -> None:
    with pytest.raises(SettingError, match=r"^qqqqq: there is no broker setting of this name$"):
        BrokerConfig({**NODE, "qqqqq": "1"})


@pytest.mark.parametrize("missing", ["process.roles", "node.id", "controller.listener.names"])
def test_what_a_node_cannot_start_without(missing: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig({name: text for name, text in NODE.items() if name != missing})
    assert caught.value.setting == missing


def test_settings_without_effect_say_so() -> None:
    for name in ("num.network.threads", "num.io.threads", "ssl.provider", "metric.reporters"):
        assert BROKER[name].effect


def test_dynamic_changes_are_checked_first() -> None:
    config = BrokerConfig(NODE)

    def refused(settings: dict[str, str], *, per_broker: bool) -> str:
        wrong = check_broker_settings(
            config, settings, before={}, per_broker=per_broker, changed=frozenset(settings)
        )
        return wrong.setting if wrong else ""

    assert not refused({"log.retention.ms": "5000"}, per_broker=False)
    assert not refused({"log.retention.ms": "5000"}, per_broker=True)
    assert refused({"log.retention.ms": "soon"}, per_broker=True) == "log.retention.ms"
    assert refused({"log.retention.ms": "0"}, per_broker=True) == "log.retention.ms"
    assert refused({"node.id": "5"}, per_broker=True) == "node.id"
    assert refused({"listeners": "PLAINTEXT://:1"}, per_broker=False) == "listeners"
    assert refused({"ssl.keystore.location": "/x"}, per_broker=True) == "ssl.keystore.location"
    assert not refused({"listener.name.plaintext.ssl.keystore.location": "/x"}, per_broker=True)
    assert refused({"log.retention.msx": "1"}, per_broker=True) == "log.retention.msx"
    assert not refused({"num.io.threads": "16", "log.cleaner.threads": "0"}, per_broker=True)
    assert refused({"num.io.threads": "17"}, per_broker=True) == "num.io.threads"
    assert refused({"num.io.threads": "3"}, per_broker=False) == "num.io.threads"
    week = "604800000"
    assert not refused({"log.local.retention.ms": week}, per_broker=False)
    assert refused({"log.local.retention.ms": week + "0"}, per_broker=False) == "log.local.retention.ms"
    assert refused({"log.local.retention.ms": "-1"}, per_broker=False) == "log.local.retention.ms"
    both = {"log.local.retention.bytes": "9", "log.retention.bytes": "8"}
    assert refused(both, per_broker=True) == "log.local.retention.bytes"
    assert not refused({"log.remote.copy.lag.ms": week}, per_broker=False)
    assert refused({"log.remote.copy.lag.ms": week + "0"}, per_broker=False) == "log.remote.copy.lag.ms"
    assert refused({"log.remote.copy.lag.ms": "-2"}, per_broker=False) == "log.remote.copy.lag.ms"
    both = {"log.local.retention.bytes": "8", "log.remote.copy.lag.bytes": "9"}
    assert refused(both, per_broker=True) == "log.remote.copy.lag.bytes"
    assert config.int("log.retention.hours") == 168


def test_topic_and_group_changes_are_checked_first() -> None:
    config = BrokerConfig(NODE)
    assert check_topic_settings(config, "rows", {"retention.ms": "5"}) is None
    wrong = check_topic_settings(config, "rows", {"remote.storage.enable": "true"})
    assert wrong is not None
    assert "remote.log.storage.system.enable" in str(wrong)
    assert check_group_settings(config, {"consumer.session.timeout.ms": "50000"}) is None
    for overrides in (
        {"consumer.session.timeout.ms": "1000"},
        {"consumer.session.timeout.ms": "100000"},
        {"consumer.heartbeat.interval.ms": "50000"},
        {"streams.num.standby.replicas": "9"},
        {"share.auto.offset.reset": "never"},
        {"consumer.nothing": "1"},
    ):
        wrong = check_group_settings(config, overrides)
        assert wrong is not None
        assert wrong.setting in overrides
    assert check_group_settings(config, {"share.auto.offset.reset": "by_duration:P1DT2H"}) is None


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("num.partitions", "many", "'many'"),
        ("num.partitions", "0", "0"),
        ("replication.factor", "40000", "40000"),
        ("retention.ms", "0", "0"),
        ("min.isr", "4", "4 must not be above replication.factor, 3"),
    ],
)
def test_what_is_said_of_the_remote_tiers_topic_is_checked_at_the_start(
    name: str, text: str, told: str
) -> None:
    prefix = "rlmm.config.remote.log.metadata.topic."
    enabled = NODE | {"remote.log.storage.system.enable": "true", prefix + "replication.factor": "3"}
    BrokerConfig(enabled)
    with pytest.raises(SettingError) as wrong:
        BrokerConfig(enabled | {prefix + name: text})
    assert wrong.value.setting == prefix + name
    assert told in wrong.value.reason


def test_the_remote_tiers_topic_may_have_another_prefix() -> None:
    own = {"remote.log.storage.system.enable": "true", "remote.log.metadata.manager.impl.prefix": "ours."}
    BrokerConfig(NODE | own | {"rlmm.config.remote.log.metadata.topic.num.partitions": "many"})
    with pytest.raises(SettingError, match=r"ours\.remote\.log\.metadata\.topic\.num\.partitions: 'many'"):
        BrokerConfig(NODE | own | {"ours.remote.log.metadata.topic.num.partitions": "many"})
