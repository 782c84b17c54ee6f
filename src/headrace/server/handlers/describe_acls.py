"""DescribeAcls (29), v1-v3: the rules that a filter names, by resource.

They are those that this node answers by now. SECURITY_DISABLED without an authorizer; INVALID_REQUEST for a
filter with numbers that mean nothing, where Apache Kafka hangs up.
"""

from __future__ import annotations

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.acl_control import filter_of
from headrace.security.acl import Acl, AclFilter
from headrace.server.authorizer import is_configured
from headrace.server.context import RequestContext
from headrace.server.long_requests import SLICE_ITEMS, Slices, unless_short
from headrace.wire.schemas.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(
    context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | Slices[DescribeAclsResponse]:
    if not is_configured(context.parts.authorizer):
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = filter_of(request)
    acls = context.parts.image.security.acls
    return unless_short(len(acls), _describe(wanted, [*acls.values()]))


def _describe(wanted: AclFilter, acls: list[Acl]) -> Slices[DescribeAclsResponse]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for number, acl in enumerate(acls, 1):
        if not number % SLICE_ITEMS:
            yield
        if wanted.matches(acl):
            key = acl.resource_type, acl.resource_name, acl.pattern_type
            resource = resources.setdefault(key, DescribeAclsResource(*key))
            resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type))
    return DescribeAclsResponse(resources=list(resources.values()))
