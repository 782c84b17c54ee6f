"""A topic's settings: its own, then its broker's in the finest unit given, then Kafka's defaults."""

import dataclasses

import pytest

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.topic import TOPIC, TopicConfig, check_topic_config, resolve_topic_config


def broker(**properties: str) -> BrokerConfig:
    return BrokerConfig({name.replace("_", "."): text for name, text in properties.items()}, check=False)


def test_the_dataclass_defaults_are_those_of_the_table() -> None:
    assert resolve_topic_config(broker(), {}) == TopicConfig()


def test_every_setting_has_its_field() -> None:
    fields = {field.name for field in dataclasses.fields(TopicConfig)}
    assert {name.replace(".", "_") for name in TOPIC} - fields == {"internal_segment_bytes"}


def test_own_settings_go_before_the_brokers() -> None:
    config = resolve_topic_config(
        broker(log_retention_ms="5"), {"retention.ms": "7", "cleanup.policy": "compact,delete"}
    )
    assert config.retention_ms == 7
    assert config.compacts
    assert config.deletes


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_minutes": "-5"}, -1),
    ],
)
def test_finer_units_go_before_coarser_ones(properties: dict[str, str], retention_ms: int) -> None:
    assert resolve_topic_config(broker(**properties), {}).retention_ms == retention_ms


def test_other_chains() -> None:
    config = resolve_topic_config(
        broker(log_roll_hours="1", log_roll_jitter_hours="2", log_flush_scheduler_interval_ms="9"), {}
    )
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (3_600_000, 7_200_000, 9)


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    config = resolve_topic_config(broker(), {"cleanup.policy": ""})
    assert not config.compacts
    assert not config.deletes


def test_a_test_may_have_tiny_segments() -> None:
    assert resolve_topic_config(broker(), {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"^retention\.msec: .*did you mean retention\.ms\?"):
        check_topic_config(broker(), {"retention.msec": "5"})


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"segment.bytes": "1000"}, "segment.bytes"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "min.compaction.lag.ms"),
        (
            {"remote.storage.enable": "true", "local.retention.ms": "10", "retention.ms": "5"},
            "local.retention.ms",
        ),
        (
            {"remote.storage.enable": "true", "remote.copy.lag.ms": "11", "local.retention.ms": "10"},
            "remote.copy.lag.ms",
        ),
        (
            {"remote.storage.enable": "true", "remote.copy.lag.bytes": "11", "retention.bytes": "10"},
            "remote.copy.lag.bytes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(overrides: dict[str, str], named: str) -> None:
    with pytest.raises(SettingError) as caught:
        check_topic_config(broker(), overrides)
    assert caught.value.setting == named


@pytest.mark.parametrize(
    ("overrides", "field", "value"),
    [
        ({"remote.storage.enable": "true", "local.retention.ms": "10"}, "local_retention_ms", 10),
        ({"min.compaction.lag.ms": "10"}, "min_compaction_lag_ms", 10),
        ({"retention.msec": "5"}, "retention_ms", 5),
        ({"segment.bytes": "1000"}, "segment_bytes", 2**30),
    ],
)
def test_what_contradicts_in_the_end_does_not_stop_a_node(
    overrides: dict[str, str], field: str, value: int
) -> None:
    """A broker's setting that topics inherit may change below what a topic of long ago says."""
    changed = broker(log_retention_ms="5", log_cleaner_max_compaction_lag_ms="5")
    assert getattr(resolve_topic_config(changed, overrides), field) == value
