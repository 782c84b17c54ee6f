"""Transactions on three nodes that are killed: the short form of txn_world.py, whose rules can be broken."""

import pytest

from tests.simulation.txn_world import Account, Outcome, TxnWorld


def test_committed_is_whole_and_aborted_is_gone() -> None:
    account = TxnWorld(7, writers=2, kills=2).play()
    outcomes = list(account.outcomes.values())
    assert outcomes.count(Outcome.COMMITTED) > 20
    assert outcomes.count(Outcome.ABORTED) > 5


@pytest.mark.parametrize(
    ("outcome", "found", "complaint"),
    [
        (Outcome.COMMITTED, {0: [b"a"], 1: []}, "not whole"),
        (Outcome.ABORTED, {0: [b"a"], 1: []}, "aborted and is read"),
        (Outcome.UNKNOWN, {0: [b"a"], 1: []}, "torn"),
        (Outcome.UNKNOWN, {0: [b"a", b"a"], 1: [b"b"]}, "twice"),
        (Outcome.UNKNOWN, {0: [b"c"], 1: []}, "nobody wrote"),
    ],
)
def test_a_broken_rule_is_noticed(outcome: Outcome, found: dict[int, list[bytes]], complaint: str) -> None:
    account = Account()
    account.written["t"] = [(0, b"a"), (1, b"b")]
    account.outcomes["t"] = outcome
    with pytest.raises(AssertionError, match=complaint):
        account.check(found)
