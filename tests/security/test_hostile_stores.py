"""Whatever is in the files of stores and lists: they are read, or refused by the setting that names them."""

import base64
import dataclasses
import json
import re

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.certificate_expiry import ends_ms
from headrace.security.sasl.jwt_validator import JsonWebKeys
from headrace.security.ssl_engine_factory import SslEngines, load_engines
from headrace.security.ssl_reconfiguration import check_replacement
from headrace.security.ssl_settings import SslSettings
from headrace.settings.broker import BROKER
from headrace.settings.definition import SettingError
from tests.security.certificates import LOCAL, Authority
from tests.security.test_revocation import crl, pem

AUTHORITY = Authority()
SERVER = AUTHORITY.sign("server", LOCAL)
KEY_PEM = SERVER.key_pem().encode() + SERVER.chain_pem.encode()
LOCKED_PEM = SERVER.key_pem("secret").encode() + SERVER.chain_pem.encode()
LIST = crl([SERVER], by=AUTHORITY)
DEFAULTS = dataclasses.replace(
    SslSettings.read(lambda name: BROKER[name].default_value),
    keystore_location="keystore",
    truststore_location="truststore",
    crl_location="crl",
)
KEYSTORE, TRUSTSTORE, CRL = "keystore", "truststore", "crl"
GOOD = {KEYSTORE: KEY_PEM, TRUSTSTORE: AUTHORITY.pem.encode(), CRL: pem(LIST)}
SEEDS = {
    KEYSTORE: [KEY_PEM, LOCKED_PEM, SERVER.pkcs12("secret")],
    TRUSTSTORE: [AUTHORITY.pem.encode(), AUTHORITY.pkcs12("secret"), KEY_PEM],
    CRL: [pem(LIST), LIST.public_bytes(serialization.Encoding.DER), pem(LIST) * 2],
}
BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\n(.*?)-----END \1-----\n", re.DOTALL)


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """One of these files with other bytes somewhere, or with some missing."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        size = draw(st.integers(0, 8))
        data[at : at + size] = draw(st.binary(max_size=8))
    return bytes(data)


@st.composite
def damaged_inside(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A PEM file whose blocks are whole, and what they say is not."""

    def damage(block: re.Match[bytes]) -> bytes:
        inner = bytearray(base64.b64decode(block[2]))
        at = draw(st.integers(0, len(inner) - 1))
        inner[at] = draw(st.integers(0, 255))
        coded = base64.encodebytes(bytes(inner))
        return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (block[1], coded, block[1])

    return BLOCK.sub(damage, draw(st.sampled_from(seeds)))


def load(name: str, data: bytes, password: str) -> SslEngines | None:
    """What is made of the files, one of which is damaged; None where it is refused in order."""
    files = GOOD | {name: data}
    given_settings = dataclasses.replace(
        DEFAULTS,
        keystore_type="PEM" if b"-----BEGIN" in files[KEYSTORE] else "PKCS12",
        truststore_type="PEM" if b"-----BEGIN" in files[TRUSTSTORE] else "PKCS12",
        keystore_password="" if b"-----BEGIN" in files[KEYSTORE] else "secret",
        truststore_password=password,
        key_password=password,
    )
    try:
        engines = load_engines(given_settings, files.__getitem__)
        check_replacement(WHOLE, engines, given_settings, trusts_own=True)
    except SettingError as error:
        told = str(error)
    else:
        return engines
    assert "secret" not in told
    return None


WHOLE = load_engines(
    dataclasses.replace(DEFAULTS, keystore_type="PEM", truststore_type="PEM"), GOOD.__getitem__
)


@pytest.mark.parametrize("name", [KEYSTORE, TRUSTSTORE, CRL])
@settings(max_examples=60)
@given(st.data())
def test_any_file_is_read_or_refused(name: str, data: st.DataObject) -> None:
    seeds = SEEDS[name]
    content = data.draw(st.one_of(st.binary(max_size=200), damaged(seeds), damaged_inside(seeds)))
    engines = load(name, content, "secret")
    if engines is not None:
        assert engines.key_store is not None
        assert all(isinstance(ends_ms(each), int) for each in engines.key_store.chain)


@settings(max_examples=40)
@given(
    st.one_of(
        st.binary(max_size=100),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["keys", "kty", "crv", "x", "n", "e", "use"]), inner, max_size=4
                )
            ),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_key_set_is_read_or_refused(data: bytes) -> None:
    told = "no JSON web key set"
    try:
        JsonWebKeys().load(data)
    except ValueError as error:
        told = str(error)
    assert "JSON web key set" in told
