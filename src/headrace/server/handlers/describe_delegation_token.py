"""DescribeDelegationToken (41), v1-v3: the tokens of some owners, or all, that the requester may see.

Owners, requesters and renewers see their tokens; others need Describe on the token, or DescribeTokens on its
owner. DELEGATION_TOKEN_REQUEST_NOT_ALLOWED where the requester is not known, or by a token only;
DELEGATION_TOKEN_AUTH_DISABLED where the cluster has no secret for tokens. Told by this node's image.
"""

from __future__ import annotations

from headrace.base.error_codes import ErrorCode
from headrace.controller.delegation_token_control import SECRET, may_handle
from headrace.security.delegation_token import token_hmac
from headrace.server.authorizer import Operation, Resource, allows
from headrace.server.context import RequestContext
from headrace.server.delegation_tokens import may_ask
from headrace.server.long_requests import Slices, in_slices, unless_short
from headrace.wire.schemas.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headrace.wire.schemas.metadata_records import DelegationTokenRecord


def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse | Slices[DescribeDelegationTokenResponse]:
    secret = context.parts.config.str(SECRET)
    if not may_ask(context):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not secret:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    stored = [*context.parts.image.security.tokens.values()]
    return unless_short(max(len(stored), len(owners or ())), _describe(context, owners, stored, secret))


def _describe(
    context: RequestContext, owners: list[str] | None, stored: list[DelegationTokenRecord], secret: str
) -> Slices[DescribeDelegationTokenResponse]:
    def described(token: DelegationTokenRecord) -> DescribedDelegationToken | None:
        is_wanted = (owners is None or may_handle(token, owners)) and _may_see(context, token)
        return _described(token, secret) if is_wanted else None

    found = yield from in_slices(stored, described)
    return DescribeDelegationTokenResponse(ErrorCode.NONE, [each for each in found if each is not None])


def _may_see(context: RequestContext, token: DelegationTokenRecord) -> bool:
    return (
        may_handle(token, [context.peer.principal])
        or allows(context, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
        or allows(context, Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def _described(token: DelegationTokenRecord, secret: str) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = (each.partition(":") for each in token.renewers)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[DescribedDelegationTokenRenewer(kind, name) for kind, _, name in renewers],
    )
