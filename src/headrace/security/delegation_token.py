"""Delegation tokens (KIP-48): a password that stands for its owner, for as long as the cluster says.

A token's secret is an HMAC of its id under the cluster's own secret (delegation.token.secret.key): nobody has
to store it. In base 64 it is the password of a SCRAM login with `tokenauth=true`, whose name is the id.
"""

import base64
import hmac
from collections.abc import Callable
from functools import lru_cache

from headrace.security.sasl import scram
from headrace.security.sasl.scram import ScramCredential, ScramMechanism

KEPT_MAX = 10_000
"""Credentials of tokens that are kept, because making one takes some milliseconds."""


@lru_cache(KEPT_MAX)
def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def is_same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)


@lru_cache(KEPT_MAX)
def token_credential(secret: str, token_id: str, mechanism: ScramMechanism, salt: bytes) -> ScramCredential:
    """What a login with the token is checked by."""
    password = base64.b64encode(token_hmac(secret, token_id)).decode()
    salted = scram.salted_password(mechanism.digest, password, salt, scram.ITERATIONS_MIN)
    return scram.credential_of(mechanism.digest, salted, salt, scram.ITERATIONS_MIN)


def salt_of(token_id: str, process_secret: bytes, mechanism: ScramMechanism) -> bytes:
    """One that stays the same while this process runs, as that of a user does."""
    text = f"{mechanism.name} {token_id}".encode()
    return hmac.digest(process_secret, text, "sha256")[: scram.SALT_BYTES]


def find_by_hmac(secret: str, wanted: bytes, token_ids: Callable[[], list[str]]) -> str | None:
    """The token that has this secret."""
    found = None
    for token_id in token_ids():
        if is_same(token_hmac(secret, token_id), wanted):
            found = token_id
    return found
