"""Which settings hold for a consumer group: its own where it has some, within the broker's limits, else the
broker's.

Built when first asked for and kept until settings change: heartbeats ask every time.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.coordinators.group.consumer.assignors import ASSIGNORS
from headrace.coordinators.group.consumer.settings import ConsumerSettings
from headrace.metadata.image import ClusterImage
from headrace.metadata.resources import ResourceType
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError, parse
from headrace.settings.group import GROUP
from headrace.settings.sources import Source

_UPGRADES: Final = ("upgrade", "bidirectional")
_DOWNGRADES: Final = ("downgrade", "bidirectional")


class _Interval(NamedTuple):
    """A time that a group may set for itself: its name there, the broker's, and the broker's limits."""

    own: str
    brokers: str
    least: str
    most: str


_SESSION: Final = _Interval(
    "consumer.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
)
_HEARTBEAT: Final = _Interval(
    "consumer.heartbeat.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
)
_ASSIGNMENT: Final = _Interval(
    "consumer.assignment.interval.ms",
    "group.consumer.assignment.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
)


class SettingsBook:
    """The settings of every consumer group."""

    def __init__(self, config: BrokerConfig, image: ClusterImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[str, ConsumerSettings] = {}
        self._without_own: ConsumerSettings | None = None

    def forget(self) -> None:
        """Settings changed: read them anew."""
        self._known.clear()
        self._without_own = None

    def of(self, group_id: str) -> ConsumerSettings:
        known = self._known.get(group_id)
        if known is not None:
            return known
        own = self._image.config_of(ResourceType.GROUP, group_id)
        if own:
            settings = self._known[group_id] = self._read(own)
            return settings
        if self._without_own is None:
            self._without_own = self._read({})
        return self._without_own

    def _read(self, own: Mapping[str, str]) -> ConsumerSettings:
        config = self._config
        policy = config.str("group.consumer.migration.policy").lower()
        names = tuple(name for name in config.list("group.consumer.assignors") if name in ASSIGNORS)
        broker_chose = config.source(_HEARTBEAT.brokers) is not Source.DEFAULT
        return ConsumerSettings(
            session_timeout_ms=self._milliseconds(own, _SESSION),
            heartbeat_interval_ms=self._milliseconds(own, _HEARTBEAT),
            heartbeat_interval_is_chosen=broker_chose or _HEARTBEAT.own in own,
            assignment_interval_ms=self._milliseconds(own, _ASSIGNMENT),
            size_max=config.int("group.consumer.max.size"),
            assignors=names or tuple(ASSIGNORS),
            upgrade=policy in _UPGRADES,
            downgrade=policy in _DOWNGRADES,
        )

    def _milliseconds(self, own: Mapping[str, str], interval: _Interval) -> int:
        config = self._config
        text = own.get(interval.own)
        if text is None:
            return config.int(interval.brokers)
        try:
            value = parse(GROUP[interval.own], text)
        except SettingError:
            return config.int(interval.brokers)  # written by a version that knew more
        assert isinstance(value, int)
        return min(max(value, config.int(interval.least)), config.int(interval.most))
