"""The settings of streams groups: their own within the broker's limits, else the broker's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.coordinators.group.group_config_manager import OwnNumber, number_of
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataImage
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import ConfigSource

NUM_STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The one of them that the assignor follows, under the name that it has in records."""


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    """The settings of one streams group; see `group.streams.*` in the settings room."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_is_chosen: bool = False
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    num_standby_replicas: int = 0
    size_max: int = 2**31 - 1

    def assignment_configs(self) -> dict[str, str]:
        """What a target is made by: another value makes another target."""
        return {NUM_STANDBY_REPLICAS: str(self.num_standby_replicas)}


_SESSION: Final = OwnNumber(
    "streams.session.timeout.ms",
    "group.streams.session.timeout.ms",
    "group.streams.min.session.timeout.ms",
    "group.streams.max.session.timeout.ms",
)
_HEARTBEAT: Final = OwnNumber(
    "streams.heartbeat.interval.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.min.heartbeat.interval.ms",
    "group.streams.max.heartbeat.interval.ms",
)
_ASSIGNMENT: Final = OwnNumber(
    "streams.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
    "group.streams.min.assignment.interval.ms",
    "group.streams.max.assignment.interval.ms",
)
_INITIAL_DELAY: Final = OwnNumber(
    "streams.initial.rebalance.delay.ms", "group.streams.initial.rebalance.delay.ms"
)
_STANDBYS: Final = OwnNumber(
    "streams.num.standby.replicas",
    "group.streams.num.standby.replicas",
    most="group.streams.max.standby.replicas",
)


class StreamsGroupConfigManager:
    """Built when first asked for and kept until settings change, since every heartbeat asks."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[str, StreamsGroupConfig] = {}

    def forget(self) -> None:
        """Settings changed: read them again."""
        self._known.clear()

    def of(self, group_id: str) -> StreamsGroupConfig:
        known = self._known.get(group_id)
        if known is None:
            known = self._known[group_id] = self._read(self._image.config_of(ResourceType.GROUP, group_id))
        return known

    def _read(self, own: Mapping[str, str]) -> StreamsGroupConfig:
        config = self._config
        broker_chose = config.source(_HEARTBEAT.brokers) is not ConfigSource.DEFAULT
        return StreamsGroupConfig(
            session_timeout_ms=number_of(config, own, _SESSION),
            heartbeat_interval_ms=number_of(config, own, _HEARTBEAT),
            heartbeat_interval_is_chosen=broker_chose or _HEARTBEAT.own in own,
            assignment_interval_ms=number_of(config, own, _ASSIGNMENT),
            initial_rebalance_delay_ms=number_of(config, own, _INITIAL_DELAY),
            num_standby_replicas=number_of(config, own, _STANDBYS),
            size_max=config.int("group.streams.max.size"),
        )
