"""Logging in by OIDC: the person's own token is what the cluster sees, and every check fails closed."""

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from headrace.clients import AclBinding, Admin
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.cluster_extras import read_extras
from headrace.console.oidc import Grant, OidcError, OidcProvider, PersonsToken, read_oidc
from headrace.settings.definition import SettingError
from headrace.testing.cluster import Cluster
from tests.compat import prepare
from tests.console.chromium import Chromium
from tests.console.openid_provider import AUDIENCE, OpenIdProvider
from tests.console.visitors import Visitor, running_console
from tests.schemas.schema_registry import SchemaRegistry
from tests.security.sasl.tokens import rsa_key

Address = tuple[str, int]


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    with OpenIdProvider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def as_it_was(provider: OpenIdProvider) -> None:
    provider.user, provider.id_token, provider.discovery, provider.key = "alice", {}, {}, rsa_key()


@pytest.fixture(scope="module")
def cluster(provider: OpenIdProvider) -> Iterator[Cluster]:
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.issuer}/keys",
        "sasl.oauthbearer.expected.issuer": provider.issuer,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with Cluster(secure=True, settings=settings) as cluster:
        with Admin(cluster.client_settings("admin")) as admin:
            for topic in ("orders", "secrets"):
                admin.create_topic(topic, partitions=1)
            admin.create_acls(AclBinding("User:alice", "read", "topic", "orders"))
        yield cluster


@pytest.fixture(scope="module")
def address(cluster: Cluster, provider: OpenIdProvider) -> Iterator[Address]:
    settings = cluster.client_settings("admin") | {"sasl.mechanism": "OAUTHBEARER"}
    del settings["sasl.username"], settings["sasl.password"]
    spec = ClusterSpec("c", settings, extras=read_extras(provider.settings()))
    assert spec.needs_login
    assert not spec.why_no_login
    with running_console([spec]) as address:
        yield address


def begin(visitor: Visitor, to: str = "/c/topics") -> str:
    """The provider's address that the browser is sent to, with the cookie of this login taken along."""
    before = visitor.cookie
    reply, content = visitor.send("POST", "/api/oidc", {"cluster": "c", "to": to})
    assert reply.status == 200, content
    cookie = str(reply.headers["Set-Cookie"])
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/oidc/callback" in cookie
    visitor.cookie = f"{before}; {cookie.partition(';')[0]}"
    return str(json.loads(content)["url"])


def led_back(provider: OpenIdProvider, url: str) -> str:
    """The path at the console that the provider sends the browser to."""
    back = urlsplit(provider.authorize(dict(parse_qsl(urlsplit(url).query))))
    return f"{back.path}?{back.query}"


def finish(visitor: Visitor, path: str) -> tuple[int, str]:
    reply, content = visitor.send("GET", path, headers={"Sec-Fetch-Site": "cross-site"})
    visitor.token = visitor.ask("GET", "/api/session")[1]["token"]
    return reply.status, content.decode() or str(reply.headers["Location"])


def test_the_persons_own_token_is_what_the_cluster_sees(
    address: Address, provider: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    visitor = Visitor(address)
    assert visitor.session["clusters"][0]["issuer"] == provider.issuer
    assert visitor.refused("GET", "topics")[0] == 401
    assert finish(visitor, led_back(provider, begin(visitor, "/c/topics?a=b"))) == (303, "/c/topics?a=b")
    assert visitor.ask("GET", "/api/session")[1]["clusters"][0]["user"] == "alice"
    assert [each["name"] for each in visitor.get("topics")["topics"]] == ["orders"]
    assert visitor.refused("DELETE", "topics/orders", {"confirm": "orders"})[0] == 403
    trail = [each.getMessage() for each in caplog.records if each.name == "headrace.console.audit"]
    assert json.loads(trail[0]) == {
        "user": "alice",
        "from": "127.0.0.1",
        "cluster": "c",
        "change": "login",
        "result": "done",
    }
    assert not any("eyJ" in each.getMessage() for each in caplog.records), "no log has a token"
    assert visitor.ask("POST", "/api/logout", {})[0] == 200
    assert visitor.refused("GET", "topics")[0] == 401


def test_an_answer_counts_once_and_in_the_browser_that_asked(
    address: Address, provider: OpenIdProvider
) -> None:
    visitor, other = Visitor(address), Visitor(address)
    path = led_back(provider, begin(visitor))
    begin(other)
    for wrong, why in (
        (path, "begun in another browser"),
        ("/oidc/callback?code=x&state=x", "not known here"),
        ("/oidc/callback", "not known here"),
    ):
        code, said = finish(other, wrong)
        assert code == 401
        assert why in said
    kept = visitor.cookie
    assert finish(visitor, path)[0] == 303
    visitor.cookie = kept
    assert finish(visitor, path)[0] == 401, "a second time"
    for to in ("//evil.example", "https://evil.example/", "/\\evil.example", "/a\r\nSet-Cookie: x", "/ü"):
        visitor = Visitor(address)
        assert finish(visitor, led_back(provider, begin(visitor, to))) == (303, "/c"), to


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nonce": "of another"}, "of another login"),
        ({"nonce": None}, "of another login"),
        ({"aud": "another"}, "for another audience"),
        ({"aud": ["console", "another"]}, "made for another client"),
        ({"azp": "another"}, "made for another client"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"exp": 1}, "has expired"),
        ({"sub": ""}, "names no user"),
    ],
)
def test_an_id_token_that_is_not_right_lets_nobody_in(
    address: Address, provider: OpenIdProvider, change: dict[str, Any], why: str
) -> None:
    provider.id_token = change
    visitor = Visitor(address)
    code, said = finish(visitor, led_back(provider, begin(visitor)))
    assert code == 401
    assert why in said
    assert visitor.refused("GET", "topics")[0] == 401


