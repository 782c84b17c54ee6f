"""CreateAcls (30), v1-v3: make rules. Each is made or refused by itself (`controller/acl_control.py`).

SECURITY_DISABLED for all of them without an authorizer: rules that nobody asks for would be a false promise.
"""

from __future__ import annotations

import logging
from asyncio import Future

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.security.acl import described
from headrace.server.authorizer import is_configured
from headrace.server.context import RequestContext
from headrace.wire.schemas.create_acls import CreateAclsRequest, CreateAclsResponse

logger = logging.getLogger(__name__)


def handle(context: RequestContext, request: CreateAclsRequest) -> Future[CreateAclsResponse]:
    if not is_configured(context.parts.authorizer):
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    answer: Future[CreateAclsResponse] = context.controller.ask(request, api_version=context.api_version)

    def tell(done: Future[CreateAclsResponse]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for creation, result in zip(request.creations, done.result().results, strict=True):
            if not result.error_code:
                logger.info(
                    "ACL made by client %r at %s: %s",
                    *(context.client_id, context.peer),
                    described(
                        creation.resource_type,
                        creation.resource_name,
                        creation.resource_pattern_type,
                        creation.principal,
                        creation.host,
                        creation.operation,
                        creation.permission_type,
                    ),
                )

    answer.add_done_callback(tell)
    return answer
