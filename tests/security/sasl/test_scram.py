"""SCRAM against the RFCs' own examples, and each way to cheat that somebody's server or client allowed."""

import base64
import hmac
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.sasl import scram
from headrace.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, SaslError
from headrace.security.sasl.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from headrace.security.sasl.scram_client import CLIENT_ITERATIONS_MAX, ScramClient
from headrace.security.sasl.scram_server import ScramServer, TokenCredential

SHA_256 = SCRAM_MECHANISMS[SCRAM_SHA_256]
SALT = b"0123456789abcdef"
RANDOM = random.Random(1).randbytes


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    salted = scram.salted_password(mechanism.digest, password, SALT, iterations)
    return scram.credential_of(mechanism.digest, salted, SALT, iterations)


def server(mechanism: ScramMechanism = SHA_256, **users: str) -> ScramServer:
    stored = {name: credential(mechanism, password) for name, password in users.items()}
    return ScramServer(
        mechanism, lambda name, _: stored.get(name), lambda *_: None, random_bytes=RANDOM, secret=b"secret"
    )


def client(name: str, password: str, mechanism: ScramMechanism = SHA_256) -> ScramClient:
    return ScramClient(mechanism, name, password, random_bytes=RANDOM)


def exchange(ours: ScramClient, theirs: ScramServer) -> None:
    answer: bytes | None = ours.first()
    while answer is not None:
        answer = ours.evaluate(theirs.evaluate(answer))


