"""Users who log in by SCRAM, as an administrator lists, makes, changes and removes them (KIP-554).

A password is salted and hashed here: neither the request nor the cluster ever has it.
"""

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.clients.errors import ClientError, raise_for
from headrace.clients.internals.arguments import names_of
from headrace.clients.internals.network_client import NetworkClient
from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import SCRAM_SHA_512, SaslError
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.wire.schemas.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

SCRAM_ITERATIONS: Final = 4096
"""Where nobody says otherwise: what Kafka's own tool takes."""


class UserScramCredential(NamedTuple):
    """One way in which a user may log in."""

    user: str
    mechanism: str
    iterations: int


class UserScramCredentialUpsertion(NamedTuple):
    """A user's new password for a mechanism; the user is made where there is none."""

    user: str
    password: str
    mechanism: str = SCRAM_SHA_512
    iterations: int = SCRAM_ITERATIONS

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.mechanism!r})"


class UserScramCredentialDeletion(NamedTuple):
    """A mechanism by which a user shall no longer log in."""

    user: str
    mechanism: str = SCRAM_SHA_512


Alteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


async def describe_user_scram_credentials(
    client: NetworkClient, users: str | Iterable[str] | None = None
) -> list[UserScramCredential]:
    """What these users have, or all; one that the cluster does not have is left out."""
    names = None if users is None else [UserName(name) for name in dict.fromkeys(names_of(users))]
    if names is not None and not names:
        return []
    request = DescribeUserScramCredentialsRequest(names)

    async def ask() -> list[UserScramCredential]:
        reply = await client.call(request)
        raise_for(reply.error_code, "cannot list users", reply.error_message)
        found = []
        for result in reply.results:
            if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                raise_for(result.error_code, f"cannot describe user {result.user}", result.error_message)
            found += [
                UserScramCredential(result.user, _name(each.mechanism), each.iterations)
                for each in result.credential_infos
            ]
        return sorted(found)

    return await client.patiently(ask)


async def alter_user_scram_credentials(
    client: NetworkClient, alterations: Alteration | Iterable[Alteration]
) -> None:
    """Make these changes; the first user whose changes are refused is named in the error."""
    one = isinstance(alterations, UserScramCredentialUpsertion | UserScramCredentialDeletion)
    wanted: list[Alteration] = [alterations] if one else list(alterations)  # type: ignore[list-item, arg-type]
    request = AlterUserScramCredentialsRequest(
        [
            ScramCredentialDeletion(each.user, _mechanism(each.mechanism).number)
            for each in wanted
            if isinstance(each, UserScramCredentialDeletion)
        ],
        [_upsertion(each) for each in wanted if isinstance(each, UserScramCredentialUpsertion)],
    )

    async def ask() -> None:
        for result in (await client.call(request)).results:
            raise_for(result.error_code, f"cannot change user {result.user}", result.error_message)

    await client.patiently(ask)


def _upsertion(given: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    mechanism = _mechanism(given.mechanism)
    if not given.password:
        raise ClientError(f"user {given.user}: the password is empty")
    # Others must not be able to guess it: not the client's own chance, which a test may choose.
    salt = random.SystemRandom().randbytes(scram.SALT_BYTES)
    try:
        salted = scram.salted_password(mechanism.digest, given.password, salt, given.iterations)
    except SaslError as error:
        raise ClientError(f"user {given.user}: {error}") from None
    return ScramCredentialUpsertion(given.user, mechanism.number, given.iterations, salt, salted)


def _mechanism(name: str) -> scram.ScramMechanism:
    found = scram.SCRAM_MECHANISMS.get(name.upper())
    if found is None:
        raise ClientError(f"{name!r} is no SCRAM mechanism: it is one of {', '.join(scram.SCRAM_MECHANISMS)}")
    return found


def _name(number: int) -> str:
    found = scram.BY_NUMBER.get(number)
    return str(number) if found is None else found.name
