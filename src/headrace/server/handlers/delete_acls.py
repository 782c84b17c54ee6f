"""DeleteAcls (31), v1-v3: take rules away that filters name; the reply tells which
(`controller/acl_control.py`).

SECURITY_DISABLED for all of them without an authorizer.
"""

from __future__ import annotations

import logging
from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.security.acl import described
from headrace.server.authorizer import is_configured
from headrace.server.context import RequestContext
from headrace.wire.schemas.delete_acls import DeleteAclsRequest, DeleteAclsResponse

logger = logging.getLogger(__name__)


def handle(context: RequestContext, request: DeleteAclsRequest) -> Future[DeleteAclsResponse]:
    if not is_configured(context.parts.authorizer):
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    answer: Future[DeleteAclsResponse] = context.controller.ask(request, api_version=context.api_version)

    def tell(done: Future[DeleteAclsResponse]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for result in done.result().filter_results:
            for acl in result.matching_acls:
                logger.info(
                    "ACL taken away by client %r at %s: %s",
                    *(context.client_id, context.peer),
                    described(
                        acl.resource_type,
                        acl.resource_name,
                        acl.pattern_type,
                        acl.principal,
                        acl.host,
                        acl.operation,
                        acl.permission_type,
                    ),
                )

    answer.add_done_callback(tell)
    return answer
