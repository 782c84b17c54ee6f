"""The settings of share groups: their own within the broker's limits, else the broker's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.coordinators.group.group_config_manager import OwnNumber, number_of
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataImage
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import ConfigSource, SettingError, parse
from headrace.settings.group import GROUP

READ_COMMITTED: Final = "read_committed"


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """The settings of one share group; see `share.*` in the settings room."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_is_chosen: bool = False
    assignment_interval_ms: int = 1_000
    size_max: int = 200
    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    record_locks_max: int = 2_000
    offset_reset: str = "latest"
    is_committed: bool = False
    may_renew: bool = True
    initialize_retry_ms: int = 30_000
    dead_letter_topic: str = ""
    copies_dead_records: bool = False
    retry_backoff_ms: int = 0
    retry_backoff_max_ms: int = 60_000
    breaker_records: int = 0
    breaker_pause_ms: int = 60_000
    is_in_key_order: bool = False
    key_order_records: int = 5_000
    delivers_at: bool = False


_HEARTBEAT: Final = OwnNumber(
    "share.heartbeat.interval.ms",
    "group.share.heartbeat.interval.ms",
    "group.share.min.heartbeat.interval.ms",
    "group.share.max.heartbeat.interval.ms",
)
_SESSION: Final = OwnNumber(
    "share.session.timeout.ms",
    "group.share.session.timeout.ms",
    "group.share.min.session.timeout.ms",
    "group.share.max.session.timeout.ms",
)
_ASSIGNMENT: Final = OwnNumber(
    "share.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "group.share.min.assignment.interval.ms",
    "group.share.max.assignment.interval.ms",
)
_LOCK: Final = OwnNumber(
    "share.record.lock.duration.ms",
    "group.share.record.lock.duration.ms",
    "group.share.min.record.lock.duration.ms",
    "group.share.max.record.lock.duration.ms",
)
_DELIVERIES: Final = OwnNumber(
    "share.delivery.count.limit",
    "group.share.delivery.count.limit",
    "group.share.min.delivery.count.limit",
    "group.share.max.delivery.count.limit",
)
_LOCKS: Final = OwnNumber(
    "share.partition.max.record.locks",
    "group.share.partition.max.record.locks",
    "group.share.min.partition.max.record.locks",
    "group.share.max.partition.max.record.locks",
)


class ShareGroupConfigManager:
    """Built when first asked for and kept until settings change, since every heartbeat and fetch asks."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[str, ShareGroupConfig] = {}

    def forget(self) -> None:
        """Settings changed: read them again."""
        self._known.clear()

    def of(self, group_id: str) -> ShareGroupConfig:
        known = self._known.get(group_id)
        if known is None:
            known = self._known[group_id] = self._read(self._image.config_of(ResourceType.GROUP, group_id))
        return known

    def _read(self, own: Mapping[str, str]) -> ShareGroupConfig:
        config = self._config
        broker_chose = config.source(_HEARTBEAT.brokers) is not ConfigSource.DEFAULT
        return ShareGroupConfig(
            session_timeout_ms=number_of(config, own, _SESSION),
            heartbeat_interval_ms=number_of(config, own, _HEARTBEAT),
            heartbeat_interval_is_chosen=broker_chose or _HEARTBEAT.own in own,
            assignment_interval_ms=number_of(config, own, _ASSIGNMENT),
            size_max=config.int("group.share.max.size"),
            lock_duration_ms=number_of(config, own, _LOCK),
            delivery_count_limit=number_of(config, own, _DELIVERIES),
            record_locks_max=number_of(config, own, _LOCKS),
            offset_reset=_text(own, "share.auto.offset.reset"),
            is_committed=_text(own, "share.isolation.level").lower() == READ_COMMITTED,
            may_renew=_text(own, "share.renew.acknowledge.enable").lower() == "true",
            initialize_retry_ms=config.int("group.share.initialize.retry.interval.ms"),
            dead_letter_topic=_text(own, "errors.deadletterqueue.topic.name"),
            breaker_records=_number(own, "headrace.share.breaker.records"),
            breaker_pause_ms=_number(own, "headrace.share.breaker.pause.ms"),
            retry_backoff_ms=_number(own, "headrace.share.retry.backoff.ms"),
            retry_backoff_max_ms=_number(own, "headrace.share.retry.backoff.max.ms"),
            delivers_at=_text(own, "headrace.share.deliver.at").lower() == "true",
            is_in_key_order=_text(own, "headrace.share.key.order").lower() == "true",
            key_order_records=_number(own, "headrace.share.key.order.max.records"),
            copies_dead_records=_text(own, "errors.deadletterqueue.copy.record.enable").lower() == "true",
        )


def _text(own: Mapping[str, str], name: str) -> str:
    """A group's own value, or the default: the broker has no say."""
    text = own.get(name)
    if text is not None:
        try:
            return str(parse(GROUP[name], text))
        except SettingError:
            pass  # written by a version that knew more
    return str(GROUP[name].default)


def _number(own: Mapping[str, str], name: str) -> int:
    return int(_text(own, name))
