"""OAUTHBEARER (RFC 7628): a token that somebody else signed says who a client is.

    n,a=name,^Aauth=Bearer TOKEN^Akey=value^A^A          ^A is the character 1

A token that is not accepted is answered with a small JSON text, as the RFC has it; the client says ^A to
that, and then the exchange has failed. What is accepted is for `jwt_validator.py` to say. An authorisation id
that is given must be the token's own user.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.security.sasl.mechanism import SaslError, refused

SEPARATOR: Final = "\x01"

_SASLNAME: Final = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_BEARER: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


class OAuthBearerToken(NamedTuple):
    """A token that was accepted: whose it is, and until when."""

    principal_name: str
    expires_at_ms: int
    scope: frozenset[str]


class InvalidTokenError(Exception):
    """A token that is not accepted. The reason is for this side's log, and has nothing of the token."""


class OAuthBearerServer:
    """`validate` gives what a token says, or raises InvalidTokenError."""

    is_token = False

    def __init__(self, validate: Callable[[str], OAuthBearerToken]) -> None:
        self._validate = validate
        self._failure = ""
        self._reason = ""
        self.is_complete = False
        self.authorization_id = ""
        self.expires_at_ms: int | None = None

    def evaluate(self, response: bytes) -> bytes:
        if self._failure:
            # Whatever comes now, the exchange has failed; the RFC has the client say ^A.
            raise SaslError(self._reason, told=self._failure)
        authorization_id, value = _parse(response)
        try:
            token = self._validate(value)
        except InvalidTokenError as error:
            self._reason = str(error)
            self._failure = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._failure.encode()
        if authorization_id and authorization_id != token.principal_name:
            raise refused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is "
                f"different from the token's principal name ({token.principal_name})"
            )
        self.authorization_id = token.principal_name
        self.expires_at_ms = token.expires_at_ms
        self.is_complete = True
        return b""


def _parse(response: bytes) -> tuple[str, str]:
    """The authorisation id and the token of a first message."""
    try:
        found = _FIRST.fullmatch(response.decode())
    except UnicodeDecodeError:
        raise SaslError("an OAUTHBEARER message that is no UTF-8") from None
    if found is None:
        raise SaslError("an OAUTHBEARER message in another form than RFC 7628's")
    pairs = dict(item.split("=", 1) for item in found["pairs"].split(SEPARATOR) if item)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise SaslError("an OAUTHBEARER message without a bearer token")
    authorization_id = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return authorization_id, bearer["token"]


class OAuthBearerClient:
    """Hands over a token. `extensions` are further pairs, as some clouds want them."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _BEARER.fullmatch(f"Bearer {token}"):
            raise SaslError("what should be a token has characters that no token has")
        for name, value in (extensions or {}).items():
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise SaslError(
                    "a SASL extension's name has letters only and is not `auth`, its value is ASCII"
                )
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        self._message = "n,," + SEPARATOR + "".join(f"{k}={v}{SEPARATOR}" for k, v in pairs.items())
        self.is_complete = False

    def first(self) -> bytes:
        return (self._message + SEPARATOR).encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        if challenge:
            return SEPARATOR.encode()  # the server has said what is wrong, and says so again with its error
        self.is_complete = True
        return None
