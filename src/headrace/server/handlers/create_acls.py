"""CreateAcls (30), v1-v3: SECURITY_DISABLED for each rule, for no authorizer is configured."""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.create_acls import CreateAclsRequest, CreateAclsResponse


def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    raise ApiError(
        ErrorCode.SECURITY_DISABLED, "this cluster has no access rules: authorizer.class.name is not set"
    )
