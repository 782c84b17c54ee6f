"""DescribeConfigs' view of settings, as a node of Apache Kafka 4.3.1 answers for the same settings."""

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import ConfigSource
from headrace.settings.describe import (
    DescribedSetting,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from tests.settings.test_broker_config import NODE

CONFIG = BrokerConfig(
    {
        **NODE,
        "log.retention.hours": "100",
        "log.retention.minutes": "7000",
        "log.roll.ms": "99999999",
        "listener.name.external.ssl.keystore.password": "hidden",
        "rsm.config.key": "hidden",
        "zookeeper.connect": "nowhere",
    }
)


def by_name(entries: list[DescribedSetting]) -> dict[str, DescribedSetting]:
    return {entry.name: entry for entry in entries}


def places(entry: DescribedSetting) -> list[tuple[str, str | None, str]]:
    return [(each.name, each.value, each.source.name) for each in entry.synonyms]


def test_a_brokers_chain_of_units() -> None:
    entries = by_name(describe_broker(CONFIG))
    assert (entries["log.retention.ms"].value, entries["log.retention.ms"].source) == (
        None,
        ConfigSource.DEFAULT,
    )
    assert places(entries["log.retention.ms"]) == []
    assert places(entries["log.retention.minutes"]) == [
        ("log.retention.minutes", "7000", "STATIC"),
        ("log.retention.hours", "100", "STATIC"),
        ("log.retention.hours", "168", "DEFAULT"),
    ]
    assert places(entries["log.roll.ms"]) == [
        ("log.roll.ms", "99999999", "STATIC"),
        ("log.roll.hours", "168", "DEFAULT"),
    ]
    assert places(entries["broker.id"]) == [("broker.id", "1", "STATIC"), ("broker.id", "-1", "DEFAULT")]


def test_a_throttle_has_no_default_to_tell() -> None:
    rate = {"leader.replication.throttled.rate": "20000"}
    (entry,) = [
        each for each in describe_broker(CONFIG.with_dynamic(broker=rate, default={})) if each.name in rate
    ]
    assert places(entry) == [("leader.replication.throttled.rate", "20000", "DYNAMIC_BROKER")]


def test_what_can_be_changed_and_what_is_secret() -> None:
    entries = by_name(describe_broker(CONFIG))
    assert entries["node.id"].read_only
    assert not entries["num.io.threads"].read_only
    for name in ("listener.name.external.ssl.keystore.password", "rsm.config.key", "ssl.keystore.password"):
        assert entries[name].sensitive
        assert entries[name].value is None
    assert places(entries["rsm.config.key"]) == [("rsm.config.key", None, "STATIC")]


def test_what_is_shown() -> None:
    entries = by_name(describe_broker(CONFIG))
    assert entries["inter.broker.protocol.version"].value == "4.3-IV0"
    assert "zookeeper.connect" not in entries
    assert "unstable.api.versions.enable" not in entries
    assert "super.users" not in entries
    assert "No effect" in entries["num.io.threads"].doc


def test_a_topics_own_setting_leads_its_synonyms() -> None:
    entries = by_name(describe_topic(CONFIG, {"segment.ms": " 12345678 "}))
    assert (entries["segment.ms"].value, entries["segment.ms"].source) == ("12345678", ConfigSource.TOPIC)
    assert places(entries["segment.ms"]) == [
        ("segment.ms", "12345678", "TOPIC"),
        ("log.roll.ms", "99999999", "STATIC"),
        ("log.roll.hours", "168", "DEFAULT"),
    ]
    assert (entries["retention.ms"].value, places(entries["retention.ms"])) == ("420000000", [])
    assert places(entries["cleanup.policy"]) == [("log.cleanup.policy", "delete", "DEFAULT")]
    assert "internal.segment.bytes" not in entries
    assert len(entries) == 36


def test_a_group() -> None:
    entries = by_name(describe_group(CONFIG, {"consumer.session.timeout.ms": "50000"}))
    assert places(entries["consumer.session.timeout.ms"]) == [
        ("consumer.session.timeout.ms", "50000", "GROUP"),
        ("group.consumer.session.timeout.ms", "45000", "DEFAULT"),
    ]
    assert places(entries["share.isolation.level"]) == [
        ("share.isolation.level", "read_uncommitted", "DEFAULT")
    ]
    assert len(entries) == 26


def test_the_settings_of_all_brokers() -> None:
    config = BrokerConfig(NODE)
    config.set_dynamic(broker={"num.io.threads": "4"}, default={"num.io.threads": "3"})
    (entry,) = describe_broker_defaults(config)
    assert (entry.name, entry.value, entry.source) == ("num.io.threads", "3", ConfigSource.DYNAMIC_DEFAULT)
    assert places(entry) == [("num.io.threads", "3", "DYNAMIC_DEFAULT")]
    own = by_name(describe_broker(config))["num.io.threads"]
    assert [source for _, _, source in places(own)] == ["DYNAMIC_BROKER", "DYNAMIC_DEFAULT", "DEFAULT"]
