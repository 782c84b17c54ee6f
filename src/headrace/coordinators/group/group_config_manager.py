"""The settings that groups obey: the broker's, and for consumer groups their own (GroupConfigManager)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from headrace.coordinators.group.consumer.assignors import ASSIGNORS
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataImage
from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import ConfigSource, SettingError, parse
from headrace.settings.group import GROUP

CONSUMER_PROTOCOL_DISABLED: Final = (
    "there are no consumer groups here: group.version is 0, or group.coordinator.rebalance.protocols "
    "has no 'consumer'"
)


@dataclass(frozen=True, slots=True)
class ClassicGroupConfig:
    """The broker's settings for classic groups; see `group.*` in the settings room."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """The broker's settings for groups."""

    classic: ClassicGroupConfig
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    rebalance_protocols: tuple[str, ...] = ("classic", "consumer")


def group_coordinator_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    """Read them."""
    return GroupCoordinatorConfig(
        classic=ClassicGroupConfig(
            session_timeout_ms_min=config.int("group.min.session.timeout.ms"),
            session_timeout_ms_max=config.int("group.max.session.timeout.ms"),
            size_max=config.int("group.max.size"),
            initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        ),
        offset_metadata_bytes_max=config.int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * 60_000,
        rebalance_protocols=tuple(
            name.lower() for name in config.list("group.coordinator.rebalance.protocols")
        ),
    )


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of one consumer group; see `group.consumer.*` in the settings room."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_is_chosen: bool = False
    assignment_interval_ms: int = 1_000
    size_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    upgrade: bool = True
    downgrade: bool = True


_UPGRADES: Final = ("upgrade", "bidirectional")
_DOWNGRADES: Final = ("downgrade", "bidirectional")


class OwnNumber(NamedTuple):
    """A number that a group may set for itself: its name there, the broker's, and the broker's limits."""

    own: str
    brokers: str
    least: str = ""
    most: str = ""


_SESSION: Final = OwnNumber(
    "consumer.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
)
_HEARTBEAT: Final = OwnNumber(
    "consumer.heartbeat.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
)
_ASSIGNMENT: Final = OwnNumber(
    "consumer.assignment.interval.ms",
    "group.consumer.assignment.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
)


class GroupConfigManager:
    """The settings of every consumer group: its own where it has some, within the broker's limits, else the
    broker's.

    Built when first asked for and kept until settings change, since every heartbeat asks.
    """

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[str, GroupConfig] = {}
        self._without_own: GroupConfig | None = None

    def forget(self) -> None:
        """Settings changed: read them again."""
        self._known.clear()
        self._without_own = None

    def of(self, group_id: str) -> GroupConfig:
        known = self._known.get(group_id)
        if known is not None:
            return known
        own = self._image.config_of(ResourceType.GROUP, group_id)
        if own:
            group_config = self._known[group_id] = self._read(own)
            return group_config
        if self._without_own is None:
            self._without_own = self._read({})
        return self._without_own

    def _read(self, own: Mapping[str, str]) -> GroupConfig:
        config = self._config
        policy = config.str("group.consumer.migration.policy").lower()
        names = tuple(name for name in config.list("group.consumer.assignors") if name in ASSIGNORS)
        broker_chose = config.source(_HEARTBEAT.brokers) is not ConfigSource.DEFAULT
        return GroupConfig(
            session_timeout_ms=number_of(config, own, _SESSION),
            heartbeat_interval_ms=number_of(config, own, _HEARTBEAT),
            heartbeat_interval_is_chosen=broker_chose or _HEARTBEAT.own in own,
            assignment_interval_ms=number_of(config, own, _ASSIGNMENT),
            size_max=config.int("group.consumer.max.size"),
            assignors=names or tuple(ASSIGNORS),
            upgrade=policy in _UPGRADES,
            downgrade=policy in _DOWNGRADES,
        )


def number_of(config: BrokerConfig, own: Mapping[str, str], number: OwnNumber) -> int:
    """What holds for a group that has these settings of its own: they count within the broker's limits."""
    text = own.get(number.own)
    if text is None:
        return config.int(number.brokers)
    try:
        value = parse(GROUP[number.own], text)
    except SettingError:
        return config.int(number.brokers)  # written by a version that knew more
    assert isinstance(value, int)
    if number.least:
        value = max(value, config.int(number.least))
    return min(value, config.int(number.most)) if number.most else value


# --- heartbeat intervals of consumer groups ---
#
# A member that hears of a change late makes everybody late, since a partition is only handed on once its
# owner has revoked it. So, while a group is reconciling, members come back quickly: after a part of the time
# that has passed since the target was made, which is soon at first and costs little if somebody takes long.
# In a stable group they come back after `group.consumer.heartbeat.interval.ms` where somebody chose that.
# Left to itself, a node asks for as many heartbeats as it can answer without noticing: often from few
# members, seldom from many, never more seldom than the default. Heartbeats of a stable group are held
# (`held_heartbeats`): the interval matters once a member's connection was needed for something else, since
# nothing is held from then to the next heartbeat.

# 50 ms is a moment for a person and many round trips for a client.
QUICK_MS_MIN: Final = 50
# A member comes back after an eighth of the time that passed: some 8 heartbeats whenever that doubles.
QUICK_PART: Final = 8
# Members of stable groups cost a node this many heartbeats in a second, about 1 % of a core.
CALM_PER_SECOND: Final = 100
CALM_MS_MIN: Final = 500
# In whole steps: a client that is told of another interval starts to count again.
CALM_MS_STEP: Final = 100


class HeartbeatConfig(Protocol):
    """The settings of a group of either kind that its heartbeats follow."""

    @property
    def heartbeat_interval_ms(self) -> int: ...

    @property
    def heartbeat_interval_is_chosen(self) -> bool: ...


def calm_interval_ms(config: HeartbeatConfig, members_on_node: int) -> int:
    """When a member of a stable group comes back."""
    most_ms = config.heartbeat_interval_ms
    if config.heartbeat_interval_is_chosen:
        return most_ms
    needed_ms = members_on_node * 1000 // CALM_PER_SECOND
    return min(most_ms, max(CALM_MS_MIN, -(-needed_ms // CALM_MS_STEP) * CALM_MS_STEP))


def quick_interval_ms(config: GroupConfig, *, reconciling_for_ms: int, calm_ms: int) -> int:
    """When a member of a reconciling group comes back; never later than one of a stable group."""
    return min(calm_ms, max(QUICK_MS_MIN, reconciling_for_ms // QUICK_PART))
