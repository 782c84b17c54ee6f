"""Delegation tokens, as whoever has logged in makes, lists, renews and ends them (KIP-48, KIP-373).

A token's HMAC is its password: whoever has it is its owner to the cluster. It is in no `repr`.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from headrace.clients.errors import ClientError, raise_for
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.network_client import NetworkClient
from headrace.wire.schemas.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from headrace.wire.schemas.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from headrace.wire.schemas.expire_delegation_token import ExpireDelegationTokenRequest
from headrace.wire.schemas.renew_delegation_token import RenewDelegationTokenRequest

CLUSTERS_CHOICE: Final = -1
"""A time that is left to the cluster's settings; for the end of a token: now."""


class DelegationToken(NamedTuple):
    """A token, and who may use and renew it until when; times are milliseconds since the epoch."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    hmac: bytes

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, owner={self.owner!r})"


async def create_delegation_token(
    client: NetworkClient,
    *,
    owner: str | None = None,
    renewers: str | Iterable[str] = (),
    max_lifetime_ms: int = CLUSTERS_CHOICE,
) -> DelegationToken:
    """A token of the one who asks, or of another owner."""
    named = tuple(dict.fromkeys(names_of(renewers)))
    owner_type, owner_name = (None, None) if owner is None else _principal(owner)
    request = CreateDelegationTokenRequest(
        owner_type, owner_name, [CreatableRenewers(*_principal(each)) for each in named], max_lifetime_ms
    )

    async def ask() -> DelegationToken:
        made = await client.call(request)
        raise_for(made.error_code, "cannot make a delegation token")
        return DelegationToken(
            made.token_id,
            f"{made.principal_type}:{made.principal_name}",
            _requester(made),
            named,
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
            bytes(made.hmac),
        )

    return await client.patiently(ask)


async def describe_delegation_tokens(
    client: NetworkClient, owners: str | Iterable[str] | None = None
) -> list[DelegationToken]:
    """The tokens that whoever asks may see, of these owners or of all; the oldest first."""
    named = None
    if owners is not None:
        named = [DescribeDelegationTokenOwner(*_principal(each)) for each in names_of(owners)]
    request = DescribeDelegationTokenRequest(named)

    async def ask() -> list[DelegationToken]:
        reply = await client.call(request)
        raise_for(reply.error_code, "cannot list delegation tokens")
        return [_described(each) for each in reply.tokens]

    return sorted(await client.patiently(ask), key=lambda each: (each.issue_timestamp_ms, each.token_id))


async def renew_delegation_token(
    client: NetworkClient, hmac: bytes, renew_period_ms: int = CLUSTERS_CHOICE
) -> int:
    """Give a token more time; when it ends now."""
    request = RenewDelegationTokenRequest(hmac, renew_period_ms)

    async def ask() -> int:
        reply = await client.call(request)
        raise_for(reply.error_code, "cannot renew the delegation token")
        return int(reply.expiry_timestamp_ms)

    return await client.patiently(ask)


async def expire_delegation_token(
    client: NetworkClient, hmac: bytes, expiry_period_ms: int = CLUSTERS_CHOICE
) -> int:
    """End a token, or give it only so much more time; when it ends."""
    request = ExpireDelegationTokenRequest(hmac, expiry_period_ms)

    async def ask() -> int:
        reply = await client.call(request)
        raise_for(reply.error_code, "cannot end the delegation token")
        return int(reply.expiry_timestamp_ms)

    return await client.patiently(ask)


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ClientError(f"{text!r} is no principal: write it as User:alice")
    return kind, name


def _requester(token: Any) -> str:
    """Who asked for it: before v3 (KIP-373) always the owner."""
    if not token.token_requester_principal_name:
        return f"{token.principal_type}:{token.principal_name}"
    return f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"


def _described(token: DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        token.token_id,
        f"{token.principal_type}:{token.principal_name}",
        _requester(token),
        tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
        bytes(token.hmac),
    )
