"""Listeners: their forms, their protocols, and what goes with what."""

import pytest

from headrace.settings.broker_config import BrokerConfig
from headrace.settings.definition import SettingError
from headrace.settings.listeners import ListenerEndpoint, parse_endpoints
from tests.settings.test_broker_config import NODE

PLAIN = {"PLAINTEXT": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://:9092", "", 9092),
        ("plaintext://localhost:0", "localhost", 0),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://0.0.0.0:9092", "0.0.0.0", 9092),
    ],
)
def test_forms(text: str, host: str, port: int) -> None:
    endpoint = ListenerEndpoint("PLAINTEXT", host, port, "PLAINTEXT")
    assert parse_endpoints("listeners", [text], PLAIN) == (endpoint,)
    assert parse_endpoints("listeners", [str(endpoint)], PLAIN) == (endpoint,)


@pytest.mark.parametrize(
    "text", ["PLAINTEXT:9092", "://:1", "PLAINTEXT://a", "PLAINTEXT://a:70000", "OTHER://a:1"]
)
def test_what_is_no_listener(text: str) -> None:
    with pytest.raises(SettingError, match=r"^listeners: "):
        parse_endpoints("listeners", [text], PLAIN)


def test_who_a_listener_is_for() -> None:
    config = BrokerConfig(
        {
            **NODE,
            "listeners": "INSIDE://10.0.0.1:9092,OUTSIDE://:9094,CONTROLLER://:9093",
            "advertised.listeners": "INSIDE://10.0.0.1:9092,OUTSIDE://kafka.example:9094",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert [each.name for each in config.broker_listeners] == ["INSIDE", "OUTSIDE"]
    assert [each.name for each in config.controller_listeners] == ["CONTROLLER"]
    assert config.advertised_listeners[1] == ListenerEndpoint("OUTSIDE", "kafka.example", 9094, "SSL")
    assert config.inter_broker_listener_name == "INSIDE"


def test_the_controllers_listener_needs_no_protocol_while_nothing_is_secured() -> None:
    assert BrokerConfig(NODE).controller_listeners[0].protocol == "PLAINTEXT"
    with pytest.raises(SettingError, match=r"CONTROLLER://:9093' has no security protocol"):
        BrokerConfig({**NODE, "listeners": "SSL://:9092,CONTROLLER://:9093"})
