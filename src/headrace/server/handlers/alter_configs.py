"""AlterConfigs (33), v0-v2: say what all settings of a resource shall be. Deprecated for
IncrementalAlterConfigs.

Each resource succeeds or fails by itself; settings that are not named go back to their defaults. A broker's
own settings are taken by that broker only.
"""

from __future__ import annotations

from asyncio import Future

from headrace.base.errors import ApiError
from headrace.metadata.config_resource import ResourceType
from headrace.server.config_admin import (
    check_changeable,
    check_cordons,
    check_stores,
    reassemble,
    tell_changes,
)
from headrace.server.context import RequestContext
from headrace.settings.changes import CORDONED
from headrace.wire.schemas.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(context: RequestContext, request: AlterConfigsRequest) -> Future[AlterConfigsResponse]:
    refused: dict[int, AlterConfigsResourceResponse] = {}
    for place, resource in enumerate(request.resources):
        if resource.resource_type == ResourceType.BROKER and resource.resource_name:
            try:
                check_changeable(context, resource.resource_name)
                for config in resource.configs:
                    if config.name == CORDONED:
                        check_cordons(context, resource.resource_name, config.value)
                check_stores(context, {each.name: each.value for each in resource.configs}, others_stay=False)
            except ApiError as error:
                refused[place] = AlterConfigsResourceResponse(
                    error.code, error.message, resource.resource_type, resource.resource_name
                )
    left = [resource for place, resource in enumerate(request.resources) if place not in refused]
    decided = context.controller.ask(AlterConfigsRequest(resources=left, validate_only=request.validate_only))
    answer = reassemble(decided, refused, loop=context.parts.loop)
    return tell_changes(context, request.resources, answer, validate_only=request.validate_only)
