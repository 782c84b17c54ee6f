"""An issuer of tokens for tests: its keys, and tokens signed with them."""

import base64
import hmac
import json
from functools import cache
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

ISSUER = "https://issuer.example"
AUDIENCE = "kafka"


@cache
def rsa_key(kid: str = "rsa") -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@cache
def ec_key(kid: str = "ec") -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def key_set(*keys: Any) -> bytes:
    return json.dumps(KeySet(list(keys)).as_dict(private=False)).encode()


def claims(now_s: float, **more: Any) -> dict[str, Any]:
    whole = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": int(now_s),
        "exp": int(now_s) + 3600,
        "scope": "read write",
    } | more
    return {name: value for name, value in whole.items() if value is not None}


def signed(said: dict[str, Any], key: Any = None, alg: str = "RS256", **header: Any) -> str:
    key = rsa_key() if key is None else key
    head = {"alg": alg, "kid": key.kid} | header
    return jwt.encode({name: value for name, value in head.items() if value}, said, key, algorithms=[alg])


def signed_with_secret(said: dict[str, Any], secret: bytes) -> str:
    """By hand, because no library signs with what everybody knows."""
    parts = [json.dumps({"alg": "HS256", "kid": "rsa"}).encode(), json.dumps(said).encode()]
    text = ".".join(map(_encoded, parts))
    return f"{text}.{_encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
