"""Whether a change of settings would do, asked before it is written into the metadata log.

Each function is given the settings as they would be afterwards and returns what is wrong with them, or None.
"""

from collections.abc import Mapping
from typing import Final

from headrace.base.internal_topics import NEVER_TIERED
from headrace.settings.broker_config import BrokerConfig, broker_setting, parse_broker_setting
from headrace.settings.broker_rules import check_together
from headrace.settings.definition import ConfigType, SettingError, Update, Value, parse, unknown_setting
from headrace.settings.group import GROUP
from headrace.settings.names import listener_setting
from headrace.settings.topic import (
    check_local_retention,
    check_remote_copy_lag,
    check_topic_config,
    overrides_in_force,
    resolve_topic_config,
)

# Kafka starts and ends threads a few at a time: one change at most doubles or halves how many there are.
_POOLS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
_PER_LISTENER: Final = ("ssl.", "sasl.", "principal.builder.")

CORDONED: Final = "cordoned.log.dirs"


def check_topic_settings(
    broker: BrokerConfig, topic: str, overrides: Mapping[str, str]
) -> SettingError | None:
    """What is wrong with a topic's own settings on such a broker."""
    try:
        config = check_topic_config(broker, overrides)
    except SettingError as wrong:
        return wrong
    if config.remote_storage_enable and topic in NEVER_TIERED:
        return SettingError(
            "remote.storage.enable",
            f"{topic} is one of the system's own topics, which are read from the brokers' disks alone and"
            " cannot be tiered: leave this setting out",
        )
    if config.remote_storage_enable and not broker.bool("remote.log.storage.system.enable"):
        return SettingError(
            "remote.storage.enable", "tiering is off: set remote.log.storage.system.enable=true"
        )
    return None


def check_tier_kept(
    broker: BrokerConfig, topic: str, before: Mapping[str, str], *, after: Mapping[str, str]
) -> SettingError | None:
    """A topic that is no longer tiered would leave what is in the remote store to nobody (KIP-950)."""
    was, will_be = (resolve_topic_config(broker, overrides_in_force(topic, each)) for each in (before, after))
    if was.remote_storage_enable and not (
        will_be.remote_storage_enable or will_be.remote_log_delete_on_disable
    ):
        return SettingError(
            "remote.storage.enable",
            "what is in the remote store must not be forgotten there: to keep it and copy no more set"
            " remote.log.copy.disable=true, to delete it set remote.log.delete.on.disable=true as well",
        )
    return None


def check_broker_settings(
    broker: BrokerConfig,
    settings: Mapping[str, str],
    *,
    before: Mapping[str, str],
    per_broker: bool,
    changed: frozenset[str],
    is_own: bool = True,
) -> SettingError | None:
    """What is wrong with the dynamic settings of one broker, or of all, once `changed` have been changed from
    what they were `before`. Any name can be taken away, whether there is such a setting or not. What is about
    a broker's folders only that one can check: `is_own` tells whether this is it."""
    try:
        for name in sorted(changed & settings.keys()):
            _check_dynamic(name, per_broker=per_broker)
        for name, text in settings.items():
            parse_broker_setting(name, text)
        if not is_own:
            settings = {name: text for name, text in settings.items() if name != CORDONED}
        after = _with_layer(broker, settings, per_broker=per_broker)
        check_together(after)
        _check_pools(_with_layer(broker, before, per_broker=per_broker), after, changed)
        inherited = check_topic_config(after, {})
        if any(name.startswith("log.") for name in changed):
            check_local_retention(inherited, "log.")
            check_remote_copy_lag(inherited, "log.")
    except SettingError as wrong:
        return wrong
    return None


def _with_layer(broker: BrokerConfig, settings: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
    own, shared = broker.dynamic_broker, broker.dynamic_default
    return broker.with_dynamic(
        broker=settings if per_broker else own, default=shared if per_broker else settings
    )


def _check_pools(before: BrokerConfig, after: BrokerConfig, changed: frozenset[str]) -> None:
    for name in changed.intersection(_POOLS):
        was, will_be = before.int(name), after.int(name)
        if not was // 2 <= will_be <= was * 2:
            raise SettingError(
                name,
                f"{will_be} is less than half or more than double of {was}, as it is now: go there in steps",
            )


def _check_dynamic(name: str, *, per_broker: bool) -> None:
    setting = broker_setting(name)
    if setting is None:
        parse_broker_setting(name, "")
        return
    if setting.update is Update.READ_ONLY:
        raise SettingError(
            name,
            "cannot change while the broker runs: set it in its file and restart",
            f"Cannot update these configs dynamically: [{name}]",
        )
    if setting.update is Update.PER_BROKER and not per_broker:
        raise SettingError(
            name,
            "can only be changed for one broker, by its number, not for all",
            f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]",
        )
    if name.startswith(_PER_LISTENER) and not listener_setting(name):
        raise SettingError(
            name,
            f"can only be changed for a listener: use listener.name.LISTENER.{name}",
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{name}]",
        )


def check_group_settings(broker: BrokerConfig, overrides: Mapping[str, str]) -> SettingError | None:
    """What is wrong with a group's own settings on such a broker; they must lie within its limits."""
    try:
        values = resolve_group_settings(broker, overrides)
        for name in overrides:
            _check_group_limits(broker, name, values[name])
        for kind in ("consumer", "share", "streams"):
            heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
            if _number(values[heartbeat]) >= _number(values[session]):
                raise SettingError(
                    heartbeat,
                    f"{values[heartbeat]} must be below {session}, {values[session]}",
                    f"{session} must be greater than {heartbeat}",
                )
    except SettingError as wrong:
        return wrong
    return None


def resolve_group_settings(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """A group's settings: its own, else its broker's. SettingError for an unknown name or a bad value."""
    for name in overrides:
        if name not in GROUP:
            raise unknown_setting(name, GROUP, "group")
    values: dict[str, Value] = {}
    for name, setting in GROUP.items():
        if name in overrides:
            values[name] = parse(setting, overrides[name])
        elif setting.synonyms:
            values[name] = broker.get(setting.synonyms[0].name)
        else:
            values[name] = setting.default_value
    return values


def _check_group_limits(broker: BrokerConfig, name: str, value: Value) -> None:
    if GROUP[name].kind is not ConfigType.INT:
        return
    kind, _, rest = name.partition(".")
    least, most = broker.get(f"group.{kind}.min.{rest}"), broker.get(f"group.{kind}.max.{rest}")
    if name == "streams.num.standby.replicas":
        most = broker.get("group.streams.max.standby.replicas")
    if isinstance(least, int) and _number(value) < least:
        raise SettingError(
            name,
            f"{value} is below the brokers' group.{kind}.min.{rest}, {least}",
            f"{name} must be greater than or equal to group.{kind}.min.{rest}",
        )
    if isinstance(most, int) and _number(value) > most:
        limit = f"group.{kind}.max.{rest.removeprefix('num.')}"
        raise SettingError(
            name,
            f"{value} is above the brokers' {limit}, {most}",
            f"{name} must be less than or equal to {limit}",
        )


def _number(value: Value) -> int:
    assert isinstance(value, int), "groups' limits are whole numbers"
    return value
