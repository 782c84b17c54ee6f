"""DeleteAcls (31), v1-v3: SECURITY_DISABLED for each filter, for no authorizer is configured."""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_acls import DeleteAclsRequest, DeleteAclsResponse


def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    raise ApiError(
        ErrorCode.SECURITY_DISABLED, "this cluster has no access rules: authorizer.class.name is not set"
    )
