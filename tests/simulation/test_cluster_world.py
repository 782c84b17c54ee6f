"""Whole clusters under seeds that are always the same, so that a commit passes or fails for good.

`headrace sim --seeds A..B` is the long form, and plays seeds that nobody has played before.
"""

import pytest

from headrace.base.ids import TopicPartition
from headrace.testing.scenarios.cluster_clients import check_reading
from headrace.testing.scenarios.committed_records import CommittedRecords
from headrace.testing.simulate import play
from headrace.testing.world import CheckFailedError

FIRST_FAR = 8_301_577
FAR = {"cluster": 1, "quorum": 2, "replication": 2, "node": 3, "log": 3, "echo": 1}


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_keeps_its_promises(seed):
    play("cluster", seed)


def test_a_cluster_without_faults_keeps_them_too():
    play("cluster", 0, faults=())


@pytest.mark.parametrize("scenario", FAR)
def test_seeds_far_from_the_usual_ones(scenario):
    """Quorum's 8301578 found that a torn end behind a snapshot was taken for damage."""
    for seed in range(FIRST_FAR, FIRST_FAR + FAR[scenario]):
        play(scenario, seed)


# The checker itself: a rule that cannot fail would prove nothing.

WHERE = TopicPartition("events", 0)
A, B, C = b"writer0/0/0/x", b"writer0/0/1/x", b"writer1/0/0/x"


@pytest.fixture
def committed_records():
    committed_records = CommittedRecords(WHERE)
    committed_records.committed = {0: A, 1: C, 2: B}
    committed_records.acknowledge(0, [A])
    committed_records.acknowledge(2, [B])
    return committed_records


def test_what_is_right_passes(committed_records):
    check_reading(WHERE, [(0, A), (1, C), (2, B)], committed_records)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([(0, A), (1, C)], "offset 2 is lost"),
        ([(0, A), (2, B)], "offset 2 where 1 should be"),
        ([(0, A), (1, B), (2, B)], "not committed there"),
    ],
)
def test_what_is_wrong_is_found(committed_records, found, complaint):
    with pytest.raises(CheckFailedError, match=complaint):
        check_reading(WHERE, found, committed_records)


@pytest.mark.parametrize("values", [[A, A], [B, A]])
def test_what_is_there_twice_or_out_of_order_is_found(committed_records, values):
    committed_records.committed = dict(enumerate(values))
    with pytest.raises(CheckFailedError, match="twice or out of order"):
        check_reading(WHERE, list(enumerate(values)), committed_records)


def test_what_nobody_has_committed_cannot_be_acknowledged(committed_records):
    with pytest.raises(CheckFailedError, match="is not committed"):
        committed_records.acknowledge(1, [B])
