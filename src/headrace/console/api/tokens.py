"""Delegation tokens: who may log in in whose name, and until when (KIP-48).

The HMAC of a token is its password. It is in the answer to whoever makes one, once, and nowhere else: tokens
are listed, renewed and ended by their ids.
"""

import base64
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.clients import DelegationToken
from headrace.clients.errors import RefusedError
from headrace.clients.internals.admin.delegation_tokens import CLUSTERS_CHOICE
from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, names_in, number_of, text_of

_MISSING: Final[dict[int, str]] = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "The brokers make no tokens: they have no "
    "delegation.token.secret.key.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Tokens are for those who log in to the brokers, by "
    "something else than a token.",
}


async def tokens(visit: Visit) -> Any:
    """All that this user may see; `missing` says why there can be none."""
    try:
        found = await visit.admin.describe_delegation_tokens()
    except RefusedError as error:
        if error.code not in _MISSING:
            raise
        return {"tokens": [], "missing": _MISSING[error.code]}
    return {"tokens": [_token_json(each) for each in found], "missing": ""}


def _token_json(token: DelegationToken) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": token.issue_timestamp_ms,
        "expires": token.expiry_timestamp_ms,
        "at_most": token.max_timestamp_ms,
    }


async def create_token(visit: Visit) -> Any:
    """Make one for this user, or for another owner; the only answer that has its secret."""
    body = visit.request.json()
    owner, renewers = text_of(body, "owner", default=""), names_in(body, "renewers")
    visit.details |= {"owner": owner or "who asks", "renewers": renewers}
    made = await visit.admin.create_delegation_token(
        owner=owner or None, renewers=renewers, max_lifetime_ms=_period(body, "lifetime_ms")
    )
    visit.details["token"] = made.token_id
    return {"token": _token_json(made), "hmac": base64.b64encode(made.hmac).decode("ascii")}


async def renew_token(visit: Visit) -> Any:
    token = await _named(visit)
    until_ms = await visit.admin.renew_delegation_token(
        token.hmac, _period(visit.request.json(), "period_ms")
    )
    return {"expires": until_ms}


async def expire_token(visit: Visit) -> Any:
    """End a token now; its id must be given again."""
    token = await _named(visit)
    if text_of(visit.request.json(), "confirm") != token.token_id:
        raise RefusedCallError(400, f"to end the token, confirm it by its id, {token.token_id!r}")
    await visit.admin.expire_delegation_token(token.hmac)
    return {"ended": token.token_id}


def _period(body: dict[str, Any], name: str) -> int:
    period_ms = number_of(body, name, default=CLUSTERS_CHOICE)
    if period_ms <= 0 and period_ms != CLUSTERS_CHOICE:
        raise RefusedCallError(400, f"{name!r} must be above 0")
    return period_ms


async def _named(visit: Visit) -> DelegationToken:
    """The token of a body's id, with its secret: it is what the cluster knows it by."""
    name = text_of(visit.request.json(), "id")
    visit.details["token"] = name
    for each in await visit.admin.describe_delegation_tokens():
        if each.token_id == name:
            return each
    raise RefusedCallError(404, "there is no such token that you may see")
