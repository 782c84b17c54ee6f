"""OAUTHBEARER: which tokens are accepted, and none else; messages of both sides."""

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.sasl.jwt_validator import JsonWebKeys, JwtValidator
from headrace.security.sasl.mechanism import SaslError
from headrace.security.sasl.oauthbearer import (
    InvalidTokenError,
    OAuthBearerClient,
    OAuthBearerServer,
    OAuthBearerToken,
)
from tests.security.sasl.tokens import (
    AUDIENCE,
    ISSUER,
    claims,
    ec_key,
    key_set,
    rsa_key,
    signed,
    signed_with_secret,
)

NOW_S = 1_800_000_000


def validator(keys: JsonWebKeys | None = None, **more: Any) -> JwtValidator:
    if keys is None:
        keys = JsonWebKeys()
        keys.load(key_set(rsa_key(), ec_key()))
    return JwtValidator(keys, ISSUER, [AUDIENCE, "other"], lambda: NOW_S * 1000, **more)


def test_a_token_of_the_issuer() -> None:
    expected = OAuthBearerToken("alice", (NOW_S + 3600) * 1000, frozenset({"read", "write"}))
    assert validator()(signed(claims(NOW_S))) == expected
    assert validator()(signed(claims(NOW_S), ec_key(), "ES256")) == expected
    assert validator()(signed(claims(NOW_S, aud=["x", "other"], scope=["read", "write"]))) == expected
    assert validator(user_claim="name")(signed(claims(NOW_S, name="bob"))).principal_name == "bob"


@pytest.mark.parametrize(
    "more",
    [
        {"iss": None},
        {"iss": "https://issuer.example.evil"},
        {"iss": "https://issuer"},
        {"aud": None},
        {"aud": "kafka2"},
        {"aud": []},
        {"exp": None},
        {"exp": NOW_S - 31},
        {"exp": "soon"},
        {"exp": True},
        {"iat": None},
        {"iat": NOW_S + 31},
        {"nbf": NOW_S + 31},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
    ],
)
def test_what_a_token_must_say(more: dict[str, Any]) -> None:
    token = signed(claims(NOW_S, **more))
    with pytest.raises(InvalidTokenError) as refusal:
        validator()(token)
    assert token not in str(refusal.value)


def test_clocks_may_differ_a_little() -> None:
    validator()(signed(claims(NOW_S, exp=NOW_S - 29, iat=NOW_S + 29, nbf=NOW_S + 29)))


@pytest.mark.parametrize(("issuer", "audiences"), [("", ["a"]), (ISSUER, []), (ISSUER, [""])])
def test_issuer_and_audience_are_mandatory(issuer: str, audiences: list[str]) -> None:
    """CVE-2026-33557, CVE-2026-110985."""
    with pytest.raises(ValueError, match="issuer"):
        JwtValidator(JsonWebKeys(), issuer, audiences, lambda: 0)


def test_without_keys_nothing_is_accepted() -> None:
    with pytest.raises(InvalidTokenError):
        validator(JsonWebKeys())(signed(claims(NOW_S)))


def _unsigned(said: dict[str, Any]) -> str:
    parts = [json.dumps({"alg": "none"}), json.dumps(said)]
    return ".".join(base64.urlsafe_b64encode(each.encode()).rstrip(b"=").decode() for each in parts) + "."


def test_only_signatures_by_the_issuers_keys_count() -> None:
    said = claims(NOW_S)
    public = rsa_key().as_pem(private=False)
    stranger = rsa_key("stranger")
    for token in (
        _unsigned(said),
        signed_with_secret(said, public),  # the public key taken for a shared secret
        signed(said, stranger),
        signed(said, stranger, kid="rsa"),
        signed(said)[:-4] + "AAAA",
        "",
        "a.b.c",
        "x" * 100_000,
    ):
        with pytest.raises(InvalidTokenError):
            validator()(token)


