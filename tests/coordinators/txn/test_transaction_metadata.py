"""The table of a transactional id's states, as Kafka has it."""

import pytest

from headrace.coordinators.txn.transaction_metadata import (
    TITLES,
    VALID_TRANSITIONS,
    TransactionMetadata,
    TransactionState,
)

# Kafka's own table: to each state, those that it may follow.
MAY_FOLLOW = {
    "Empty": {"Empty", "CompleteCommit", "CompleteAbort"},
    "Ongoing": {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": {"Ongoing", "PrepareEpochFence", "Empty", "CompleteCommit", "CompleteAbort"},
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": {"Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareEpochFence": {"Ongoing"},
}


def test_every_state_has_a_title_and_its_moves() -> None:
    assert TITLES.keys() == VALID_TRANSITIONS.keys() == set(TransactionState)


def test_moves_are_kafkas() -> None:
    ours: dict[str, set[str]] = {state.title: set() for state in TransactionState}
    for state, following in VALID_TRANSITIONS.items():
        for each in following:
            ours[each.title].add(state.title)
    assert ours == MAY_FOLLOW


@pytest.mark.parametrize("state", TransactionState)
def test_no_other_move_is_possible(state: TransactionState) -> None:
    txn = TransactionMetadata(transactional_id="t", producer_id=1, timeout_ms=1, update_ms=0, state=state)
    for other in set(TransactionState) - VALID_TRANSITIONS[state]:
        with pytest.raises(AssertionError, match="cannot become"):
            txn.transition_to(other)
