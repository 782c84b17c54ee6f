"""DescribeAcls (29), v1-v3: SECURITY_DISABLED, for no authorizer is configured."""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    raise ApiError(
        ErrorCode.SECURITY_DISABLED, "this cluster has no access rules: authorizer.class.name is not set"
    )