def test_keys_codes_and_answers_of_others_let_nobody_in(address: Address, provider: OpenIdProvider) -> None:
    for change, why in (
        ({"iss": "https://evil.example"}, "of another provider"),
        ({"code": "made-up"}, "HTTP 400"),
        ({"code": ""}, "has no code"),
        ({"error": "access_denied", "error_description": "<b>no</b>"}, "&lt;b&gt;no&lt;/b&gt;"),
    ):
        visitor = Visitor(address)
        path, _, query = led_back(provider, begin(visitor)).partition("?")
        code, said = finish(visitor, f"{path}?{urlencode({**dict(parse_qsl(query)), **change})}")
        assert (code, why in said) == (401, True), said
    provider.key = rsa_key("stranger")
    visitor = Visitor(address)
    code, said = finish(visitor, led_back(provider, begin(visitor)))
    assert (code, "a key that is not known" in said) == (401, True), said


def test_a_provider_that_says_it_is_another_is_not_believed(provider: OpenIdProvider) -> None:
    spec = read_oidc(provider.settings())
    assert spec is not None
    for change in (
        {"issuer": "https://evil.example"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": None},
    ):
        provider.discovery = change
        with pytest.raises(OidcError):
            OidcProvider(spec).endpoints()


def test_a_token_is_made_fresh_and_ends(provider: OpenIdProvider) -> None:
    spec = read_oidc(provider.settings())
    assert spec is not None
    now = 0.0
    asked = OidcProvider(spec)
    token = PersonsToken(asked, Grant("alice", "first", "again", 100.0), clock=lambda: now)
    assert token() == "first"
    now = 81.0
    assert token() != "first"
    assert provider.refreshed == 1
    now = 90.0
    token()
    assert provider.refreshed == 1, "it is good for long"
    token = PersonsToken(asked, Grant("alice", "first", "revoked", 100.0), clock=lambda: now)
    now = 180.0
    assert token() == "first", "it is good for a while"
    now = 200.0
    with pytest.raises(OidcError):
        token()
    token = PersonsToken(asked, Grant("alice", "first", "", 100.0), clock=lambda: now)
    now = 301.0
    with pytest.raises(OidcError, match="log in again"):
        token()


def test_the_registry_gets_the_persons_token() -> None:
    with SchemaRegistry() as double:
        extras = read_extras(
            {
                "schema.registry.url": double.url,
                "schema.registry.bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT",
            }
        )
        registry = extras.registry_of({}, lambda: "the-token")
        assert registry is not None
        assert registry.ask("GET", "subjects") == []
        assert double.authorizations[-1] == "Bearer the-token"
        assert "the-token" not in repr(registry)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"oidc.issuer": "https://a.example"}, "need oidc.issuer and oidc.client.id"),
        ({"oidc.issuer": "http://a.example", "oidc.client.id": "x"}, "only https"),
        ({"oidc.issuer": "https://a.example", "oidc.client.id": "x", "oidc.scope": "profile"}, "openid"),
        (
            {"oidc.issuer": "https://a.example", "oidc.client.id": "x", "oidc.redirect.url": "https://b"},
            "/oidc/callback",
        ),
    ],
)
def test_settings_that_would_not_do_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_oidc(settings)


def test_oidc_is_for_clusters_that_take_tokens(provider: OpenIdProvider) -> None:
    extras = read_extras(provider.settings())
    assert "OAUTHBEARER" in ClusterSpec("c", {}, extras=extras).why_no_login
    scram = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    assert "OAUTHBEARER" in ClusterSpec("c", scram, extras=extras).why_no_login


@pytest.mark.chromium
def test_a_browser_goes_to_the_provider_and_comes_back(
    address: Address, provider: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the cookies and policies that a real browser keeps, from another site and back."""
    try:
        program, environment = prepare.chromium()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))
    with Chromium(program, tmp_path_factory.mktemp("chromium"), environment) as browser:
        tab = browser.tab()
        url = f"http://{address[0]}:{address[1]}/c/topics"
        tab.go(url)
        tab.click("Log in")
        tab.until("document.querySelector('main h1')?.textContent === 'Topics'")
        tab.until_text("orders")
        assert "secrets" not in tab.js("document.querySelector('main').innerText")
        assert tab.js("document.querySelector('.user').innerText").startswith("alice")
        tab.click("log out")
        tab.until("document.querySelector('main h1')?.textContent === 'Log in to c'")
        provider.id_token = {"nonce": "of another"}
        tab.click("Log in")
        tab.until_text("The login did not come about")
        tab.click("Back to the console")
        tab.until("document.querySelector('main h1')?.textContent === 'Log in to c'")
        assert [each for each in tab.problems if "401" not in each] == []
