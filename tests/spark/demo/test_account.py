"""The account finds what is missing, what is wrong and what came twice, in every feed and in the table."""

import json
from collections import Counter
from collections.abc import Callable

import pyarrow
import pytest

from headrace.clients import ConsumerRecord
from headrace.spark.demo.account import Line, account
from headrace.spark.demo.events import InputLedger, User
from headrace.spark.demo.feeds import ERRORS, JOINED, LOGS, SESSIONS, TABLE, USERS
from headrace.spark.demo.outcome import Outcome

ADA = User("u-0", "Ada", "pro", "DE")
LEDGER = InputLedger(
    logs=4, users={"u-0": ADA}, sessions=["u-0", "u-0"], errors=Counter({("cart", 0): 2, ("edge", 60_000): 1})
)


class World:
    """What came out, all of it right until a test spoils it."""

    def __init__(self) -> None:
        self.held = Counter({LOGS: 4, SESSIONS: 2, USERS: 1})
        self.records: list[tuple[str, object]] = [
            (ERRORS, {"service": "cart", "minute_ms": 0, "errors": 2}),
            (ERRORS, {"service": "edge", "minute_ms": 60_000, "errors": 1}),
            (JOINED, {"session": 0, "user": "u-0", "name": "Ada", "plan": "pro", "country": "DE"}),
            (JOINED, {"session": 1, "user": "u-0", "name": "Ada", "plan": "pro", "country": "DE"}),
        ]
        self.numbers: list[int] = [0, 1, 2, 3]

    def lines(self) -> dict[str, Line]:
        outcome = Outcome()
        for topic, value in self.records:
            outcome.take(ConsumerRecord(topic, 0, 0, 0, None, json.dumps(value).encode(), ()))
        numbers = pyarrow.chunked_array([self.numbers], type=pyarrow.int64())
        found = account(LEDGER, held=self.held, outcome=outcome, numbers=numbers)
        return {line.name: line for line in found}


def test_a_right_account() -> None:
    lines = World().lines()
    assert list(lines) == [LOGS, SESSIONS, USERS, ERRORS, JOINED, TABLE]
    assert all(line.is_right for line in lines.values())
    assert [(line.into, line.out) for line in lines.values()] == [
        (4, 4),
        (2, 2),
        (1, 1),
        (3, 3),
        (2, 2),
        (4, 4),
    ]


def _forged(world: World) -> None:
    world.records[2] = (JOINED, {**world.records[2][1], "plan": "free"})  # type: ignore[dict-item]


SPOILED: dict[str, tuple[Callable[[World], None], str, tuple[int, int, int]]] = {
    "a feed is short": (lambda w: w.held.update({LOGS: -1}), LOGS, (1, 0, 0)),
    "a feed is long": (lambda w: w.held.update({USERS: 1}), USERS, (0, 1, 0)),
    "a count is missing": (lambda w: w.records.pop(0), ERRORS, (2, 0, 0)),
    "a count is wrong": (
        lambda w: w.records.__setitem__(0, (ERRORS, {"service": "cart", "minute_ms": 0, "errors": 1})),
        ERRORS,
        (0, 1, 0),
    ),
    "a count came from nowhere": (
        lambda w: w.records.append((ERRORS, {"service": "cart", "minute_ms": 120_000, "errors": 1})),
        ERRORS,
        (0, 1, 0),
    ),
    "a count came twice": (lambda w: w.records.append(w.records[0]), ERRORS, (0, 0, 1)),
    "not a count": (lambda w: w.records.append((ERRORS, ["?"])), ERRORS, (0, 1, 0)),
    "a session is missing": (lambda w: w.records.pop(), JOINED, (1, 0, 0)),
    "a session has another's plan": (_forged, JOINED, (0, 1, 0)),
    "a session came from nowhere": (
        lambda w: w.records.append((JOINED, {"session": 9, "user": "u-0"})),
        JOINED,
        (0, 1, 0),
    ),
    "a session came twice": (lambda w: w.records.append(w.records[3]), JOINED, (0, 0, 1)),
    "a row is missing": (lambda w: w.numbers.pop(), TABLE, (1, 0, 0)),
    "a row came from nowhere": (lambda w: w.numbers.append(4), TABLE, (0, 1, 0)),
    "a row came twice": (lambda w: w.numbers.append(3), TABLE, (0, 0, 1)),
}


@pytest.mark.parametrize("case", SPOILED, ids=str)
def test_a_spoiled_account(case: str) -> None:
    """One line says it, and only that line."""
    spoil, name, found = SPOILED[case]
    world = World()
    spoil(world)
    lines = world.lines()
    assert (lines[name].missing, lines[name].wrong, lines[name].again) == found
    assert not lines[name].is_right
    assert all(line.is_right for line in lines.values() if line.name != name)
