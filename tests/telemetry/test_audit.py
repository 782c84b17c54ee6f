"""The audit trail: what an event has, what the rules choose, and what becomes of a flood."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.telemetry.audit import LINES_MAX, NAME_MAX, REPEATED_AFTER_MS, AuditRules, AuditTrail

NOON_MS = 1_800_000_000_000


class Trail:
    """A trail with a clock of the test."""

    def __init__(self, **rules: Any) -> None:
        self.now_ms = NOON_MS
        self.woken = 0
        self.trail = AuditTrail(
            AuditRules(**rules),
            node_id=3,
            requests={19: "CreateTopics", 1: "Fetch"},
            now_ms=lambda: self.now_ms,
            monotonic_s=lambda: 0.0,
        )
        self.trail.writer = self

    def write_soon(self) -> None:
        self.woken += 1

    async def close(self) -> None: ...

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.trail.take()]


def asking(api_key: int = 19, client_id: str | None = "app", principal: str = "User:alice") -> Any:
    peer = SimpleNamespace(principal=principal, host="10.1.2.3", listener="SSL")
    return SimpleNamespace(api_key=api_key, client_id=client_id, peer=peer)


def test_an_event_says_who_did_what_from_where() -> None:
    trail = Trail()
    trail.trail.on_decision(asking(), "CREATE", "TOPIC", "orders", True, error="TOPIC_ALREADY_EXISTS")
    assert trail.woken == 1
    assert trail.events() == [
        {
            "time": "2027-01-15T08:00:00.000Z",
            "node": 3,
            "principal": "User:alice",
            "host": "10.1.2.3",
            "listener": "SSL",
            "client": "app",
            "request": "CreateTopics",
            "operation": "CREATE",
            "resource": "TOPIC",
            "name": "orders",
            "allowed": True,
            "error": "TOPIC_ALREADY_EXISTS",
        }
    ]
    assert trail.events() == []


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({}, [True, False]),
        ({"changes": False}, [False]),
        ({"refusals": False}, [True]),
        ({"changes": False, "refusals": False}, []),
    ],
)
def test_rules_choose(rules: dict[str, bool], told: list[bool]) -> None:
    trail = Trail(**rules)
    for allowed in (True, False):
        trail.trail.on_decision(asking(), "CREATE", "TOPIC", "orders", allowed)
    assert [event["allowed"] for event in trail.events()] == told


def test_reading_is_told_once_in_a_while() -> None:
    trail = Trail(reads=("orders", "pay*"))
    assert [trail.trail.rules.has_read(name) for name in ("orders", "orders2", "payments", "other")] == [
        *(True, False, True, False)
    ]
    for _ in range(3):
        trail.trail.on_read(asking(1), "orders")
    trail.trail.on_read(asking(1, principal="User:bob"), "orders")
    assert [(event["principal"], event["operation"]) for event in trail.events()] == [
        ("User:alice", "READ"),
        ("User:bob", "READ"),
    ]
    trail.now_ms += REPEATED_AFTER_MS
    trail.trail.on_read(asking(1), "orders")
    assert len(trail.events()) == 1


def test_what_is_missing_is_counted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    trail = Trail()
    for number in range(LINES_MAX + 7):
        trail.trail.on_decision(asking(), "CREATE", "TOPIC", f"t{number}", True)
    assert trail.woken == 1
    assert trail.trail.lost == 7
    assert "missing from the audit trail" in caplog.text
    assert not any("missing_before" in event for event in trail.events())
    trail.trail.on_decision(asking(), "CREATE", "TOPIC", "later", True)
    trail.trail.on_decision(asking(), "CREATE", "TOPIC", "latest", True)
    assert [event.get("missing_before") for event in trail.events()] == [7, None]


def test_names_of_clients_cannot_break_a_line_nor_fill_the_disk() -> None:
    trail = Trail()
    names = ["d" * 30_000] * 250
    client = asking(client_id='x\n{"allowed": true}')
    trail.trail.on_decision(client, "CREATE", "TOPIC", "n" * 30_000, False, details=names)
    (line,) = trail.trail.take()
    assert "\n" not in line
    event = json.loads(line)
    assert event["client"] == 'x\n{"allowed": true}'
    assert len(event["name"]) == NAME_MAX + 1
    assert (len(event["details"]), event["more_details"]) == (100, 150)