def test_a_key_set_without_public_keys_is_none() -> None:
    keys = JsonWebKeys()
    for data in (
        b"",
        b"[]",
        b"{}",
        b'{"keys": []}',
        b'{"keys": [1]}',
        b'{"keys": [{"kty": "oct", "k": "AAAA"}]}',
        b'{"keys": [{"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"}]}',
    ):
        with pytest.raises(ValueError, match="key set"):
            keys.load(data)


def test_a_key_that_is_not_known_asks_for_new_ones() -> None:
    asked = []
    keys = JsonWebKeys(lambda: asked.append(1))
    keys.load(key_set(ec_key()))
    token = signed(claims(NOW_S))
    with pytest.raises(InvalidTokenError):
        validator(keys)(token)
    assert asked == [1]
    keys.load(key_set(rsa_key()))
    assert validator(keys)(token).principal_name == "alice"
    with pytest.raises(InvalidTokenError):
        validator(keys)("no token")
    assert asked == [1]


def token_of(value: str) -> OAuthBearerToken:
    if value != "good":
        raise InvalidTokenError("it is bad")
    return OAuthBearerToken("alice", 99, frozenset())


def test_both_sides_agree() -> None:
    server, client = OAuthBearerServer(token_of), OAuthBearerClient("good", {"logicalCluster": "lkc-1"})
    assert client.first() == b"n,,\x01auth=Bearer good\x01logicalCluster=lkc-1\x01\x01"
    assert client.evaluate(server.evaluate(client.first())) is None
    assert client.is_complete
    assert (server.is_complete, server.authorization_id, server.expires_at_ms) == (True, "alice", 99)


def test_a_refused_token_is_told_as_the_rfc_has_it() -> None:
    server, client = OAuthBearerServer(token_of), OAuthBearerClient("bad")
    challenge = server.evaluate(client.first())
    assert json.loads(challenge) == {"status": "invalid_token"}
    answer = client.evaluate(challenge)
    assert answer == b"\x01"
    with pytest.raises(SaslError, match="it is bad") as failure:
        server.evaluate(answer)
    assert failure.value.told == '{"status":"invalid_token"}'
    with pytest.raises(SaslError):
        server.evaluate(OAuthBearerClient("good").first())
    assert not server.is_complete


def test_nobody_acts_as_somebody_else() -> None:
    server = OAuthBearerServer(token_of)
    with pytest.raises(SaslError, match="different from the token's principal name"):
        server.evaluate(b"n,a=admin,\x01auth=Bearer good\x01\x01")
    assert not server.is_complete
    OAuthBearerServer(token_of).evaluate(b"n,a=alice,\x01auth=bearer good\x01\x01")


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=Bearer x", "ü"])
def test_a_client_sends_no_token_that_is_none(token: str) -> None:
    with pytest.raises(SaslError):
        OAuthBearerClient(token)


PIECES = [b"n,", b"a=", b",", b"\x01", b"auth=", b"Bearer ", b"bad", b"=2C", b"y,", b"p=x,", b"k=v\x01"]
MESSAGES = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=16).map(b"".join)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(MESSAGES)
def test_any_bytes_log_nobody_in(message: bytes) -> None:
    server = OAuthBearerServer(token_of)
    with suppress(SaslError):
        server.evaluate(message)
    assert not server.is_complete


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["iss", "aud", "sub", "exp", "iat", "nbf", "scope"])


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, JSON, min_size=1, max_size=3))
def test_any_claims_are_accepted_or_refused(more: dict[str, Any]) -> None:
    token = signed(claims(NOW_S) | more, ec_key(), "ES256")
    try:
        found = validator()(token)
    except InvalidTokenError:
        return
    assert found.principal_name


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.binary(max_size=20), min_size=3, max_size=3).map(
            lambda parts: ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts)
        ),
    )
)
def test_any_text_is_no_token(text: str) -> None:
    with pytest.raises(InvalidTokenError):
        validator()(text)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=60), JSON.map(lambda each: json.dumps({"keys": each}).encode())))
def test_any_bytes_are_no_key_set(data: bytes) -> None:
    with pytest.raises(ValueError, match="key set"):
        JsonWebKeys().load(data)
