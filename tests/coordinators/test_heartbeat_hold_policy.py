"""Whose heartbeats are held: by the names that clients really give."""

import pytest

from headrace.coordinators.group.held_heartbeats import hold_margin_ms_of, hold_policy_of


@pytest.mark.parametrize(
    ("name", "version", "restarts_interval", "margin_ms"),
    [
        ("apache-kafka-java", "4.3.1", True, 50),
        ("headrace", "0.1", True, 50),
        ("librdkafka", "2.16.0", False, 150),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", False, 150),
        ("confluent-kafka-go", "2.6.0-librdkafka-2.6.0", False, 150),
        ("kafka-python", "2.2.3", True, None),
    ],
)
def test_those_who_take_it_well(
    name: str, version: str, restarts_interval: bool, margin_ms: int | None
) -> None:
    policy = hold_policy_of(name, version)
    assert policy is not None
    assert policy.restarts_interval is restarts_interval
    assert hold_margin_ms_of(name, version) == margin_ms


@pytest.mark.parametrize("name", ["", "kgo", "sarama", "unknown"])
def test_nobody_else(name: str) -> None:
    assert hold_policy_of(name, "1") is None
    assert hold_margin_ms_of(name, "1") is None
