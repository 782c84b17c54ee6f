"""Who is kept waiting for the answer to a heartbeat: by the names that clients really give."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.server.patience import margin_ms_of, patience_of


def peer(name: str, version: str) -> Any:
    return SimpleNamespace(software_name=name, software_version=version)


@pytest.mark.parametrize(
    ("name", "version", "starts_anew", "margin_ms"),
    [
        ("apache-kafka-java", "4.3.1", True, 50),
        ("headrace", "0.1", True, 50),
        ("librdkafka", "2.16.0", False, 150),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", False, 150),
        ("confluent-kafka-go", "2.6.0-librdkafka-2.6.0", False, 150),
        ("kafka-python", "2.2.3", True, None),
    ],
)
def test_those_who_take_it_well(name: str, version: str, starts_anew: bool, margin_ms: int | None) -> None:
    client = peer(name, version)
    patience = patience_of(client)
    assert patience is not None
    assert patience.starts_anew is starts_anew
    assert margin_ms_of(client) == margin_ms


@pytest.mark.parametrize("name", ["", "kgo", "sarama", "unknown"])
def test_nobody_else(name: str) -> None:
    assert patience_of(peer(name, "1")) is None
    assert margin_ms_of(peer(name, "1")) is None
