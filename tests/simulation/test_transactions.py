"""Transactions on three nodes that are killed: the short form of txn_world.py, and its checker, which must be
able to find fault.
"""

import pytest

from tests.simulation.txn_checker import Attempt, History, Kind, Log, Outcome, Seen, check
from tests.simulation.txn_world import TxnWorld

A, B = b"a", b"b"
WHOLE: Log = {0: [(0, A)], 1: [(5, B)]}


def test_committed_is_whole_and_aborted_is_gone() -> None:
    history = TxnWorld(7, writers=2, kills=2).play()
    assert history.count(Outcome.COMMITTED) > 20
    assert history.count(Outcome.ABORTED) > 5
    assert any(each.fenced_at is not None for each in history.attempts.values())
    assert len(history.readers["along"]) > 50


def _history(outcome: Outcome, *rows: Seen, committing_at: float | None = 1.0) -> tuple[History, Attempt]:
    """One transaction: A to partition 0, B to partition 1."""
    history = History()
    attempt = history.begin("t")
    attempt.written = [(0, A), (1, B)]
    attempt.acknowledged = {(0, A): (0, 0.5), (1, B): (5, 0.5)}
    attempt.outcome, attempt.committing_at = outcome, committing_at
    history.readers["along"] += rows
    return history, attempt


def _kinds(history: History, log: Log) -> set[Kind]:
    return {each.kind for each in check(history, log)}


def test_nothing_is_wrong_where_nothing_is_wrong() -> None:
    rows = Seen(2.0, 0, 0, A), Seen(2.0, 1, 5, B)
    assert _kinds(_history(Outcome.COMMITTED, *rows)[0], WHOLE) == set()
    assert _kinds(_history(Outcome.UNKNOWN, *rows)[0], WHOLE) == set()
    assert _kinds(_history(Outcome.UNKNOWN)[0], {0: [], 1: []}) == set()
    assert _kinds(_history(Outcome.ABORTED)[0], {0: [], 1: []}) == set()


@pytest.mark.parametrize(
    ("outcome", "log", "kinds"),
    [
        (Outcome.COMMITTED, {0: [], 1: []}, {Kind.LOST_WRITE}),
        (Outcome.COMMITTED, {0: [(0, A)], 1: []}, {Kind.LOST_WRITE, Kind.TORN}),
        (Outcome.UNKNOWN, {0: [(0, A)], 1: []}, {Kind.TORN}),
        (Outcome.ABORTED, WHOLE, {Kind.ABORTED_READ}),
        (Outcome.COMMITTED, {0: [(0, A), (1, A)], 1: [(5, B)]}, {Kind.DUPLICATE_WRITE}),
        (Outcome.COMMITTED, {0: [(0, A), (1, b"c")], 1: [(5, B)]}, {Kind.INVENTED}),
        (Outcome.UNKNOWN, {0: [(0, b"c")], 1: []}, {Kind.INVENTED, Kind.DUPLICATE_OFFSET}),
    ],
)
def test_what_is_there_in_the_end(outcome: Outcome, log: Log, kinds: set[Kind]) -> None:
    assert _kinds(_history(outcome)[0], log) == kinds


def test_what_nobody_committed_is_not_read() -> None:
    assert _kinds(_history(Outcome.UNKNOWN, committing_at=None)[0], WHOLE) == {Kind.ABORTED_READ}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([Seen(0.5, 0, 0, A)], Kind.INTERMEDIATE_READ),
        ([Seen(2.0, 0, 0, A), Seen(2.0, 0, 0, A)], Kind.NON_MONOTONIC),
        ([Seen(2.0, 0, 2, b"d")], Kind.POLL_SKIP),
        ([Seen(2.0, 0, 0, b"d")], Kind.DUPLICATE_OFFSET),
        ([Seen(2.0, 0, 0, b"e")], Kind.INVENTED),
    ],
)
def test_what_a_reader_is_handed(rows: list[Seen], kind: Kind) -> None:
    history, _ = _history(Outcome.COMMITTED, *rows)
    other = history.begin("u")
    other.written, other.committing_at = [(0, b"d")], 0.1
    assert kind in _kinds(history, WHOLE)


def test_a_zombie_must_not_be_heard() -> None:
    history, attempt = _history(Outcome.COMMITTED)
    attempt.fenced_at = 0.7
    assert _kinds(history, WHOLE) == {Kind.ZOMBIE}
    attempt.outcome = Outcome.UNKNOWN
    assert _kinds(history, {0: [], 1: []}) == set()
    attempt.acknowledged[0, A] = (0, 0.9)
    assert _kinds(history, {0: [], 1: []}) == {Kind.ZOMBIE}
    # One that asked before it was fenced may have been heard.
    history, attempt = _history(Outcome.COMMITTED)
    attempt.fenced_at = 1.5
    assert _kinds(history, WHOLE) == set()
