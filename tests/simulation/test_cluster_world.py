"""Whole clusters under seeds: some that are always the same, and a few that nobody has played before.

`headrace sim --seeds 1000` is the long form. A fresh seed that fails is no accident: the message has the
command that plays it again, on any machine.
"""

import random

import pytest

from headrace.base.ids import TopicPartition
from headrace.testing.scenarios.cluster_clients import check_reading
from headrace.testing.scenarios.replica_promises import Promises
from headrace.testing.simulate import play
from headrace.testing.world import CheckFailedError

FIRST_FRESH = 1_000_000
FRESH = {"cluster": 1, "quorum": 2, "replication": 2, "node": 3, "log": 3, "echo": 1}


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_keeps_its_promises(seed):
    play("cluster", seed)


def test_a_cluster_without_faults_keeps_them_too():
    play("cluster", 0, faults=())


@pytest.mark.parametrize("scenario", FRESH)
def test_fresh_seeds(scenario):
    for _ in range(FRESH[scenario]):
        play(scenario, random.SystemRandom().randrange(FIRST_FRESH, 10 * FIRST_FRESH))


# The checker itself: a rule that cannot fail would prove nothing.

WHERE = TopicPartition("events", 0)
A, B, C = b"writer0/0/0/x", b"writer0/0/1/x", b"writer1/0/0/x"


@pytest.fixture
def promises():
    promises = Promises(WHERE)
    promises.committed = {0: A, 1: C, 2: B}
    promises.acknowledge(0, [A])
    promises.acknowledge(2, [B])
    return promises


def test_what_is_right_passes(promises):
    check_reading(WHERE, [(0, A), (1, C), (2, B)], promises)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([(0, A), (1, C)], "offset 2 is lost"),
        ([(0, A), (2, B)], "offset 2 where 1 should be"),
        ([(0, A), (1, B), (2, B)], "not committed there"),
    ],
)
def test_what_is_wrong_is_found(promises, found, complaint):
    with pytest.raises(CheckFailedError, match=complaint):
        check_reading(WHERE, found, promises)


@pytest.mark.parametrize("values", [[A, A], [B, A]])
def test_what_is_there_twice_or_out_of_order_is_found(promises, values):
    promises.committed = dict(enumerate(values))
    with pytest.raises(CheckFailedError, match="twice or out of order"):
        check_reading(WHERE, list(enumerate(values)), promises)


def test_what_nobody_has_committed_cannot_be_acknowledged(promises):
    with pytest.raises(CheckFailedError, match="is not committed"):
        promises.acknowledge(1, [B])
