"""The made-up company: the same seed tells the same story, and the ledger is true to the records."""

import json
import random
from collections import Counter
from typing import Any

from headrace.spark.demo.events import SERVICES, Company, ServiceEvent
from headrace.spark.demo.feeds import LATE_MS_MAX, LOGS, MINUTE_MS, SESSIONS, USERS, WATERMARK_MS

BEGIN_MS = 1_700_000_000_000


def _story(seed: int, lines: int = 20_000) -> tuple[Company, list[ServiceEvent]]:
    """Twenty seconds at a thousand lines a second."""
    company = Company(random.Random(seed))
    events = list(company.open_for_business(BEGIN_MS))
    for number in range(lines):
        events += company.happen(BEGIN_MS + number)
    return company, [*events, company.close(BEGIN_MS + lines)]


def _values(events: list[ServiceEvent], topic: str) -> list[dict[str, Any]]:
    return [json.loads(event.value) for event in events if event.topic == topic]


def test_the_same_seed_tells_the_same_story() -> None:
    assert _story(7, 500)[1] == _story(7, 500)[1]
    assert _story(7, 500)[1] != _story(8, 500)[1]


def test_the_ledger_says_what_is_in_the_records() -> None:
    company, events = _story(1)
    logs = _values(events, LOGS)
    assert [line["number"] for line in logs] == list(range(company.ledger.logs))
    assert company.ledger.errors == Counter(
        (line["service"], line["at_ms"] // MINUTE_MS * MINUTE_MS) for line in logs if line["level"] == "ERROR"
    )
    assert [each["user"] for each in _values(events, SESSIONS)] == company.ledger.sessions
    users = {each["id"]: each for each in _values(events, USERS)}
    assert {key: (each["name"], each["plan"], each["country"]) for key, each in users.items()} == {
        key: user[1:] for key, user in company.ledger.users.items()
    }


def test_a_session_comes_after_its_user_and_before_its_log_lines() -> None:
    users: set[str] = set()
    sessions: set[str] = set()
    for event in _story(2)[1]:
        value = json.loads(event.value)
        if event.topic == USERS:
            users.add(value["id"])
        elif event.topic == SESSIONS:
            assert value["user"] in users
            sessions.add(f"s-{value['session']}")
        else:
            assert value.get("session") is None or value["session"] in sessions


def test_log_lines_are_late_within_bounds_and_out_of_order() -> None:
    at = [line["at_ms"] for line in _values(_story(3)[1], LOGS)][:-1]
    assert at != sorted(at)
    assert all(0 <= BEGIN_MS + number - each <= LATE_MS_MAX for number, each in enumerate(at))


def test_the_last_line_closes_every_minute() -> None:
    company, events = _story(4)
    last = json.loads(events[-1].value)
    assert last["level"] == "INFO"
    assert last["at_ms"] - WATERMARK_MS > max(minute for _, minute in company.ledger.errors) + MINUTE_MS


def test_services_differ_and_some_fail() -> None:
    logs = _values(_story(5)[1], LOGS)
    busy = Counter(line["service"] for line in logs)
    assert set(busy) == {service.name for service in SERVICES}
    assert busy["edge"] > busy["mailer"]
    levels = Counter(line["level"] for line in logs)
    assert levels["INFO"] > levels["ERROR"] > 0
    assert levels["WARN"] > 0
