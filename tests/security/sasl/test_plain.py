"""PLAIN: one message, and what it must not let through."""

import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.sasl.mechanism import SaslError
from headrace.security.sasl.plain import PlainClient, PlainServer

USERS = {"alice": "pässword", "bob": ""}


def test_a_name_and_its_password() -> None:
    server, client = PlainServer(USERS), PlainClient("alice", "pässword")
    assert server.evaluate(client.first()) == b""
    assert (server.is_complete, server.authorization_id) == (True, "alice")
    assert client.is_complete


@pytest.mark.parametrize(
    "message", [b"\0alice\0wrong", b"\0nobody\0x", b"\0nobody\0p\xc3\xa4ssword", b"admin\0alice\0wrong"]
)
def test_a_wrong_one_is_told_in_kafkas_words(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslError) as failure:
        server.evaluate(message)
    assert failure.value.told == "Authentication failed: Invalid username or password"
    assert not server.is_complete


@pytest.mark.parametrize(
    "message", [b"", b"alice", b"\0alice", b"\0alice\0", b"\0\0x", b"a\0b\0c\0d", b"\0\xff\0x", b"\0bob\0"]
)
def test_what_is_no_message_of_plain(message: bytes) -> None:
    with pytest.raises(SaslError) as failure:
        PlainServer(USERS).evaluate(message)
    assert not failure.value.told


def test_nobody_acts_as_somebody_else() -> None:
    """CVE-2017-12610."""
    server = PlainServer(USERS | {"admin": "x"})
    with pytest.raises(SaslError, match="authorization id that is different from username"):
        server.evaluate("admin\0alice\0pässword".encode())
    assert not server.is_complete
    own = PlainServer(USERS)
    own.evaluate("alice\0alice\0pässword".encode())
    assert own.authorization_id == "alice"


def test_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: by the function that is made for it, for users that do not exist too."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for name in ("alice", "nobody"):
        with pytest.raises(SaslError):
            PlainServer(USERS).evaluate(f"\0{name}\0guess".encode())
    assert compared == [("pässword".encode(), b"guess"), (b"", b"guess")]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_log_nobody_in(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslError):
        server.evaluate(message)
    assert not server.is_complete
