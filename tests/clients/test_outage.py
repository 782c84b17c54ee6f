"""A client whose broker is down, or who reads what is not there, says so once, however often it tries."""

import logging
import socket
import threading
from typing import Any

import pytest

from headrace.clients import Consumer, TopicPartition
from tests.clients.scripted import ScriptedCluster


def told_by_clients(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Others in this process may say something at any time."""
    return [each.getMessage() for each in caplog.records if each.name.startswith("headrace.clients")]


def test_a_consumer_whose_broker_is_down_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            caplog.at_level(logging.WARNING, "headrace.clients"),
            Consumer(
                bootstrap_servers=address, reconnect_backoff_ms=1, group_id="g", reconnect_backoff_max_ms=5
            ) as consumer,
        ):
            consumer.subscribe(["t"])
            for _ in range(1_200):
                consumer.poll(0.05)
                if told_by_clients(caplog):
                    break
            consumer.poll(0.2)
    told = told_by_clients(caplog)
    assert len(told) == 1, told
    assert told[0].startswith(f"the broker at {address} does not answer, and is tried again: ")


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (TopicPartition("t", 9), "topic 't' has no partition 9: it has 0 to 0"),
        (TopicPartition("orderz", 0), "topic 'orderz': unknown topic or partition"),
    ],
)
def test_a_consumer_of_what_is_not_there_says_so_once(
    caplog: pytest.LogCaptureFixture, partition: TopicPartition, message: str
) -> None:
    with (
        caplog.at_level(logging.WARNING, "headrace.clients"),
        ScriptedCluster() as cluster,
        Consumer(bootstrap_servers=cluster.address, retry_backoff_ms=1, retry_backoff_max_ms=5) as consumer,
    ):
        consumer.assign([partition])
        for _ in range(1_200):
            assert consumer.poll(0.05) == []
            if told_by_clients(caplog):
                break
        consumer.poll(0.2)
        assert str(consumer.trouble).startswith(message)
        told = told_by_clients(caplog)
        assert len(told) == 1, told
        assert told[0].startswith(message)
        assert told[0].endswith(": it is waited for")
        cluster.handlers["ListOffsets"] = lambda request, node: None
        consumer.assign([TopicPartition("t", 0)])
        assert consumer.trouble is None


def test_a_late_answer_says_nothing_of_what_is_read_now() -> None:
    asked = {"orderz": threading.Event(), "t": threading.Event()}
    answered = {"orderz": threading.Event(), "t": threading.Event()}
    with (
        ScriptedCluster() as cluster,
        Consumer(bootstrap_servers=cluster.address, retry_backoff_ms=1, retry_backoff_max_ms=5) as consumer,
    ):
        usual = cluster.handlers["Metadata"]

        def metadata(request: Any, node: int) -> Any:
            for topic in request.topics or ():
                asked[topic.name].set()
                answered[topic.name].wait(60)
            return usual(request, node)

        cluster.handlers |= {"Metadata": metadata, "ListOffsets": lambda request, node: None}
        consumer.assign([TopicPartition("orderz", 0)])
        while not asked["orderz"].is_set():
            consumer.poll(0.05)
        consumer.assign([TopicPartition("t", 0)])
        answered["orderz"].set()
        while not asked["t"].is_set():  # then the answer before it has been looked at
            consumer.poll(0.05)
        assert consumer.trouble is None
        answered["t"].set()
