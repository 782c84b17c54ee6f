"""A share group on simulated clusters; `headrace sim --scenario share --seeds 1000` is the long form."""

from collections.abc import Iterable

import pytest

from headrace.base.ids import TopicPartition
from headrace.coordinators.share.share_coordinator_shard import SharePartitionKey
from headrace.server.share.in_flight_batch import InFlightBatch, RecordState
from headrace.server.share.share_partition import SharePartition
from headrace.testing.scenarios.share_rules import Deliveries
from headrace.testing.simulate import play
from headrace.testing.world import CheckFailedError


# 0 failed once: state of share partitions was begun twice, and the second time forgot what was accepted.
@pytest.mark.parametrize("seed", range(3))
def test_a_share_group_keeps_its_promises(seed: int) -> None:
    play("share", seed)


def test_a_share_group_without_faults_keeps_them_too() -> None:
    play("share", 0, faults=())


# The checker itself: which answers count.


def window(epoch: int, start: int) -> SharePartition:
    return SharePartition(
        SharePartitionKey("g", bytes(16), 0), leader_epoch=epoch, state_epoch=0, start_offset=start
    )


def held(member_id: str, offsets: Iterable[int], *, answered: bool) -> InFlightBatch:
    first, *_, last = offsets
    batch = InFlightBatch(first, last, RecordState.AVAILABLE, 0)
    batch.acquire(member_id, 0)
    batch.next_state = RecordState.ACKNOWLEDGED if answered else None
    return batch


def test_an_answer_counts_that_a_leader_has_taken() -> None:
    found = Deliveries(TopicPartition("events", 0))
    core = window(3, 5)
    found.note_window(core)
    found.note_answer(7, core, held("m1", range(5, 9), answered=True))
    found.accept("member1", "m1", 7)
    assert (found.accepted, found.accepted_in) == ({7: "member1"}, {7: 3})
    with pytest.raises(CheckFailedError, match=r"7 is accepted by member1, and was by member1"):
        found.accept("member1", "m1", 7)


def test_an_answer_that_no_leader_has_taken_may_only_be_late() -> None:
    found = Deliveries(TopicPartition("events", 0))
    core = window(3, 5)
    found.note_window(core)
    found.accept("member1", "m1", 4)
    assert not found.accepted, "the window has passed it: the answer was late"
    with pytest.raises(CheckFailedError, match="no leader has taken that"):
        found.accept("member1", "m1", 5)
    found.note_answer(7, core, held("m1", range(5, 9), answered=True))
    found.note_answer(7, core, held("m1", range(5, 9), answered=False))
    with pytest.raises(CheckFailedError, match="no leader has taken that"):
        found.accept("member1", "m1", 7)


def test_a_leader_that_was_replaced_does_not_hide_what_the_next_one_heard() -> None:
    """It may have been asked the same, and finds out later that its answer is worth nothing."""
    found = Deliveries(TopicPartition("events", 0))
    replaced, leads = window(3, 5), window(4, 5)
    found.note_answer(7, leads, held("m1", range(7, 9), answered=True))
    found.note_answer(7, replaced, held("m1", range(7, 9), answered=True))
    found.accept("member1", "m1", 7)
    assert found.accepted_in == {7: 4}


# The checker itself: whose turn it is.

KEYS = {5: b"a", 6: b"b", 7: b"a", 8: None}


def test_a_record_is_out_of_turn_while_one_of_its_key_is_open() -> None:
    found = Deliveries(TopicPartition("events", 0))
    core = window(3, 5)
    core.append(InFlightBatch(5, 5, RecordState.AVAILABLE, 1))
    core.append(held("m1", range(6, 9), answered=False))
    with pytest.raises(CheckFailedError, match="epoch 3 hands out 7, and 5 of its key is not done with"):
        found.check_order(core, KEYS.get)
    next(iter(core)).state = RecordState.ACKNOWLEDGED
    found.check_order(core, KEYS.get)
    assert found.done_with == {5}


def test_a_record_does_not_come_back_behind_one_of_its_key() -> None:
    """But a leader that was replaced may have it yet."""
    found = Deliveries(TopicPartition("events", 0))
    core, replaced, leads = window(3, 6), window(2, 5), window(4, 5)
    core.append(held("m1", range(6, 9), answered=False))
    for each in (replaced, leads):
        each.append(InFlightBatch(5, 5, RecordState.AVAILABLE, 1))
    found.check_order(core, KEYS.get)
    found.check_order(replaced, KEYS.get)
    with pytest.raises(CheckFailedError, match="epoch 4 has 5, and one behind it"):
        found.check_order(leads, KEYS.get)
