"""The real node in the simulated world; `headrace sim --scenario node --seeds 1000` is the long form."""

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.testing.scenarios.node import check_partition
from headrace.testing.scenarios.node_clients import ScenarioProducer
from headrace.testing.simulate import play
from headrace.testing.world import CheckFailedError


@pytest.mark.parametrize("seed", range(40))
def test_node(seed):
    play("node", seed)


# The checker itself: a rule that cannot fail would prove nothing.


@pytest.fixture
def producer():
    producer = ScenarioProducer(0)
    producer.sent = [b"a", b"b", b"c", b"d"]
    producer.acknowledged = {0: b"a", 1: b"b", 2: b"c"}
    return producer


def test_what_is_right_passes(producer):
    check_partition(producer, [(0, b"a"), (1, b"b"), (2, b"c")], is_damaged=False)
    check_partition(producer, [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], is_damaged=False)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([(0, b"a"), (1, b"b")], "offset 2 is lost"),
        ([], "offset 0 is lost"),
        ([(0, b"a"), (1, b"b"), (2, b"d")], "offset 2 is lost"),
        ([(0, b"a"), (1, b"b"), (2, b"b"), (3, b"c")], "twice or out of order"),
        ([(0, b"b"), (1, b"a"), (2, b"c")], "twice or out of order"),
        ([(0, b"a"), (2, b"c")], "offset 2 where 1 should be"),
        ([(0, b"a"), (1, b"x"), (2, b"c")], "what nobody sent"),
    ],
)
def test_what_is_wrong_is_found(producer, found, complaint):
    with pytest.raises(CheckFailedError, match=complaint):
        check_partition(producer, found, is_damaged=False)


def test_damage_excuses_loss_and_nothing_else(producer):
    check_partition(producer, [(0, b"a")], is_damaged=True)
    with pytest.raises(CheckFailedError, match="nobody sent"):
        check_partition(producer, [(0, b"x")], is_damaged=True)
    with pytest.raises(CheckFailedError, match="twice"):
        check_partition(producer, [(0, b"a"), (1, b"a")], is_damaged=True)


def test_a_refused_producer_is_told(producer):
    producer.refusal = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(CheckFailedError, match="OUT_OF_ORDER"):
        check_partition(producer, [(0, b"a"), (1, b"b"), (2, b"c")], is_damaged=False)
