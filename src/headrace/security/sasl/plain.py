"""PLAIN (RFC 4616): a name and a password in the clear, for connections that are encrypted or trusted.

One message, `[authorisation id] NUL name NUL password`. An authorisation id that is given must be the name
itself: nobody acts as somebody else (CVE-2017-12610). The password is compared in constant time, with
something of an unknown user too, so that time tells neither who exists nor how far a guess was right
(CVE-2021-38153).
"""

import hmac
from collections.abc import Mapping

from headrace.security.sasl.mechanism import SaslError, refused


class PlainServer:
    """`passwords` are those of this listener's users, by name."""

    is_token = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.is_complete = False
        self.authorization_id = ""
        self.expires_at_ms: int | None = None

    def evaluate(self, response: bytes) -> bytes:
        authorization_id, name, password = _parse(response)
        expected = self._passwords.get(name)
        is_right = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not is_right:
            raise refused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authorization_id = name
        self.is_complete = True
        return b""


def _parse(response: bytes) -> tuple[str, str, str]:
    try:
        tokens = response.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslError("a PLAIN message that is no UTF-8") from None
    if len(tokens) != 3:
        raise SaslError(f"a PLAIN message has 3 parts, this one {len(tokens)}")
    authorization_id, name, password = tokens
    if not name or not password:
        raise SaslError("a PLAIN message without a name, or without a password")
    return authorization_id, name, password


class PlainClient:
    """Says who it is, and hears by the reply's error code whether that was right."""

    def __init__(self, name: str, password: str) -> None:
        self._message = f"\0{name}\0{password}".encode()
        self.is_complete = False

    def first(self) -> bytes:
        self.is_complete = True
        return self._message

    def evaluate(self, challenge: bytes) -> bytes | None:
        return None
