"""Connecting, agreeing on versions, and what is said when a broker cannot be reached."""

import pytest

from headrace.clients.cluster import parse_addresses
from headrace.clients.errors import (
    ClientError,
    NoSuchTopicError,
    TimedOutError,
    UnreachableError,
    UnsupportedError,
)
from headrace.clients.topics import list_topics
from headrace.wire.apis import API_VERSIONS
from tests.clients.scripted import ScriptedCluster

METADATA = 3


def test_the_highest_common_version_is_used() -> None:
    scripted = ScriptedCluster()
    scripted.versions[METADATA] = (0, 9)
    list_topics(scripted.client())
    assert [version for _, name, version, _ in scripted.requests if name == "Metadata"] == [9]


def test_a_broker_with_an_older_api_versions_is_asked_again_in_its_own() -> None:
    scripted = ScriptedCluster()
    scripted.versions[API_VERSIONS] = (0, 2)
    assert [each.name for each in list_topics(scripted.client())] == ["t"]


def test_no_common_version() -> None:
    scripted = ScriptedCluster()
    scripted.versions[METADATA] = (20, 30)
    with pytest.raises(UnsupportedError, match=r"speaks Metadata in versions 20 to 30"):
        list_topics(scripted.client())


def test_a_request_that_the_broker_does_not_know() -> None:
    scripted = ScriptedCluster()
    del scripted.versions[METADATA]
    with pytest.raises(UnsupportedError, match=r"127\.0\.0\.1:9092 does not know Metadata"):
        list_topics(scripted.client())


def test_no_broker_there() -> None:
    scripted = ScriptedCluster()
    scripted.dead_ports.add(9092)
    with pytest.raises(UnreachableError, match=r"cannot connect to 127\.0\.0\.1:9092 .*headrace start"):
        list_topics(scripted.client())


def test_no_answer() -> None:
    scripted = ScriptedCluster()
    scripted.handlers["Metadata"] = lambda request, node: None
    with pytest.raises(TimedOutError, match=r"did not answer Metadata in time"):
        list_topics(scripted.client())


def test_a_lost_connection_is_made_anew() -> None:
    scripted = ScriptedCluster()
    client = scripted.client()
    list_topics(client)
    scripted.dead_ports.add(9092)
    with pytest.raises(UnreachableError):
        client.refresh(None)
    scripted.dead_ports.clear()
    assert [each.name for each in list_topics(client)] == ["t"]


def test_a_topic_that_is_not_there() -> None:
    with pytest.raises(NoSuchTopicError, match=r"'nope': there is no such topic; .*headrace topic list"):
        ScriptedCluster().client().topic("nope")


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("kafka.example", [("kafka.example", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize("text", ["", ",", "host:port", ":9092", "host:99999"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ClientError, match=r"give HOST:PORT"):
        parse_addresses(text)
