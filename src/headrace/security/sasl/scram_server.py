"""SCRAM's server: it finds out who a client is, and proves that it knows the client too.

An unknown user is asked for a proof like a known one, with a salt made up out of the name, and fails where a
wrong password does: nobody learns by the exchange who exists. The nonce of the final message must be the
whole one of this exchange (CVE-2024-56128), the header that it repeats the first message's, and an
authorisation id the user's own name (CVE-2017-12610). Proofs are compared in constant time (CVE-2021-38153).
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import SaslError, refused
from headrace.security.sasl.saslprep import saslprep
from headrace.security.sasl.scram import RandomBytes, ScramCredential, ScramMechanism

_MADE_UP_KEY: Final = b"a salt for a name that nobody has"


class TokenCredential(NamedTuple):
    """What a server has of a delegation token."""

    credential: ScramCredential
    owner: str
    expires_at_ms: int


FindUser = Callable[[str, ScramMechanism], ScramCredential | None]
FindToken = Callable[[str, ScramMechanism], TokenCredential | None]


class ScramServer:
    """`find_user` and `find_token` give what is stored, None where nothing is. `secret` is this process's:
    salts that are made up follow from it."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_user: FindUser,
        find_token: FindToken,
        *,
        random_bytes: RandomBytes,
        secret: bytes,
    ) -> None:
        self._mechanism = mechanism
        self._find_user = find_user
        self._find_token = find_token
        self._secret = secret
        self._server_nonce = scram.new_nonce(random_bytes)
        self._first: scram.ClientFirst | None = None
        self._server_first = ""
        self._nonce = ""
        self._credential: ScramCredential | None = None
        self._owner = ""
        self.is_complete = False
        self.authorization_id = ""
        self.expires_at_ms: int | None = None
        self.is_token = False

    def evaluate(self, response: bytes) -> bytes:
        if self.is_complete:
            raise SaslError("the exchange is over, and there is more")
        return self._begin(response) if self._first is None else self._finish(self._first, response)

    def _begin(self, response: bytes) -> bytes:
        first = scram.parse_client_first(response)
        self._find(first)
        if first.authzid and first.authzid != first.name:
            raise refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        credential = self._credential or self._made_up(first.name)
        if credential.iterations < scram.ITERATIONS_MIN:
            raise SaslError(f"{credential.iterations} iterations are stored: {scram.ITERATIONS_MIN} at least")
        self._first = first
        self._nonce = first.nonce + self._server_nonce
        salt = scram.encode64(credential.salt)
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _find(self, first: scram.ClientFirst) -> None:
        if first.extensions.get(scram.TOKEN_AUTH) == "true":
            self.is_token = True
            token = self._find_token(first.name, self._mechanism)
            if token is not None:
                self._credential, self._owner, self.expires_at_ms = token
            return
        self._owner = first.name
        self._credential = self._find_user(first.name, self._mechanism)
        if self._credential is None:
            self._find_prepared(first.name)

    def _find_prepared(self, name: str) -> None:
        """The same name in the form that RFC 5802 compares."""
        try:
            prepared = saslprep(name)
        except ValueError:
            return
        if prepared != name:
            self._owner, self._credential = prepared, self._find_user(prepared, self._mechanism)

    def _made_up(self, name: str) -> ScramCredential:
        salt = hmac.digest(self._secret, _MADE_UP_KEY + name.encode(), "sha256")[: scram.SALT_BYTES]
        return ScramCredential(salt, scram.ITERATIONS_MIN, b"", b"")

    def _finish(self, first: scram.ClientFirst, response: bytes) -> bytes:
        final = scram.parse_client_final(response)
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise SaslError("the final message has another nonce than this exchange")
        if final.binding != first.gs2.encode():
            raise SaslError("the final message repeats another header than the first one had")
        text = f"{first.bare},{self._server_first},{final.unproven}".encode()
        credential = self._credential
        if credential is None or not self._is_proof(final.proof, credential, text):
            raise SaslError("the name or the password is wrong")
        self.authorization_id = self._owner
        self.is_complete = True
        signature = hmac.digest(credential.server_key, text, self._mechanism.digest)
        return b"v=" + scram.encode64(signature).encode()

    def _is_proof(self, proof: bytes, credential: ScramCredential, text: bytes) -> bool:
        digest = self._mechanism.digest
        signature = hmac.digest(credential.stored_key, text, digest)
        if len(proof) != len(signature):
            return False
        found = hashlib.new(digest, scram.xor(proof, signature)).digest()
        return hmac.compare_digest(found, credential.stored_key)