def nonces(monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    left = iter(texts)
    monkeypatch.setattr(scram, "new_nonce", lambda random_bytes: next(left))


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    nonces(monkeypatch, "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = scram.salted_password("sha256", "pencil", salt, 4096)
    stored = scram.credential_of("sha256", salted, salt, 4096)
    ours = client("user", "pencil")
    theirs = ScramServer(SHA_256, lambda *_: stored, lambda *_: None, random_bytes=RANDOM, secret=b"")
    assert ours.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_first = theirs.evaluate(ours.first())
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server_first == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = ours.evaluate(server_first)
    assert final == b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    server_final = theirs.evaluate(final)
    assert server_final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert ours.evaluate(server_final) is None
    assert ours.is_complete
    assert (theirs.is_complete, theirs.authorization_id) == (True, "user")


@pytest.mark.parametrize("name", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "Ünï", "=2C"])
def test_both_sides_agree(name: str, user: str) -> None:
    mechanism = SCRAM_MECHANISMS[name]
    theirs = server(mechanism, **{user: "pässword"})
    ours = client(user, "pässword", mechanism)
    exchange(ours, theirs)
    assert ours.is_complete
    assert theirs.authorization_id == user


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret")])
def test_a_wrong_password_and_an_unknown_user_fail_alike(user: str, password: str) -> None:
    theirs = server(alice="secret")
    ours = client(user, password)
    final = ours.evaluate(theirs.evaluate(ours.first()))
    with pytest.raises(SaslError, match="the name or the password is wrong") as failure:
        theirs.evaluate(final)
    assert not failure.value.told
    assert not theirs.is_complete


def test_an_unknown_user_has_the_same_salt_every_time() -> None:
    salts = set()
    for _ in range(3):
        ours, theirs = client("nobody", "x"), server(alice="secret")
        salts.add(scram.parse_server_first(theirs.evaluate(ours.first())).salt)
    assert len(salts) == 1


def test_nobody_acts_as_somebody_else() -> None:
    """CVE-2017-12610."""
    first = client("alice", "secret").first().replace(b"n,,", b"n,a=admin,")
    with pytest.raises(SaslError, match="different from username"):
        server(alice="secret", admin="x").evaluate(first)
    own = client("alice", "secret").first().replace(b"n,,", b"n,a=alice,")
    assert server(alice="secret").evaluate(own)


def _tampered(change: Callable[[bytes], bytes]) -> None:
    ours, theirs = client("alice", "secret"), server(alice="secret")
    final = ours.evaluate(theirs.evaluate(ours.first()))
    assert final is not None
    with pytest.raises(SaslError):
        theirs.evaluate(change(final))
    assert not theirs.is_complete
    assert not theirs.authorization_id


def _forged(binding: str = "biws", more_nonce: str = "") -> None:
    """A final message that says something else than this exchange, with the proof that belongs to it: only a
    comparison finds it out."""
    ours, theirs = client("alice", "secret"), server(alice="secret")
    server_first = theirs.evaluate(ours.first())
    final = f"c={binding},r={scram.parse_server_first(server_first).nonce}{more_nonce}"
    text = f"{ours.first()[3:].decode()},{server_first.decode()},{final}".encode()
    key = scram.client_key("sha256", scram.salted_password("sha256", "secret", SALT, 4096))
    stored_key = credential(SHA_256, "secret").stored_key
    proof = scram.xor(key, hmac.digest(stored_key, text, "sha256"))
    theirs.evaluate(f"{final},p={scram.encode64(proof)}".encode())
    assert theirs.is_complete


def test_the_final_nonce_must_be_this_exchanges() -> None:
    """CVE-2024-56128."""
    _forged()
    with pytest.raises(SaslError, match="another nonce"):
        _forged(more_nonce="x")


def test_the_header_must_be_the_first_messages() -> None:
    with pytest.raises(SaslError, match="another header"):
        _forged(binding="eSws")


def test_proofs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: by the function that is made for it."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    _forged()
    assert credential(SHA_256, "secret").stored_key in compared


def test_a_proof_must_be_whole() -> None:
    _tampered(lambda final: final[: final.index(b",p=") + 3])
    _tampered(lambda final: final[: final.index(b",p=") + 3] + b"AAAA")


def test_channel_binding_and_extensions_that_must_be_understood_are_refused() -> None:
    first = client("alice", "secret").first()
    with pytest.raises(SaslError, match="channel binding"):
        server(alice="secret").evaluate(first.replace(b"n,,", b"p=tls-unique,,"))
    with pytest.raises(SaslError):
        server(alice="secret").evaluate(first.replace(b"n,,", b"n,,m=x,"))


def test_an_exchange_that_is_over_takes_nothing_more() -> None:
    theirs = server(alice="secret")
    exchange(client("alice", "secret"), theirs)
    with pytest.raises(SaslError):
        theirs.evaluate(client("alice", "secret").first())


def _answered(challenge: Callable[[scram.ClientFirst], str]) -> None:
    ours = client("alice", "secret")
    first = scram.parse_client_first(ours.first())
    ours.evaluate(challenge(first).encode())


@pytest.mark.parametrize("iterations", [1, 4095, CLIENT_ITERATIONS_MAX + 1, 2_000_000_000])
def test_a_client_bounds_the_iterations(iterations: int) -> None:
    """CVE-2026-10143 of another client: a server could keep it at work for hours."""
    with pytest.raises(SaslError, match="iterations"):
        _answered(lambda first: f"r={first.nonce}x,s=AAAA,i={iterations}")


def test_a_client_wants_its_nonce_gone_on_with() -> None:
    with pytest.raises(SaslError, match="nonce"):
        _answered(lambda first: "r=other,s=AAAA,i=4096")
    with pytest.raises(SaslError, match="nonce"):
        _answered(lambda first: f"r={first.nonce},s=AAAA,i=4096")


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    ours, theirs = client("alice", "secret"), server(alice="secret")
    server_final = theirs.evaluate(ours.evaluate(theirs.evaluate(ours.first())) or b"")
    with pytest.raises(SaslError, match="does not know the password"):
        ours.evaluate(b"v=" + base64.b64encode(b"x" * 32))
    with pytest.raises(SaslError, match="refuses"):
        ours.evaluate(b"e=other-error")
    assert not ours.is_complete
    ours.evaluate(server_final)
    assert ours.is_complete


def test_names_and_passwords_that_look_alike_are_alike() -> None:
    theirs = server(IX="ab")
    exchange(client("\u2168", "a\u00adb"), theirs)
    assert theirs.authorization_id == "IX"
    with pytest.raises(SaslError, match="U\\+0007"):
        client("a\x07", "x")


def test_a_delegation_token_stands_for_its_owner() -> None:
    token = TokenCredential(credential(SHA_256, "hmac"), "alice", 99)
    theirs = ScramServer(
        SHA_256,
        lambda *_: None,
        lambda name, _: token if name == "id1" else None,
        random_bytes=RANDOM,
        secret=b"s",
    )
    ours = ScramClient(SHA_256, "id1", "hmac", random_bytes=RANDOM, extensions={"tokenauth": "true"})
    exchange(ours, theirs)
    assert (theirs.authorization_id, theirs.expires_at_ms, theirs.is_token) == ("alice", 99, True)


def test_a_user_is_no_token_and_a_token_no_user() -> None:
    theirs = server(alice="secret")
    ours = ScramClient(SHA_256, "alice", "secret", random_bytes=RANDOM, extensions={"tokenauth": "true"})
    with pytest.raises(SaslError):
        exchange(ours, theirs)


PARSERS = [
    scram.parse_client_first,
    scram.parse_server_first,
    scram.parse_client_final,
    scram.parse_server_final,
]
PIECES = [
    b"n,",
    b"y,",
    b"p=x,",
    b"a=",
    b",",
    b"n=",
    b"r=",
    b"s=",
    b"i=",
    b"c=",
    b"v=",
    b"e=",
    b"=2C",
    b"\x00",
]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    st.sampled_from(PARSERS),
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)), max_size=20).map(b"".join),
)
def test_any_bytes_are_a_message_or_a_sasl_error(parse: Callable[[bytes], object], message: bytes) -> None:
    with suppress(SaslError):
        parse(message)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)), max_size=20).map(b"".join))
def test_no_bytes_log_somebody_in(message: bytes) -> None:
    theirs = server(alice="secret")
    theirs.evaluate(client("alice", "secret").first())
    with pytest.raises(SaslError):
        theirs.evaluate(message)
    assert not theirs.is_complete
