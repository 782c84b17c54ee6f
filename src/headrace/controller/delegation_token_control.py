"""Delegation tokens (Kafka's DelegationTokenControlManager): made, renewed, ended, and swept away.

A request comes with whoever asks, because that decides: a token is its owner's, and only the owner, who asked
for it, and the renewers that were named may renew or end it. Times are of the wall clock. What the log keeps
of a token does not contain its secret.
"""

import random
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import new_uuid, uuid_text
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import RECORDS_PER_REQUEST_MAX, ControllerResult
from headrace.metadata.features import METADATA_VERSION
from headrace.security.delegation_token import find_by_hmac, token_hmac
from headrace.wire.schemas.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.wire.schemas.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headrace.wire.schemas.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from headrace.wire.schemas.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

TOKENS_SINCE: Final = 14
"""The metadata.version whose brokers know these records, 3.6-IV2."""

SECRET: Final = "delegation.token.secret.key"
USER: Final = "User"

TokenRequest = CreateDelegationTokenRequest | RenewDelegationTokenRequest | ExpireDelegationTokenRequest


class AskedForToken(NamedTuple):
    """A request about tokens, and the principal that it comes from."""

    requester: str
    request: TokenRequest


def change_token(
    cluster: ClusterState, asked: AskedForToken, *, now_ms: int, rng: random.Random
) -> ControllerResult[Any]:
    secret = cluster.config.str(SECRET)
    if not secret:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, f"{SECRET} is not set: there are no tokens")
    if cluster.image.finalized_features().get(METADATA_VERSION, 0) < TOKENS_SINCE:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "the current metadata.version has no delegation tokens")
    request = asked.request
    if isinstance(request, CreateDelegationTokenRequest):
        return _create(cluster, asked.requester, request, secret, now_ms, rng)
    if isinstance(request, RenewDelegationTokenRequest):
        return _renew(cluster, asked.requester, request, secret, now_ms)
    return _expire(cluster, asked.requester, request, secret, now_ms)


def owner_of(requester: str, request: CreateDelegationTokenRequest) -> str:
    """Whose the token shall be: the requester's, where nobody else is named (KIP-373)."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def refused_creation(
    code: ErrorCode, requester: str, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """The reply of a token that is not made."""
    times: dict[str, Any] = {"issue_timestamp_ms": -1, "expiry_timestamp_ms": -1, "max_timestamp_ms": -1}
    return CreateDelegationTokenResponse(error_code=code, **_names(requester, request), **times)


def _names(requester: str, request: CreateDelegationTokenRequest) -> dict[str, Any]:
    owner_type, _, owner = owner_of(requester, request).partition(":")
    requester_type, _, name = requester.partition(":")
    return {
        "principal_type": owner_type,
        "principal_name": owner,
        "token_requester_principal_type": requester_type,
        "token_requester_principal_name": name,
    }


def _create(
    cluster: ClusterState,
    requester: str,
    request: CreateDelegationTokenRequest,
    secret: str,
    now_ms: int,
    rng: random.Random,
) -> ControllerResult[CreateDelegationTokenResponse]:
    if any(each.principal_type != USER for each in request.renewers):
        refusal = refused_creation(ErrorCode.INVALID_PRINCIPAL_TYPE, requester, request)
        return ControllerResult((), refusal)
    lifetime_ms = cluster.config.int("delegation.token.max.lifetime.ms")
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = now_ms + lifetime_ms
    record = DelegationTokenRecord(
        owner=owner_of(requester, request),
        requester=requester,
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, now_ms + cluster.config.int("delegation.token.expiry.time.ms")),
        token_id=uuid_text(new_uuid(rng)),
    )
    reply = CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        **_names(requester, request),
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=record.token_id,
        hmac=token_hmac(secret, record.token_id),
    )
    return ControllerResult([record], reply)


def _renew(
    cluster: ClusterState, requester: str, request: RenewDelegationTokenRequest, secret: str, now_ms: int
) -> ControllerResult[RenewDelegationTokenResponse]:
    token = _find(cluster, secret, request.hmac)
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_requester(token, requester)
    period_ms = cluster.config.int("delegation.token.expiry.time.ms")
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = _with_expiration(token, now_ms + period_ms)
    reply = RenewDelegationTokenResponse(ErrorCode.NONE, renewed.expiration_timestamp)
    return ControllerResult([renewed], reply)


def _expire(
    cluster: ClusterState, requester: str, request: ExpireDelegationTokenRequest, secret: str, now_ms: int
) -> ControllerResult[ExpireDelegationTokenResponse]:
    token = _find(cluster, secret, request.hmac)
    _check_requester(token, requester)
    if request.expiry_time_period_ms < 0:
        gone = RemoveDelegationTokenRecord(token_id=token.token_id)
        return ControllerResult([gone], ExpireDelegationTokenResponse(ErrorCode.NONE, now_ms))
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    shortened = _with_expiration(token, now_ms + request.expiry_time_period_ms)
    reply = ExpireDelegationTokenResponse(ErrorCode.NONE, shortened.expiration_timestamp)
    return ControllerResult([shortened], reply)


def expired_tokens(cluster: ClusterState, now_ms: int) -> ControllerResult[bool]:
    """Forget tokens whose time is over; True where there are more."""
    expired = [each for each in cluster.image.security.tokens.values() if is_expired(each, now_ms)]
    gone = expired[:RECORDS_PER_REQUEST_MAX]
    records = [RemoveDelegationTokenRecord(token_id=each.token_id) for each in gone]
    return ControllerResult(records, len(gone) < len(expired))


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def may_handle(token: DelegationTokenRecord, principals: Iterable[str]) -> bool:
    """Whether one of them is the token's owner, asked for it, or may renew it."""
    return any(each in (token.owner, token.requester, *token.renewers) for each in principals)


def _find(cluster: ClusterState, secret: str, hmac: bytes) -> DelegationTokenRecord:
    tokens = cluster.image.security.tokens
    token_id = find_by_hmac(secret, bytes(hmac), lambda: list(tokens))
    if token_id is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return tokens[token_id]


def _check_requester(token: DelegationTokenRecord, requester: str) -> None:
    if not may_handle(token, [requester]):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _with_expiration(token: DelegationTokenRecord, expiration_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=min(token.max_timestamp, expiration_ms),
        token_id=token.token_id,
    )
