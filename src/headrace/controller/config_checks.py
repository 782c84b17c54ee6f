"""Whether settings may be written down: each kind of resource has its own table and its own rules."""

import re
from collections.abc import Mapping
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.client_metrics import CLIENT_METRICS, CLIENT_SELECTORS
from headrace.controller.cluster import Cluster
from headrace.metadata.resources import CLUSTER_DEFAULT, ConfigKey, ResourceType
from headrace.metadata.topic_names import check_name
from headrace.settings import changes
from headrace.settings.broker_config import BrokerConfig, broker_setting
from headrace.settings.definition import Kind, Setting, SettingError, parse, unknown_setting
from headrace.settings.group import GROUP
from headrace.settings.topic import TOPIC, overrides_in_force

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


def check_topic_settings(config: BrokerConfig, topic: str, settings: Mapping[str, str]) -> None:
    """INVALID_CONFIG unless a topic can have these settings on this cluster."""
    _raise(changes.check_topic_settings(config, topic, settings))


def check_settings(
    cluster: Cluster, key: ConfigKey, settings: Mapping[str, str], changed: frozenset[str]
) -> None:
    """Whether a resource may have all of `settings`, its own once those in `changed` have been changed."""
    if key.resource_type == ResourceType.TOPIC:
        counted = settings if "remote.storage.enable" in changed else overrides_in_force(key.name, settings)
        check_topic_settings(cluster.config, key.name, counted)
        before = cluster.image.topic_config_of(key.name)
        _raise(changes.check_tier_kept(cluster.config, key.name, before, after=settings))
    elif key.resource_type == ResourceType.BROKER:
        _check_broker_settings(cluster, key, settings, changed)
    elif key.resource_type == ResourceType.GROUP:
        _raise(changes.check_group_settings(cluster.config, settings))
    elif key.resource_type == ResourceType.CLIENT_METRICS:
        _check_client_metrics(settings)


def check_resource(cluster: Cluster, key: ConfigKey) -> None:
    """Whether there is such a resource to have settings."""
    if key.resource_type == ResourceType.TOPIC:
        if not key.name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "a topic's settings need the topic's name: all topics together have none, the "
                "brokers' defaults serve them",
            )
        check_name(key.name)
        if key.name not in cluster.image.topics_by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{key.name}'")
    elif key.resource_type == ResourceType.BROKER:
        _check_broker(cluster, key.name)
    elif key.resource_type == ResourceType.GROUP:
        if not key.name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "a group's settings need the group's id: all groups together have none, the brokers' "
                "defaults serve them",
            )
    elif key.resource_type == ResourceType.CLIENT_METRICS:
        if not key.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a client metrics subscription needs a name")
    else:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"resource type {key.resource_type}: settings are kept for 2 (topics), 4 (brokers), 16 "
            "(client metrics) and 32 (groups)",
        )


def is_list(resource_type: int, name: str) -> bool:
    """Whether a setting holds several values, so that one can be added or taken away."""
    setting = setting_of(resource_type, name)
    return setting is not None and setting.kind is Kind.LIST


def setting_of(resource_type: int, name: str) -> Setting | None:
    """What is known of a setting of that kind of resource."""
    if resource_type == ResourceType.TOPIC:
        return TOPIC.get(name)
    if resource_type == ResourceType.GROUP:
        return GROUP.get(name)
    if resource_type == ResourceType.CLIENT_METRICS:
        return CLIENT_METRICS.get(name)
    return broker_setting(name)


def _check_broker(cluster: Cluster, name: str) -> None:
    if not name:
        return
    if not _WHOLE_NUMBER.fullmatch(name):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"broker '{name}': a broker is named by its id, a whole number"
        )
    if int(name) < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {name}: ids begin at 0")
    if int(name) not in cluster.image.brokers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {int(name)}")


def _check_broker_settings(
    cluster: Cluster, key: ConfigKey, settings: Mapping[str, str], changed: frozenset[str]
) -> None:
    per_broker = key != CLUSTER_DEFAULT
    wrong = changes.check_broker_settings(
        cluster.config,
        settings,
        before=cluster.image.config_of(*key),
        per_broker=per_broker,
        changed=changed,
    )
    if wrong is None:
        return
    # A broker's setting is the request's fault, as Kafka has it: the broker refuses before the controller
    # decides.
    raise ApiError(ErrorCode.INVALID_REQUEST, str(wrong))


def _check_client_metrics(settings: Mapping[str, str]) -> None:
    try:
        for name, value in settings.items():
            if name not in CLIENT_METRICS:
                raise unknown_setting(name, CLIENT_METRICS, "client metrics")
            parse(CLIENT_METRICS[name], value)
    except SettingError as wrong:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(wrong)) from wrong
    for pattern in filter(None, settings.get("match", "").split(",")):
        selector, found, _ = pattern.strip().partition("=")
        if not found or selector not in CLIENT_SELECTORS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"match '{pattern}' is not SELECTOR=PATTERN with one of the selectors "
                f"{', '.join(sorted(CLIENT_SELECTORS))}",
            )


def _raise(wrong: SettingError | None) -> None:
    if wrong is not None:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(wrong)) from wrong
