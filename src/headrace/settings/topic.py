"""A topic's settings as the log reads them: TopicConfig, and how it is made for a topic on a broker.

The topic's own value goes first, then the broker setting that stands in for it (the finest unit that is set),
then Kafka's default. The result is a frozen object with one slot for each setting, made once when a topic or
broker setting changes, so that the data path reads plain attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.base.internal_topics import NEVER_TIERED
from headrace.settings.definition import LONG_MAX, Setting, SettingError, Value, parse, unknown_setting
from headrace.settings.topic_table import TOPIC

__all__ = [
    "TIERING",
    "TOPIC",
    "TopicConfig",
    "check_local_retention",
    "check_topic_config",
    "overrides_in_force",
    "parse_topic_overrides",
    "resolve_topic_config",
    "topic_value",
]

WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000

TIERING: Final = ("remote.storage.enable", "remote.log.delete.on.disable")


class BrokerSettings(Protocol):
    """The face of BrokerConfig that a topic needs."""

    def get(self, name: str) -> Value: ...


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Every setting of one topic, resolved. Defaults are Kafka's, and so is what -1 and -2 mean."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = WEEK_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = WEEK_MS
    unclean_leader_election_enable: bool = False

    @property
    def compacts(self) -> bool:
        """Whether the cleaner works on this topic."""
        return "compact" in self.cleanup_policy

    @property
    def is_tiered(self) -> bool:
        """Also where the topic was tiered until lately and what is in the store is to be deleted."""
        return self.remote_storage_enable or self.remote_log_delete_on_disable

    @property
    def deletes(self) -> bool:
        """Whether age and size drop segments."""
        return "delete" in self.cleanup_policy


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """A topic's own settings as values; SettingError for an unknown name or a bad value."""
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        setting = TOPIC.get(name)
        if setting is None:
            raise unknown_setting(name, TOPIC, "topic")
        values[name] = parse(setting, text)
    return values


def check_topic_config(broker: BrokerSettings, overrides: Mapping[str, str]) -> TopicConfig:
    """The settings that a topic would have; SettingError where they are wrong or contradict each other."""
    parse_topic_overrides(overrides)
    config = resolve_topic_config(broker, overrides)
    _check_together(config)
    return config


def overrides_in_force(topic: str, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Of a topic's own settings those that count. The system's own topics stay on the disks, whatever an
    older version let be written down of them.
    """
    if topic not in NEVER_TIERED or not any(name in overrides for name in TIERING):
        return overrides
    return {name: text for name, text in overrides.items() if name not in TIERING}


def resolve_topic_config(broker: BrokerSettings, overrides: Mapping[str, str]) -> TopicConfig:
    """The settings in force of a topic with these overrides on this broker.

    They were checked before they were written down. Since then brokers' settings may have changed, or another
    version may have written them: what contradicts now must not stop a node, and what cannot be read counts
    as not set.
    """
    values = {}
    for name, setting in TOPIC.items():
        try:
            values[name] = (
                parse(setting, overrides[name]) if name in overrides else topic_value(setting, broker)
            )
        except SettingError:
            values[name] = topic_value(setting, broker)
    return _from_values(values)


def topic_value(setting: Setting, broker: BrokerSettings) -> Value:
    """What a topic that says nothing gets: the first of its broker settings that is set, or the default."""
    for synonym in setting.synonyms:
        value = broker.get(synonym.name)
        if value is not None:
            return value if synonym.factor == 1 else _in_ms(value, synonym.factor)
    return setting.default_value


def _in_ms(value: Value, factor: int) -> int:
    assert isinstance(value, int), "only numbers have units"
    # Any negative retention means for ever, in whatever unit it was given.
    return -1 if value < 0 else value * factor


def _from_values(values: Mapping[str, Value]) -> TopicConfig:
    fields: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    own_segment_bytes = fields.pop("internal_segment_bytes")
    if own_segment_bytes is not None:
        fields["segment_bytes"] = own_segment_bytes
    fields["cleanup_policy"] = policy = frozenset(fields["cleanup_policy"])
    if "compact" in policy:
        # The active segment is never compacted: it must end before its first record is overdue.
        fields["segment_ms"] = min(fields["segment_ms"], fields["max_compaction_lag_ms"])
    return TopicConfig(**fields)


def _check_together(config: TopicConfig) -> None:
    """What single checks cannot see: settings that contradict each other."""
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least > most:
        raise SettingError(
            "min.compaction.lag.ms", f"{least} must not be above max.compaction.lag.ms, {most}"
        )
    if config.remote_storage_enable:
        _check_tiered(config)


def _check_tiered(config: TopicConfig) -> None:
    for name, local, whole_name, whole in _retentions(config):
        if config.remote_log_copy_disable and local not in (-2, whole):
            raise SettingError(
                name, f"{local} must be {whole_name}, {whole}, or -2: nothing is copied any more"
            )
    check_local_retention(config)


def check_local_retention(config: TopicConfig, prefix: str = "") -> None:
    """SettingError where local data would be kept for longer than the log; brokers' names have a prefix."""
    for name, local, whole_name, whole in _retentions(config):
        if local != -2 and whole != -1 and (local == -1 or local > whole):
            raise SettingError(
                prefix + name,
                f"{local} must not be above {prefix}{whole_name}, {whole}: local data is part of it",
            )


def _retentions(config: TopicConfig) -> tuple[tuple[str, int, str, int], ...]:
    """What is kept locally, and what in all."""
    return (
        ("local.retention.ms", config.local_retention_ms, "retention.ms", config.retention_ms),
        ("local.retention.bytes", config.local_retention_bytes, "retention.bytes", config.retention_bytes),
    )
