"""DescribeConfigs (32), v1-v4: settings of topics, brokers, groups, client metrics and this broker's loggers.

Each resource succeeds or fails by itself. A broker tells its own settings and, under the empty name, the
cluster's dynamic defaults; others must be asked themselves (INVALID_REQUEST). Values come with where they
come from, on demand with every place that sets them and (v3, KIP-569) with their documentation. Secrets are
never told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.base.error_codes import MALFORMED_TEXT, ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.topic_names import check_name
from headrace.server.config_admin import check_own_id, logger_levels
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, unless_short
from headrace.settings.client_metrics import CLIENT_METRICS
from headrace.settings.definition import ConfigSource, render
from headrace.settings.describe import (
    KIND_NUMBERS,
    DescribedSetting,
    SynonymEntry,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from headrace.wire.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

UNKNOWN_KIND: Final = 0
# Of one resource: a few resources are described at once.
SETTINGS_USUALLY: Final = 50


def handle(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Slices[DescribeConfigsResponse]:
    return unless_short(len(request.resources) * SETTINGS_USUALLY, _describe_all(context, request))


def _describe_all(
    context: RequestContext, request: DescribeConfigsRequest
) -> Slices[DescribeConfigsResponse]:
    results = []
    for resource in request.resources:
        results.append(_describe(context, request, resource))
        yield
    return DescribeConfigsResponse(results=results)


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        entries = _entries(context, resource.resource_type, resource.resource_name)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    keys = set(resource.configuration_keys or ())
    result.configs = [_told(request, entry) for entry in entries if not keys or entry.name in keys]
    return result


def _entries(context: RequestContext, resource_type: int, name: str) -> Iterable[DescribedSetting]:
    image, config = context.parts.image, context.parts.config
    if resource_type == ResourceType.TOPIC:
        check_name(name)
        if name not in image.topics_by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return describe_topic(config, image.topic_config_of(name))
    if resource_type == ResourceType.BROKER:
        if not name:
            return describe_broker_defaults(config)
        check_own_id(
            context,
            name,
            what="Broker",
            unexpected="Unexpected broker id, expected %s or empty string, but received %s",
        )
        return describe_broker(config)
    if resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        check_own_id(
            context, name, what="Broker", unexpected="Unexpected broker id, expected %s but received %s"
        )
        return _loggers()
    if resource_type == ResourceType.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(config, image.config_of(resource_type, name))
    if resource_type == ResourceType.CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return _client_metrics(image.config_of(resource_type, name))
    raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED_TEXT)


def _loggers() -> list[DescribedSetting]:
    return [
        DescribedSetting(name, level, ConfigSource.BROKER_LOGGER, False, False, (), UNKNOWN_KIND, "")
        for name, level in logger_levels().items()
    ]


def _client_metrics(own: dict[str, str]) -> list[DescribedSetting]:
    entries = []
    for name, setting in CLIENT_METRICS.items():
        value = own.get(name, render(setting.default_value))
        synonyms = (SynonymEntry(name, value, ConfigSource.CLIENT_METRICS),) if name in own else ()
        source = ConfigSource.CLIENT_METRICS if name in own else ConfigSource.DEFAULT
        kind = KIND_NUMBERS[setting.kind]
        entries.append(DescribedSetting(name, value, source, False, False, synonyms, kind, setting.doc))
    return entries


def _told(request: DescribeConfigsRequest, entry: DescribedSetting) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(each.name, each.value, each.source) for each in synonyms],
        config_type=entry.kind_number,
        documentation=entry.doc if request.include_documentation else None,
    )
