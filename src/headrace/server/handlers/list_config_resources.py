"""ListConfigResources (74), v0-v1: what has settings (KIP-1142).

v0 lists client metrics subscriptions (KIP-714). v1 lists the types asked for, or all: groups and
subscriptions that have settings of their own, and every topic and broker. UNSUPPORTED_VERSION for a type
that does not exist.
"""

from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.metadata.config_resource import ResourceType
from headrace.metadata.image import MetadataImage
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, in_slices, unless_short
from headrace.wire.schemas.list_config_resources import (
    RESOURCE_TYPES_SINCE,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

ALL: Final = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | Slices[ListConfigResourcesResponse]:
    wanted = request.resource_types or [*ALL]
    if context.api_version < RESOURCE_TYPES_SINCE:
        wanted = [ResourceType.CLIENT_METRICS]
    unknown = [number for number in wanted if number not in ALL]
    if unknown:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"there are no resources of type {unknown[0]}")
    image = context.parts.image
    named = [(number, _names(image, number)) for number in dict.fromkeys(wanted)]
    return unless_short(sum(len(names) for _, names in named), _list(named))


def _list(named: list[tuple[int, list[str]]]) -> Slices[ListConfigResourcesResponse]:
    each = ((name, number) for number, names in named for name in names)
    found = yield from in_slices(each, lambda one: ConfigResource(*one))
    return ListConfigResourcesResponse(config_resources=found)


def _names(image: MetadataImage, resource_type: int) -> list[str]:
    if resource_type == ResourceType.TOPIC:
        return list(image.topics_by_name)
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    return [key.name for key in image.configs if key.resource_type == resource_type]
