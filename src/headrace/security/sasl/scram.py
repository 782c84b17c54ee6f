"""SCRAM (RFC 5802, RFC 7677): keys, messages and proofs, for both sides.

A server keeps neither a password nor what could be used in its place: `stored_key` checks a proof and
`server_key` makes the server's own. Three messages go back and forth:

    client-first   n,,n=user,r=CLIENT                     gs2 header, then the bare message
    server-first   r=CLIENTSERVER,s=salt,i=4096
    client-final   c=biws,r=CLIENTSERVER,p=proof
    server-final   v=signature                            or e=error

Everything is parsed whole and strictly: attributes in their order, nothing left over. Extensions come behind
the mandatory ones; Kafka has one, `tokenauth=true` (delegation tokens). Channel binding is not offered: `n`
and `y` are taken, `p=` is refused, and the final message must repeat the header that the first one had.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, SaslError
from headrace.security.sasl.saslprep import saslprep

RandomBytes = Callable[[int], bytes]

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Of credentials that are stored, as in Kafka."""

SALT_BYTES: Final = 24
NONCE_BYTES: Final = 24
TOKEN_AUTH: Final = "tokenauth"


class ScramMechanism(NamedTuple):
    """SCRAM with one hash function; `number` names it in metadata records and requests."""

    name: str
    number: int
    digest: str

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.digest).digest_size


SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = {
    SCRAM_SHA_256: ScramMechanism(SCRAM_SHA_256, 1, "sha256"),
    SCRAM_SHA_512: ScramMechanism(SCRAM_SHA_512, 2, "sha512"),
}
BY_NUMBER: Final = {each.number: each for each in SCRAM_MECHANISMS.values()}


class ScramCredential(NamedTuple):
    """What a server has of a user."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential({self.iterations} iterations)"


def salted_password(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi(password, salt, iterations); SaslError where the password has characters that none may have."""
    try:
        prepared = saslprep(password)
    except ValueError as error:
        raise SaslError(f"the password cannot be used: {error}") from None
    return hashlib.pbkdf2_hmac(digest, prepared.encode(), salt, iterations)


def credential_of(digest: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What is stored of a password that was salted."""
    stored_key = hashlib.new(digest, client_key(digest, salted)).digest()
    return ScramCredential(salt, iterations, stored_key, server_key(digest, salted))


def client_key(digest: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", digest)


def server_key(digest: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", digest)


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def new_nonce(random_bytes: RandomBytes) -> str:
    return base64.b64encode(random_bytes(NONCE_BYTES)).decode()


# Messages

_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_SASLNAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*)"

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>(?P<binding>n|y|p=[A-Za-z0-9.\-]+),(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^,\x00]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    gs2: str
    bare: str
    authzid: str
    name: str
    nonce: str
    extensions: Mapping[str, str]


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    unproven: str
    binding: bytes
    nonce: str
    proof: bytes

    def __repr__(self) -> str:
        return f"ClientFinal({self.nonce!r})"


class ServerFinal(NamedTuple):
    error: str
    signature: bytes


def parse_client_first(message: bytes) -> ClientFirst:
    found = _match(_CLIENT_FIRST, message, "client-first")
    if found["binding"].startswith("p"):
        raise SaslError("channel binding is not offered")
    return ClientFirst(
        found["gs2"],
        found["bare"],
        unescape_name(found["authzid"] or ""),
        unescape_name(found["name"]),
        found["nonce"],
        _extensions(found["extensions"]),
    )


def parse_server_first(message: bytes) -> ServerFirst:
    found = _match(_SERVER_FIRST, message, "server-first")
    return ServerFirst(found["nonce"], _base64(found["salt"]), int(found["iterations"]))


def parse_client_final(message: bytes) -> ClientFinal:
    found = _match(_CLIENT_FINAL, message, "client-final")
    return ClientFinal(found["unproven"], _base64(found["binding"]), found["nonce"], _base64(found["proof"]))


def parse_server_final(message: bytes) -> ServerFinal:
    found = _match(_SERVER_FINAL, message, "server-final")
    return ServerFinal(found["error"] or "", _base64(found["signature"] or ""))


def escape_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def encode64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _match(pattern: re.Pattern[str], message: bytes, kind: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise SaslError(f"a {kind} message that is no UTF-8") from None
    if found is None:
        raise SaslError(f"a {kind} message in another form than RFC 5802's")
    return found


def _extensions(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in text.split(",") if item)
    return {name: value for name, _, value in pairs}


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslError("a SCRAM message with bad base 64") from None
