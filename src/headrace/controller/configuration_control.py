"""Settings of topics, brokers, groups and client metrics (Kafka's ConfigurationControlManager):
IncrementalAlterConfigs and AlterConfigs, and whether settings may be written down.

The first changes single settings; the second, which is deprecated, says what the whole set shall be. Each
resource succeeds or fails by itself. What a broker must do with settings of its own process (BROKER_LOGGER)
never gets here.

A change of min.insync.replicas makes what is known of eligible leaders worthless: they were chosen by the
old number. A ClearElrRecord forgets them (KIP-966). For the same reason the number must be the same on all
brokers while eligible leaders are in use: only topics and the cluster's default may set it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult, check_size
from headrace.metadata.config_resource import CLUSTER_DEFAULT, ConfigKey, ResourceType
from headrace.metadata.features import ELR_VERSION
from headrace.metadata.image import MetadataRecord
from headrace.metadata.topic_names import check_name
from headrace.settings import changes
from headrace.settings.broker_config import BrokerConfig, broker_setting
from headrace.settings.client_metrics import CLIENT_METRICS, parse_match
from headrace.settings.definition import ConfigType, Setting, SettingError, parse, render, unknown_setting
from headrace.settings.group import GROUP
from headrace.settings.topic import TOPIC, overrides_in_force, topic_value
from headrace.wire.schemas import alter_configs as legacy
from headrace.wire.schemas import incremental_alter_configs as incremental
from headrace.wire.schemas.metadata_records import ClearElrRecord, ConfigRecord

MIN_ISR: Final = "min.insync.replicas"
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")

Changes = Mapping[str, str | None]
"""New values by name; None removes."""

_Resource = TypeVar("_Resource", incremental.AlterConfigsResource, legacy.AlterConfigsResource)


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    cluster: ClusterState, request: incremental.IncrementalAlterConfigsRequest
) -> ControllerResult[incremental.IncrementalAlterConfigsResponse]:
    results = [
        incremental.AlterConfigsResourceResponse(
            resource_type=each.resource_type, resource_name=each.resource_name, error_message=None
        )
        for each in request.resources
    ]

    def changes(resource: incremental.AlterConfigsResource, key: ConfigKey) -> Changes:
        return _incremental_changes(cluster, key, resource.configs)

    records = _alter_each(cluster, request.resources, results, changes)
    response = incremental.IncrementalAlterConfigsResponse(responses=results)
    return ControllerResult(() if request.validate_only else records, response)


def alter_configs(
    cluster: ClusterState, request: legacy.AlterConfigsRequest
) -> ControllerResult[legacy.AlterConfigsResponse]:
    results = [
        legacy.AlterConfigsResourceResponse(
            resource_type=each.resource_type, resource_name=each.resource_name, error_message=None
        )
        for each in request.resources
    ]

    def changes(resource: legacy.AlterConfigsResource, key: ConfigKey) -> Changes:
        _check_not_null(config.name for config in resource.configs if config.value is None)
        wanted: dict[str, str | None] = {config.name: config.value for config in resource.configs}
        return wanted | dict.fromkeys(name for name in _current(cluster, key) if name not in wanted)

    records = _alter_each(cluster, request.resources, results, changes)
    return ControllerResult(
        () if request.validate_only else records, legacy.AlterConfigsResponse(responses=results)
    )


def _alter_each(
    cluster: ClusterState,
    resources: Sequence[_Resource],
    results: Sequence[incremental.AlterConfigsResourceResponse | legacy.AlterConfigsResourceResponse],
    changes: Callable[[_Resource, ConfigKey], Changes],
) -> list[MetadataRecord]:
    """The records of all resources that can be changed; the results of the others say why they cannot."""
    records: list[MetadataRecord] = []
    keys = [ConfigKey(each.resource_type, each.resource_name) for each in resources]
    counts = Counter(keys)
    for resource, key, result in zip(resources, keys, results, strict=True):
        try:
            _check_listed_once(counts[key], Counter(config.name for config in resource.configs))
            made: list[MetadataRecord] = _alter(cluster, key, changes(resource, key))
            check_size(range(len(records) + len(made)))
            records += made
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    return records


def _current(cluster: ClusterState, key: ConfigKey) -> Mapping[str, str]:
    return cluster.image.config_of(*key)


def _check_listed_once(times: int, names: Counter[str]) -> None:
    if times > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Each resource must appear at most once.",
        )
    if any(count > 1 for count in names.values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_not_null(names: Iterable[str]) -> None:
    nulls = ",".join(names)
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}")


def _incremental_changes(
    cluster: ClusterState, key: ConfigKey, configs: list[incremental.AlterableConfig]
) -> Changes:
    """What each setting shall be after its operation."""
    _check_not_null(
        c.name for c in configs if c.value is None and c.config_operation != ConfigOperation.DELETE
    )
    current = _current(cluster, key)
    changes: dict[str, str | None] = {}
    for config in configs:
        if config.config_operation == ConfigOperation.SET:
            changes[config.name] = config.value
        elif config.config_operation == ConfigOperation.DELETE:
            changes[config.name] = None
        elif config.config_operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            changes[config.name] = _edited_list(key, config, current.get(config.name))
        else:
            message = f"operation {config.config_operation} on {config.name}: known are " + ", ".join(
                f"{each.value} ({each.name})" for each in ConfigOperation
            )
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    return changes


def _edited_list(key: ConfigKey, config: incremental.AlterableConfig, current: str | None) -> str:
    """A list with values added or taken away, from its default where nothing is set."""
    operation = ConfigOperation(config.config_operation)
    if not is_list(key.resource_type, config.name):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    if current is None:
        setting = setting_of(key.resource_type, config.name)
        current = "" if setting is None else render(setting.default_value) or ""
    values = [value for value in current.split(",") if value]
    for value in (config.value or "").split(","):
        if operation is ConfigOperation.SUBTRACT:
            values = [kept for kept in values if kept != value]
        elif value not in values:
            values.append(value)
    return ",".join(values)


def _alter(cluster: ClusterState, key: ConfigKey, changes: Changes) -> list[MetadataRecord]:
    """The records of one resource's changes, checked as a whole."""
    check_resource(cluster, key)
    current = _current(cluster, key)
    if key.resource_type == ResourceType.BROKER:
        _check_min_isr_change(cluster, key, changes)
    after = {name: value for name, value in {**current, **changes}.items() if value is not None}
    check_settings(cluster, key, after, frozenset(changes))
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=key.resource_type, resource_name=key.name, name=name, value=value)
        for name, value in changes.items()
        # A broker is told of an unchanged value too: writing it again is how a key store is read anew.
        if value != current.get(name) or key.resource_type == ResourceType.BROKER
    ]
    return [*records, *_cleared_elr(cluster, key, changes)]


