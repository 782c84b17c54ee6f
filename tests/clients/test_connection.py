"""Connecting, agreeing on versions, and what is said when a broker cannot be reached."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.clients import Admin, Producer
from headrace.clients.config import parse_addresses
from headrace.clients.errors import (
    ClientError,
    NoSuchTopicError,
    TimedOutError,
    UnreachableError,
    UnsupportedError,
)
from headrace.wire.apis import ApiKey
from tests.clients.scripted import ScriptedCluster, Written
from tests.compat.clients.face import eventually

METADATA = 3


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster() as cluster:
        yield cluster


def test_the_highest_common_version_is_used(scripted: ScriptedCluster) -> None:
    scripted.versions[METADATA] = (0, 9)
    with scripted.admin() as admin:
        admin.list_topics()
    assert [version for _, name, version, _ in scripted.requests if name == "Metadata"] == [9]


def test_a_broker_with_an_older_api_versions_is_asked_again_in_its_own(scripted: ScriptedCluster) -> None:
    scripted.versions[ApiKey.API_VERSIONS] = (0, 2)
    with scripted.admin() as admin:
        assert [each.name for each in admin.list_topics()] == ["t"]


def test_no_common_version(scripted: ScriptedCluster) -> None:
    scripted.versions[METADATA] = (20, 30)
    with (
        scripted.admin() as admin,
        pytest.raises(UnsupportedError, match=r"speaks Metadata in versions 20 to 30"),
    ):
        admin.list_topics()


def test_a_request_that_the_broker_does_not_know(scripted: ScriptedCluster) -> None:
    del scripted.versions[METADATA]
    with scripted.admin() as admin, pytest.raises(UnsupportedError, match=r"does not know Metadata"):
        admin.list_topics()


def test_no_broker_there(scripted: ScriptedCluster) -> None:
    scripted.kill(1)
    with (
        scripted.admin() as admin,
        pytest.raises(UnreachableError, match=rf"cannot connect to {scripted.address} .*headrace start"),
    ):
        admin.list_topics()


def test_none_of_several_is_there(scripted: ScriptedCluster) -> None:
    """All that were tried are named: who reads of one only looks for the fault there."""
    scripted.kill(1)
    several = f"{scripted.address},127.0.0.1:1"
    told = rf"none of 2 addresses can be used \({several.replace(',', ', ')}\): cannot connect to"
    with Admin(bootstrap_servers=several) as admin, pytest.raises(UnreachableError, match=told):
        admin.list_topics()


def test_no_answer(scripted: ScriptedCluster) -> None:
    scripted.handlers["Metadata"] = lambda request, node: None

    def told() -> str:
        with (
            scripted.admin(request_timeout_ms=300, default_api_timeout_ms=300) as admin,
            pytest.raises(TimedOutError) as failure,
        ):
            admin.list_topics()
        return str(failure.value)

    # On a busy machine the time may be up before it could ask.
    eventually(lambda: "did not answer Metadata in time" in told(), "it to be asked")


def test_a_request_that_got_no_answer_is_sent_again(scripted: ScriptedCluster) -> None:
    answer = scripted.handlers["Metadata"]
    unanswered = iter([True])
    scripted.handlers["Metadata"] = lambda request, node: (
        None if next(unanswered, False) else answer(request, node)
    )
    with scripted.admin(request_timeout_ms=300) as admin:
        assert [each.name for each in admin.list_topics()] == ["t"]


def test_a_first_request_that_is_lost_with_its_connection_is_sent_again(scripted: ScriptedCluster) -> None:
    answer = scripted.handlers["Metadata"]
    losses = iter([True])

    def lose_once(request: Any, node: int) -> Any:
        if next(losses, False):
            scripted.cut()
            return None
        return answer(request, node)

    scripted.handlers["Metadata"] = lose_once
    with scripted.admin() as admin:
        assert [each.name for each in admin.list_topics()] == ["t"]


def test_a_lost_connection_is_made_anew(scripted: ScriptedCluster) -> None:
    with scripted.admin() as admin:
        admin.list_topics()
        scripted.cut()
        assert [each.name for each in admin.list_topics()] == ["t"]


def test_a_topic_that_is_not_there(scripted: ScriptedCluster) -> None:
    with (
        scripted.admin() as admin,
        pytest.raises(NoSuchTopicError, match=r"'nope': there is no such topic; .*headrace topic list"),
    ):
        admin.describe_topics(["nope"])


def test_keys_choose_partitions_as_everywhere(scripted: ScriptedCluster) -> None:
    scripted.leaders = {("t", partition): 1 for partition in range(5)}
    written = Written(scripted)
    with Producer(bootstrap_servers=scripted.address) as producer:
        # What Kafka's Java producer chooses among five partitions.
        for key, value in ((b"a", b"1"), (b"kafka", b"2"), (b"", b"3")):
            producer.send("t", value, key=key)
    assert {value: partition for partition in range(5) for value in written.values(partition)} == {
        b"1": 4,
        b"2": 0,
        b"3": 1,
    }


def test_an_error_that_passes_is_tried_again(scripted: ScriptedCluster) -> None:
    written = Written(scripted)
    written.errors = [6, 5]  # not the leader, no leader yet
    with Producer(bootstrap_servers=scripted.address, retry_backoff_ms=1) as producer:
        assert producer.send("t", b"v").result(10).offset == 100
    assert len(scripted.asked("Produce")) == 3
    assert written.values(0) == [b"v"]


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
