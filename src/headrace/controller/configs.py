"""IncrementalAlterConfigs and AlterConfigs: settings of topics, brokers, groups and client metrics.

The first changes single settings; the second, which is deprecated, says what the whole set shall be. Each
resource succeeds or fails by itself. What a broker must do with settings of its own process (BROKER_LOGGER)
never gets here.

A change of min.insync.replicas makes what is known of eligible leaders worthless: they were chosen by the
old number. A ClearElrRecord forgets them (KIP-966). For the same reason the number must be the same on all
brokers while eligible leaders are in use: only topics and the cluster's default may set it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster import Cluster
from headrace.controller.config_checks import check_resource, check_settings, is_list, setting_of
from headrace.controller.decision import Decision, check_size
from headrace.metadata.features import ELR_VERSION
from headrace.metadata.image import MetadataRecord
from headrace.metadata.resources import CLUSTER_DEFAULT, ConfigKey, ResourceType
from headrace.settings.definition import render
from headrace.settings.topic import TOPIC, topic_value
from headrace.wire.schemas import alter_configs as legacy
from headrace.wire.schemas import incremental_alter_configs as incremental
from headrace.wire.schemas.metadata_records import ClearElrRecord, ConfigRecord

MIN_ISR: Final = "min.insync.replicas"

Changes = Mapping[str, str | None]
"""New values by name; None removes."""

_Resource = TypeVar("_Resource", incremental.AlterConfigsResource, legacy.AlterConfigsResource)


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    cluster: Cluster, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
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
    return Decision(() if request.validate_only else records, response)


def alter_configs(
    cluster: Cluster, request: legacy.AlterConfigsRequest
) -> Decision[legacy.AlterConfigsResponse]:
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
    return Decision(() if request.validate_only else records, legacy.AlterConfigsResponse(responses=results))


def _alter_each(
    cluster: Cluster,
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
            check_size([*records, *made])
            records += made
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    return records


def _current(cluster: Cluster, key: ConfigKey) -> Mapping[str, str]:
    return cluster.image.config_of(*key)


def _check_listed_once(times: int, names: Counter[str]) -> None:
    if times > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "this resource is in the request more than once: put all its changes into one entry",
        )
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        message = f"changed more than once in one request: {', '.join(twice)}"
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_not_null(names: Iterable[str]) -> None:
    nulls = ", ".join(names)
    if nulls:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"no value is given for {nulls}; to go back to the default, delete the setting",
        )


def _incremental_changes(
    cluster: Cluster, key: ConfigKey, configs: list[incremental.AlterableConfig]
) -> Changes:
    """What each setting shall be after its operation."""
    _check_not_null(c.name for c in configs if c.value is None and c.config_operation != Operation.DELETE)
    current = _current(cluster, key)
    changes: dict[str, str | None] = {}
    for config in configs:
        if config.config_operation == Operation.SET:
            changes[config.name] = config.value
        elif config.config_operation == Operation.DELETE:
            changes[config.name] = None
        elif config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            changes[config.name] = _edited_list(key, config, current.get(config.name))
        else:
            message = f"operation {config.config_operation} on {config.name}: known are " + ", ".join(
                f"{each.value} ({each.name})" for each in Operation
            )
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    return changes


def _edited_list(key: ConfigKey, config: incremental.AlterableConfig, current: str | None) -> str:
    """A list with values added or taken away, from its default where nothing is set."""
    operation = Operation(config.config_operation)
    if not is_list(key.resource_type, config.name):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{operation.name} is for lists, and {config.name} is a single value: set it instead",
        )
    if current is None:
        setting = setting_of(key.resource_type, config.name)
        current = "" if setting is None else render(setting.default_value) or ""
    values = [value for value in current.split(",") if value]
    for value in (config.value or "").split(","):
        if operation is Operation.SUBTRACT:
            values = [kept for kept in values if kept != value]
        elif value not in values:
            values.append(value)
    return ",".join(values)


def _alter(cluster: Cluster, key: ConfigKey, changes: Changes) -> list[MetadataRecord]:
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


def _check_min_isr_change(cluster: Cluster, key: ConfigKey, changes: Changes) -> None:
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


def _cleared_elr(cluster: Cluster, key: ConfigKey, changes: Changes) -> list[MetadataRecord]:
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
