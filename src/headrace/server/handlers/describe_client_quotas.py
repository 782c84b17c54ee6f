"""DescribeClientQuotas (48), v0-v1: the quotas that a filter finds (KIP-546), out of this node's image.

A filter has a component for each type of entity: this name, the default, or any. Entities that have more
types than the filter are found too, unless it is `strict`. INVALID_REQUEST where a component makes no sense,
UNSUPPORTED_VERSION for a type of entity that does not exist.
"""

from headrace.metadata.client_quotas import describe_client_quotas
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def handle(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    entries = describe_client_quotas(context.parts.image.security, request)
    return DescribeClientQuotasResponse(entries=entries)
