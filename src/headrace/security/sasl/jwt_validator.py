"""Whether a JSON web token (RFC 7519) is accepted, and whose it is.

It must be signed by a key of the issuer's set (JWKS), with an algorithm of the list: only ones with a public
key, so that nobody signs with what everybody may read. It must name the issuer that is expected and one of
the audiences, have a user, and be in its time. There is no way to leave one of these out: without an issuer,
an audience or keys the node does not start (CVE-2026-33557, CVE-2026-110985).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from headrace.security.sasl.oauthbearer import InvalidTokenError, OAuthBearerToken

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519"),
)
"""Those that a set may have keys for; none with a shared secret, and not `none`."""

TOKEN_CHARACTERS_MAX: Final = 64 * 1024
"""Tokens of directories with many groups have some thousand; a longer one is not looked at."""

NUMBER_MAX: Final = 1 << 40
"""Of a time in seconds: far beyond any real one."""


class JsonWebKeys:
    """The issuer's keys, replaced as a whole when they are read again. `on_unknown` is told of a token whose
    key is not among them: it may be a new one."""

    def __init__(self, on_unknown: Callable[[], None] = lambda: None) -> None:
        self._keys = KeySet([])
        self.on_unknown = on_unknown

    def load(self, data: bytes) -> int:
        """Take a key set; ValueError, the former ones kept, where it is none or has no key. How many."""
        try:
            read = json.loads(data)
            keys = KeySet.import_key_set(_public_only(read))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, JoseError) as error:
            raise ValueError(f"no JSON web key set: {type(error).__name__}") from None
        if not keys.keys:
            raise ValueError("a JSON web key set without a key that can check a signature")
        self._keys = keys
        return len(keys.keys)

    def verified(self, token: str) -> bytes:
        """What a token that is signed right says; InvalidTokenError for any other."""
        try:
            return jws.deserialize_compact(token.encode(), self._keys, algorithms=list(ALGORITHMS)).payload
        except (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if not self._knows(token):
                self.on_unknown()
                raise InvalidTokenError("the token is signed with a key that is not known") from None
            raise InvalidTokenError(
                f"the token's signature is not accepted: {type(error).__name__}"
            ) from None

    def _knows(self, token: str) -> bool:
        try:
            kid = jws.extract_compact(token.encode()).headers().get("kid")
        except (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return True  # it is no token, and no other key would make it one
        return kid is None or any(key.kid == kid for key in self._keys.keys)


def _public_only(read: Any) -> Any:
    """The set without keys that are secrets or for something else than signatures."""
    kept = [
        each
        for each in read["keys"]
        if each.get("kty") in ("RSA", "EC", "OKP") and each.get("use", "sig") == "sig"
    ]
    return {"keys": kept}


@dataclass(frozen=True, slots=True)
class JwtValidator:
    """`now_ms` is the wall clock; `skew_s` is how far the issuer's may be off it."""

    keys: JsonWebKeys
    issuer: str
    audiences: Sequence[str]
    now_ms: Callable[[], int]
    skew_s: int = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"

    def __post_init__(self) -> None:
        if not self.issuer or not any(self.audiences) or not self.user_claim:
            raise ValueError("tokens are accepted for an issuer, an audience and a claim with the user only")

    def __call__(self, token: str) -> OAuthBearerToken:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise InvalidTokenError(f"a token of {len(token)} characters: {TOKEN_CHARACTERS_MAX} at most")
        claims = _claims(self.keys.verified(token))
        if claims.get("iss") != self.issuer:
            raise InvalidTokenError("the token is of another issuer")
        if not set(_strings(claims.get("aud"))).intersection(filter(None, self.audiences)):
            raise InvalidTokenError("the token is for another audience")
        expires_s = self._check_times(claims)
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidTokenError(f"the token names no user ({self.user_claim})")
        scope = claims.get(self.scope_claim)
        words = scope.split() if isinstance(scope, str) else _strings(scope)
        return OAuthBearerToken(user, int(expires_s * 1000), frozenset(words))

    def _check_times(self, claims: dict[str, Any]) -> float:
        now_s = self.now_ms() / 1000
        expires_s, issued_s = _time(claims, "exp"), _time(claims, "iat")
        if now_s >= expires_s + self.skew_s:
            raise InvalidTokenError("the token has expired")
        if issued_s > now_s + self.skew_s:
            raise InvalidTokenError("the token was issued in the future: do the clocks agree?")
        if "nbf" in claims and _time(claims, "nbf") > now_s + self.skew_s:
            raise InvalidTokenError("the token is not valid yet")
        return expires_s


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise InvalidTokenError("the token holds no JSON") from None
    if not isinstance(claims, dict):
        raise InvalidTokenError("the token holds no claims")
    return claims


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= NUMBER_MAX:
        raise InvalidTokenError(f"the token's {name} is missing, or is no time")
    return value


def _strings(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]