def _check_min_isr_change(cluster: ClusterState, key: ConfigKey, changes: Changes) -> None:
    if not cluster.elr_enabled or MIN_ISR not in changes:
        return
    if key != CLUSTER_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_ISR} is kept for the whole cluster while {ELR_VERSION} is in use, not for broker "
            f"{key.name}: change the brokers' default",
        )
    if changes[MIN_ISR] is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"the cluster's {MIN_ISR} must have a value while {ELR_VERSION} is in use: set another, "
            "do not delete it",
        )


def _cleared_elr(cluster: ClusterState, key: ConfigKey, changes: Changes) -> list[MetadataRecord]:
    """Forget eligible leaders where another number of replicas counts as enough from now on."""
    if not cluster.elr_enabled or MIN_ISR not in changes:
        return []
    if key == CLUSTER_DEFAULT:
        return [ClearElrRecord(topic_name="")]
    if key.resource_type != ResourceType.TOPIC:
        return []
    before = cluster.topic_config(key.name).min_insync_replicas
    wanted = changes[MIN_ISR]
    after = topic_value(TOPIC[MIN_ISR], cluster.config) if wanted is None else int(wanted)
    return [] if after == before else [ClearElrRecord(topic_name=key.name)]


def check_topic_settings(config: BrokerConfig, topic: str, settings: Mapping[str, str]) -> None:
    """INVALID_CONFIG unless a topic can have these settings on this cluster."""
    _raise(changes.check_topic_settings(config, topic, settings))


def check_settings(
    cluster: ClusterState, key: ConfigKey, settings: Mapping[str, str], changed: frozenset[str]
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


def check_resource(cluster: ClusterState, key: ConfigKey) -> None:
    """Whether there is such a resource to have settings."""
    if key.resource_type == ResourceType.TOPIC:
        if not key.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_name(key.name)
        if key.name not in cluster.image.topics_by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{key.name}' does not exist.")
    elif key.resource_type == ResourceType.BROKER:
        _check_broker(cluster, key.name)
    elif key.resource_type == ResourceType.GROUP:
        if not key.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif key.resource_type == ResourceType.CLIENT_METRICS:
        if not key.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    else:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {key.resource_type}")


def is_list(resource_type: int, name: str) -> bool:
    """Whether a setting holds several values, so that one can be added or taken away."""
    setting = setting_of(resource_type, name)
    return setting is not None and setting.kind is ConfigType.LIST


def setting_of(resource_type: int, name: str) -> Setting | None:
    """What is known of a setting of that kind of resource."""
    if resource_type == ResourceType.TOPIC:
        return TOPIC.get(name)
    if resource_type == ResourceType.GROUP:
        return GROUP.get(name)
    if resource_type == ResourceType.CLIENT_METRICS:
        return CLIENT_METRICS.get(name)
    return broker_setting(name)


def _check_broker(cluster: ClusterState, name: str) -> None:
    if not name:
        return
    if not _WHOLE_NUMBER.fullmatch(name):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {name}: ids begin at 0")
    if int(name) not in cluster.image.brokers and int(name) not in cluster.image.controllers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {int(name)}")


def _check_broker_settings(
    cluster: ClusterState, key: ConfigKey, settings: Mapping[str, str], changed: frozenset[str]
) -> None:
    per_broker = key != CLUSTER_DEFAULT
    wrong = changes.check_broker_settings(
        cluster.config,
        settings,
        before=cluster.image.config_of(*key),
        per_broker=per_broker,
        changed=changed,
        is_own=key.name == str(cluster.config.node_id),
    )
    if wrong is None:
        return
    # A broker's setting is the request's fault, as Kafka has it: the broker refuses before the controller
    # decides.
    raise ApiError(ErrorCode.INVALID_REQUEST, wrong.for_clients)


def _check_client_metrics(settings: Mapping[str, str]) -> None:
    try:
        for name, value in settings.items():
            if name not in CLIENT_METRICS:
                raise unknown_setting(name, CLIENT_METRICS, "client metrics")
            parse(CLIENT_METRICS[name], value)
    except SettingError as wrong:
        told = wrong.for_clients
        if wrong.setting == "interval.ms" and "Value must be" in told:
            told = (
                f"Invalid value {settings[wrong.setting]} for interval.ms, interval must be between 100 and "
                "3600000 (1 hour)"
            )
        raise ApiError(ErrorCode.INVALID_REQUEST, told) from wrong
    try:
        parse_match(settings.get("match", ""))
    except ValueError as wrong:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {wrong}") from wrong


def _raise(wrong: SettingError | None) -> None:
    if wrong is not None:
        raise ApiError(ErrorCode.INVALID_CONFIG, wrong.for_clients) from wrong
