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
from headrace.settings.table import read_table

__all__ = [
    "TIERING",
    "TOPIC",
    "TopicConfig",
    "check_local_retention",
    "check_remote_copy_lag",
    "check_topic_config",
    "overrides_in_force",
    "parse_topic_overrides",
    "resolve_topic_config",
    "topic_value",
]

WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000

AS_THE_WHOLE: Final = -2
"""A local limit that is the limit of both tiers together."""

TIERING: Final = ("remote.storage.enable", "remote.log.delete.on.disable")


# `<` names the broker settings that decide where a topic says nothing (see table.py).
TOPIC: Final[dict[str, Setting]] = read_table("""
cleanup.policy  list delete  {compact,delete}  < log.cleanup.policy
    What becomes of old segments: delete drops them by age and size, compact keeps each key's last record.
compression.gzip.level  int -1  -1|1..9  < compression.gzip.level
    Level when the broker compresses with gzip, 1 (fast) to 9 (small); -1 leaves it to gzip.
compression.lz4.level  int 9  1..17  < compression.lz4.level
    Level when the broker compresses with lz4, 1 (fast) to 17 (small).
compression.type  string producer  {uncompressed,zstd,lz4,snappy,gzip,producer}  < compression.type
    How batches are stored; producer keeps them as they came.
compression.zstd.level  int 3  -131072..22  < compression.zstd.level
    Level when the broker compresses with zstd, below 0 (fastest) to 22 (smallest).
delete.retention.ms  long 86400000  0..  < log.cleaner.delete.retention.ms
    Milliseconds that compaction keeps a delete marker, so that a slow reader still sees it.
errors.deadletterqueue.group.enable  boolean false
    Whether share groups may write dead letters to this topic.
file.delete.delay.ms  long 60000  0..  < log.segment.delete.delay.ms
    Milliseconds between taking a segment out of the log and removing its files.
flush.messages  long 9223372036854775807  1..  < log.flush.interval.messages
    Records after which the log is synced to disk; leave it to replication and to recovery where possible.
flush.ms  long 9223372036854775807  0..  < log.flush.interval.ms log.flush.scheduler.interval.ms
    Milliseconds after which unsynced records are synced to disk.
follower.replication.throttled.replicas  list ""  throttled
    Replicas (PARTITION:BROKER, or *) whose fetching is held to follower.replication.throttled.rate.
index.interval.bytes  int 4096  0..  < log.index.interval.bytes
    Bytes of log between two entries of the offset index; fewer find faster and take more memory.
internal.segment.bytes  int null  internal
    Segment size without the lower limit of segment.bytes, in bytes; for tests.
leader.replication.throttled.replicas  list ""  throttled
    Replicas (PARTITION:BROKER, or *) whose serving is held to leader.replication.throttled.rate.
local.retention.bytes  long -2  -2..  < log.local.retention.bytes
    Bytes of a tiered partition kept on local disk; -2 means retention.bytes, -1 means no limit.
local.retention.ms  long -2  -2..  < log.local.retention.ms
    Milliseconds that tiered segments stay on local disk; -2 means retention.ms, -1 means no limit.
max.compaction.lag.ms  long 9223372036854775807  1..  < log.cleaner.max.compaction.lag.ms
    Milliseconds after which a record must have been looked at by compaction.
max.decompressed.message.bytes  int 2147483639  0..  internal  < max.decompressed.message.bytes
    Largest record that a compressed batch may unpack to, in bytes; one that is larger is refused as invalid.
max.message.bytes  int 1048588  0..  < message.max.bytes
    Largest batch that is taken, in bytes, after compression where there is any.
message.timestamp.after.max.ms  long 3600000  0..  < log.message.timestamp.after.max.ms
    Milliseconds by which a record's time may lie ahead of the broker's clock (CreateTime only).
message.timestamp.before.max.ms  long 9223372036854775807  0..  < log.message.timestamp.before.max.ms
    Milliseconds by which a record's time may lie behind the broker's clock (CreateTime only).
message.timestamp.type  string CreateTime  {CreateTime,LogAppendTime}  < log.message.timestamp.type
    Whose time a record carries: its producer's, or the broker's at the append.
min.cleanable.dirty.ratio  double 0.5  0..1  < log.cleaner.min.cleanable.ratio
    Share of a log that must be uncompacted before compaction takes it up.
min.compaction.lag.ms  long 0  0..  < log.cleaner.min.compaction.lag.ms
    Milliseconds that a record is safe from compaction.
min.insync.replicas  int 1  1..  < min.insync.replicas
    Replicas that must hold a record before acks=all succeeds; with fewer in sync such writes are refused.
preallocate  boolean false  < log.preallocate
    Whether a new segment's file gets its full size on disk at once.
remote.copy.lag.bytes  long -1  -1..  < log.remote.copy.lag.bytes
    Bytes of newer log after which a segment is copied to the remote store; -1 means the local limit.
remote.copy.lag.ms  long 0  -1..  < log.remote.copy.lag.ms
    Age at which a segment is copied to the remote store, in milliseconds; -1 means the local limit.
remote.log.copy.disable  boolean false
    Whether a tiered topic stops copying segments to the remote store, keeping what is there readable.
remote.log.delete.on.disable  boolean false
    Whether switching tiering off deletes the topic's data in the remote store.
remote.storage.enable  boolean false
    Whether finished segments are copied to the remote store.
retention.bytes  long -1  < log.retention.bytes
    Bytes that a partition may grow to before its oldest segments are dropped; -1 is no limit.
retention.ms  long 604800000  -1..  < log.retention.ms log.retention.minutes*60000 log.retention.hours*3600000
    Milliseconds that a segment is kept after its last record; -1 is for ever.
segment.bytes  int 1073741824  1048576..  < log.segment.bytes
    Size at which a segment is finished and a new one begun, in bytes.
segment.index.bytes  int 10485760  4..  < log.index.size.max.bytes
    Largest size of a segment's offset index, in bytes.
segment.jitter.ms  long 0  0..  < log.roll.jitter.ms log.roll.jitter.hours*3600000
    Most milliseconds taken off segment.ms by chance, so that segments do not all roll at once.
segment.ms  long 604800000  1..  < log.roll.ms log.roll.hours*3600000
    Age at which a segment is finished even when it is not full, in milliseconds.
unclean.leader.election.enable  boolean false  < unclean.leader.election.enable
    Whether a replica that may lack records can become leader when no complete one is left.
""")


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
    max_decompressed_message_bytes: int = 2_147_483_639
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    errors_deadletterqueue_group_enable: bool = False
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_copy_lag_bytes: int = -1
    remote_copy_lag_ms: int = 0
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

    @property
    def local_limits(self) -> tuple[int, int]:
        """How long, and how many bytes, a tiered log is kept on the disk; -1 is no limit."""
        whole_ms, whole_bytes = (self.retention_ms, self.retention_bytes) if self.deletes else (-1, -1)
        local_ms, local_bytes = self.local_retention_ms, self.local_retention_bytes
        return (
            whole_ms if local_ms == AS_THE_WHOLE else local_ms,
            whole_bytes if local_bytes == AS_THE_WHOLE else local_bytes,
        )

    @property
    def remote_copy_lags(self) -> tuple[int, int]:
        """How old a segment must be to be copied, or how many bytes must have come after it (KIP-1241). One
        that is 0 lets all be copied at once; one below 0 lets nothing be copied.
        """
        own = (self.remote_copy_lag_ms, self.remote_copy_lag_bytes)
        lag_ms, lag_bytes = (
            limit if lag == -1 else lag for lag, limit in zip(own, self.local_limits, strict=True)
        )
        return lag_ms, lag_bytes


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
            "min.compaction.lag.ms",
            f"{least} must not be above max.compaction.lag.ms, {most}",
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )
    if config.remote_storage_enable:
        _check_tiered(config)


