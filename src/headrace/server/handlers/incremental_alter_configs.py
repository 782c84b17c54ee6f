"""IncrementalAlterConfigs (44), v0-v1: set, delete, append to or subtract from single settings (KIP-339).

Each resource succeeds or fails by itself. The controller decides about topics, brokers, groups and client
metrics; the levels of loggers (KIP-412) are this process's own and change at once. A broker's own settings
are taken by that broker only: INVALID_REQUEST for another's.
"""

from __future__ import annotations

from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.configuration_control import ConfigOperation
from headrace.metadata.config_resource import ResourceType
from headrace.server.config_admin import (
    ROOT,
    check_changeable,
    check_cordons,
    check_level,
    check_logger,
    check_own_id,
    check_stores,
    reassemble,
    set_logger_level,
    tell_changes,
    unset_logger_level,
)
from headrace.server.context import RequestContext
from headrace.settings.changes import CORDONED
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Future[IncrementalAlterConfigsResponse]:
    here: dict[int, AlterConfigsResourceResponse] = {}
    for place, resource in enumerate(request.resources):
        result = _handled_here(context, resource, validate_only=request.validate_only)
        if result is not None:
            here[place] = result
    left = [resource for place, resource in enumerate(request.resources) if place not in here]
    decided = context.controller.ask(
        IncrementalAlterConfigsRequest(resources=left, validate_only=request.validate_only)
    )
    answer = reassemble(decided, here, loop=context.parts.loop)
    return tell_changes(context, request.resources, answer, validate_only=request.validate_only)


def _handled_here(
    context: RequestContext, resource: AlterConfigsResource, *, validate_only: bool
) -> AlterConfigsResourceResponse | None:
    """The result of a resource that the controller need not see, or must not."""
    result = AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
    try:
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            check_own_id(
                context,
                resource.resource_name,
                unexpected="Unexpected node id. Expected %s, but received %s",
            )
            _alter_loggers(resource.configs, validate_only=validate_only)
            return result
        if resource.resource_type == ResourceType.BROKER and resource.resource_name:
            check_changeable(context, resource.resource_name)
            for config in resource.configs:
                adds = config.config_operation in (ConfigOperation.SET, ConfigOperation.APPEND)
                if config.name == CORDONED and adds:
                    check_cordons(context, resource.resource_name, config.value)
            changes = {
                each.name: each.value if each.config_operation == ConfigOperation.SET else None
                for each in resource.configs
                if each.config_operation in (ConfigOperation.SET, ConfigOperation.DELETE)
            }
            check_stores(context, changes, others_stay=True)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    return None


def _alter_loggers(configs: list[AlterableConfig], *, validate_only: bool) -> None:
    """All changes or none."""
    for config in configs:
        check_logger(config.name)
        if config.config_operation == ConfigOperation.SET:
            check_level(config.name, config.value)
        elif config.config_operation != ConfigOperation.DELETE:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a logger's level can be set or deleted only")
        elif config.name == ROOT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the logger {ROOT} must have a level: set another, do not delete it",
            )
    if validate_only:
        return
    for config in configs:
        if config.config_operation == ConfigOperation.SET and config.value is not None:
            set_logger_level(config.name, config.value)
        else:
            unset_logger_level(config.name)
