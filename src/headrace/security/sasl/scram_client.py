"""SCRAM's client: it proves a password without telling it, and has the server prove that it knows it.

The server's nonce must go on with the client's, its number of iterations lie within bounds (a server that
asks for billions would keep the client at work for hours, CVE-2026-10143 of another client; one that asks for
few makes guessing cheap), and its signature be right: one that cannot sign is not the server that the
password was given to.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import SaslError
from headrace.security.sasl.saslprep import saslprep
from headrace.security.sasl.scram import RandomBytes, ScramMechanism

CLIENT_ITERATIONS_MAX: Final = 131_072
"""Some tenth of a second; Kafka's own limit for what it stores is 16,384."""


class ScramClient:
    """`extensions` are sent with the first message."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        name: str,
        password: str,
        *,
        random_bytes: RandomBytes,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = scram.new_nonce(random_bytes)
        more = "".join(f",{key}={value}" for key, value in (extensions or {}).items())
        self._bare = f"n={scram.escape_name(_prepared(name))},r={self._nonce}{more}"
        self._signature: bytes | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return b"n,," + self._bare.encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._signature is None:
            return self._prove(challenge)
        self._check(challenge, self._signature)
        return None

    def _prove(self, challenge: bytes) -> bytes:
        server_first = scram.parse_server_first(challenge)
        if not server_first.nonce.startswith(self._nonce) or server_first.nonce == self._nonce:
            raise SaslError("the server's nonce does not go on with this client's")
        if not scram.ITERATIONS_MIN <= server_first.iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslError(
                f"the server asks for {server_first.iterations} iterations: "
                f"{scram.ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX} are done"
            )
        digest = self._mechanism.digest
        salted = scram.salted_password(digest, self._password, server_first.salt, server_first.iterations)
        unproven = f"c={scram.encode64(b'n,,')},r={server_first.nonce}"
        text = f"{self._bare},{challenge.decode()},{unproven}".encode()
        credential = scram.credential_of(digest, salted, server_first.salt, server_first.iterations)
        signature = hmac.digest(credential.stored_key, text, digest)
        proof = scram.xor(scram.client_key(digest, salted), signature)
        self._signature = hmac.digest(credential.server_key, text, digest)
        return f"{unproven},p={scram.encode64(proof)}".encode()

    def _check(self, challenge: bytes, signature: bytes) -> None:
        server_final = scram.parse_server_final(challenge)
        if server_final.error:
            raise SaslError(f"the server refuses: {server_final.error[:200]!r}")
        if not hmac.compare_digest(server_final.signature, signature):
            raise SaslError("the server does not know the password: it may be another than it says")
        self.is_complete = True


def _prepared(name: str) -> str:
    try:
        return saslprep(name)
    except ValueError as error:
        raise SaslError(f"the user name cannot be used: {error}") from None