def _check_tiered(config: TopicConfig) -> None:
    for name, local, whole_name, whole in _retentions(config):
        if config.remote_log_copy_disable and local not in (AS_THE_WHOLE, whole):
            raise SettingError(
                name, f"{local} must be {whole_name}, {whole}, or -2: nothing is copied any more"
            )
    check_local_retention(config)
    check_remote_copy_lag(config)


def check_local_retention(config: TopicConfig, prefix: str = "") -> None:
    """SettingError where local data would be kept for longer than the log; brokers' names have a prefix."""
    for name, local, whole_name, whole in _retentions(config):
        if local != AS_THE_WHOLE and whole != -1 and (local == -1 or local > whole):
            raise SettingError(
                prefix + name,
                f"{local} must not be above {prefix}{whole_name}, {whole}: local data is part of it",
            )


def check_remote_copy_lag(config: TopicConfig, prefix: str = "") -> None:
    """SettingError where the disk would have to let go of segments that may not be copied yet."""
    lags = config.remote_copy_lag_ms, config.remote_copy_lag_bytes
    for unit, lag, limit in zip(("ms", "bytes"), lags, config.local_limits, strict=True):
        if 0 <= limit < lag:
            raise SettingError(
                f"{prefix}remote.copy.lag.{unit}",
                f"{lag} must not be above {limit}, as {prefix}local.retention.{unit} says: what leaves the "
                "disk must have been copied",
            )


def _retentions(config: TopicConfig) -> tuple[tuple[str, int, str, int], ...]:
    """What is kept locally, and what in all."""
    return (
        ("local.retention.ms", config.local_retention_ms, "retention.ms", config.retention_ms),
        ("local.retention.bytes", config.local_retention_bytes, "retention.bytes", config.retention_bytes),
    )
