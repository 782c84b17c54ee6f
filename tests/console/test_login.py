"""Logging in with the cluster's own credentials: each sees and changes what the cluster's ACLs allow."""

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.clients import AclBinding, Admin, Producer, UserScramCredentialUpsertion
from headrace.clients.errors import RefusedError
from headrace.console.api import tokens
from headrace.console.cluster_connection import ClusterSpec
from headrace.console.cluster_extras import read_extras
from headrace.console.visit import Visit
from headrace.testing.cluster import Cluster
from tests.compat.clients.face import eventually
from tests.console.pipeline_runs import running_pipeline
from tests.console.visitors import Visitor, running_console
from tests.schemas.schema_registry import SchemaRegistry

READERS = 'pass"word; \\ = ü'
"""A password of what other forms of settings would need quotes for."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(secure=True, settings={"delegation.token.secret.key": "a secret of all brokers"}) as cluster:
        with Admin(cluster.client_settings("admin")) as admin:
            admin.create_topic("orders", partitions=1)
            admin.create_topic("secrets", partitions=1)
            admin.create_topic("big-orders", partitions=1)
            admin.create_topic("orders-dead", partitions=1)
            admin.alter_user_scram_credentials(UserScramCredentialUpsertion("reader", READERS))
            admin.create_acls(AclBinding("User:reader", "read", "topic", "orders"))
        with Producer(cluster.client_settings("app")) as producer:
            producer.send("orders", b"hello").result(30)
        yield cluster


def password(cluster: Cluster, user: str) -> str:
    return cluster.client_settings(user)["sasl.password"]


@pytest.fixture(scope="module")
def address(cluster: Cluster) -> Iterator[tuple[str, int]]:
    settings = cluster.client_settings("admin")
    del settings["sasl.username"], settings["sasl.password"]
    with (
        running_pipeline() as run,
        SchemaRegistry() as double,
        running_console([_spec(settings, run.url, double)]) as address,
    ):
        run.batch()
        yield address


def _spec(settings: dict[str, str], metrics: str, double: SchemaRegistry) -> ClusterSpec:
    """With a pipeline that reads `orders` and writes what nobody but an administrator may see."""
    for name in ("orders-value", "secrets-value"):
        double.add(name, '"string"')
    return ClusterSpec("c", settings, (metrics,), read_extras({"schema.registry.url": double.url}))


def log_in(address: tuple[str, int], user: str, secret: str) -> tuple[int, Visitor]:
    visitor = Visitor(address)
    before = visitor.cookie
    code, found = visitor.ask("POST", "/api/login", {"cluster": "c", "user": user, "password": secret})
    if code == 200:
        assert visitor.cookie != before, "a cookie of before the login is worth nothing"
        visitor.token = found["token"]
    return code, visitor


def test_wrong_passwords_are_refused(address: tuple[str, int]) -> None:
    for user, secret in (("admin", "wrong"), ("nobody", "x"), ('a" b="c', 'x"; evil'), ("", "")):
        code, visitor = log_in(address, user, secret)
        assert code in (400, 401), user
        assert visitor.refused("GET", "topics")[0] == 401


def test_each_has_the_rights_of_the_cluster(address: tuple[str, int], cluster: Cluster) -> None:
    code, admin = log_in(address, "admin", password(cluster, "admin"))
    assert code == 200
    assert admin.ask("GET", "/api/session")[1]["clusters"][0]["user"] == "admin"
    assert "orders" in {each["name"] for each in admin.get("topics")["topics"]}
    assert admin.get("topics/orders/messages")["records"][0]["value"]["data"] == "hello"
    assert {each["user"] for each in admin.get("users")["users"]} >= {"admin", "app"}
    assert any(each["principal"] == "User:app" for each in admin.get("acls")["acls"])

    code, reader = log_in(address, "reader", READERS)
    assert code == 200
    assert [each["name"] for each in reader.get("topics")["topics"]] == ["orders"]
    assert reader.get("topics/orders/messages")["records"][0]["value"]["data"] == "hello"
    assert reader.refused("GET", "topics/secrets")[0] in (403, 404)
    assert reader.refused("GET", "topics/secrets/messages")[0] in (403, 404)
    assert reader.refused("GET", "acls")[0] == 403
    assert reader.refused("POST", "topics/orders/messages", {"value": "x"})[0] == 403
    assert reader.refused("DELETE", "topics/orders", {"confirm": "orders"})[0] == 403
    assert reader.refused("PATCH", "topics/orders/configs", {"set": {"retention.ms": "1"}})[0] == 403
    assert reader.refused("POST", "acls", AclBinding("User:reader", "all", "cluster")._asdict())[0] == 403
    found = reader.get("overview")
    assert any("no right" in each for each in found["gaps"])
    assert (found["topics"], found["groups"]) == (1, 0)

    eventually(lambda: bool(admin.get("pipelines")["queries"]), "its metrics are read")
    found = reader.get("pipelines")
    assert (found["queries"], found["edges"], found["alerts"], found["hidden"]) == ([], [], [], 2)
    assert reader.get("overview")["queries"] == []
    assert admin.get("overview")["queries"]
    assert [each["name"] for each in admin.get("schemas")["subjects"]] == ["orders-value", "secrets-value"]
    found = reader.get("schemas")
    assert ([each["name"] for each in found["subjects"]], found["hidden"]) == (["orders-value"], 1)
    assert reader.refused("GET", "schemas/subjects/secrets-value")[0] == 404
    assert admin.refused("DELETE", "schemas/subjects/orders-value", {"confirm": "orders-value"})[0] == 403

    rule = AclBinding("User:<b>x</b>", "read", "topic", "orders")._asdict()
    assert rule in admin.change("POST", "acls", rule)["acls"]
    assert rule not in admin.change("POST", "acls/delete", rule)["acls"]

    new = {"user": "new", "password": "first", "mechanism": "SCRAM-SHA-512"}
    assert "new" in {each["user"] for each in admin.change("POST", "users", new)["users"]}
    assert log_in(address, "new", "first")[0] == 200
    assert reader.refused("POST", "users", new)[0] == 403
    assert "new" not in {each["user"] for each in admin.change("POST", "users/delete", new)["users"]}
    assert log_in(address, "new", "first")[0] == 401

    assert admin.ask("POST", "/api/logout", {})[0] == 200
    assert admin.refused("GET", "topics")[0] == 401
    assert reader.get("topics/orders")["name"] == "orders", "others stay logged in"


def test_brokers_without_a_key_are_said_to_make_no_tokens() -> None:
    class Admin:
        async def describe_delegation_tokens(self) -> None:
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "cannot list delegation tokens")

    found = asyncio.run(tokens.tokens(cast(Visit, SimpleNamespace(admin=Admin()))))
    assert found["tokens"] == []
    assert "delegation.token.secret.key" in found["missing"]


def test_tokens_are_made_renewed_and_ended_and_their_secrets_told_once(
    address: tuple[str, int], cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace.console")
    _, admin = log_in(address, "admin", password(cluster, "admin"))
    _, reader = log_in(address, "reader", READERS)
    hour_ms = 3_600_000
    made = reader.change("POST", "tokens", {"renewers": ["User:app"], "lifetime_ms": 2 * hour_ms})
    token, hmac = made["token"], made["hmac"]
    assert (token["owner"], token["renewers"]) == ("User:reader", ["User:app"])
    assert token["at_most"] - token["issued"] == 2 * hour_ms
    settings = cluster.client_settings("app") | {"sasl.mechanism": "SCRAM-SHA-512"}
    for name in ("sasl.username", "sasl.password"):
        settings.pop(name, None)
    settings["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token["id"]}" password="{hmac}" tokenauth="true";'
    )
    with Admin(settings) as own:
        assert [each.name for each in own.list_topics()] == ["orders"], "it is good for a login"

    wish = {"id": token["id"], "period_ms": hour_ms}
    before_ms = int(time.time() * 1000)
    until_ms = reader.change("POST", "tokens/renew", wish)["expires"]
    assert before_ms + hour_ms <= until_ms <= before_ms + 2 * hour_ms
    assert reader.get("tokens") == {"tokens": [token | {"expires": until_ms}], "missing": ""}
    assert reader.refused("POST", "tokens", {"lifetime_ms": 0})[0] == 400
    assert reader.refused("POST", "tokens", {"owner": "User:admin"})[0] == 403
    assert reader.refused("POST", "tokens/expire", {"id": token["id"], "confirm": "other"})[0] == 400
    assert reader.refused("POST", "tokens/renew", {"id": "not-there"})[0] == 404
    assert token["id"] in {each["id"] for each in admin.get("tokens")["tokens"]}
    reader.change("POST", "tokens/expire", {"id": token["id"], "confirm": token["id"]})
    assert reader.get("tokens")["tokens"] == []

    trail = [each.getMessage() for each in caplog.records if each.name == "headrace.console.audit"]
    done = [(each["change"], each["on"].get("token")) for each in map(json.loads, trail) if "on" in each]
    assert done[0] == ("create token", token["id"])
    assert ("expire token", token["id"]) in done
    assert not any(hmac in each.getMessage() for each in caplog.records), "no log has the secret"
