"""The short form of copiers: librdkafka's and franz-go's, struck a few times; and what judges them, which
must be able to find fault.
"""

from itertools import islice
from pathlib import Path

import pytest

from tests.compat import brokers, prepare
from tests.compat.brokers import OutsideBroker
from tests.compat.copiers import schedule
from tests.compat.copiers.following import Copy
from tests.compat.copiers.roster import BROKER_SETTINGS
from tests.compat.copiers.run import Plan, run

SEED = 74  # one is replaced, one killed, one frozen, and one killed again
STRIKES = 4


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "client", ["confluent", pytest.param("franz", marks=[pytest.mark.golang, pytest.mark.slow])]
)
def test_the_copy_is_the_original(client: str, tmp_path: Path) -> None:
    if client == "franz":
        try:
            prepare.go_program()
        except prepare.UnavailableError as reason:
            pytest.skip(str(reason))
    with brokers.under_test(tmp_path, BROKER_SETTINGS) as broker:
        if isinstance(broker, OutsideBroker):
            pytest.skip("COMPAT_BOOTSTRAP names a broker whose topics are not ours to make")
        broker.start()
        outcome = run(broker, Plan(client, SEED, strikes=STRIKES), tmp_path)
        broker.stop()
    assert not outcome.violations, str(outcome)
    assert outcome.copied > 0
    assert set(outcome.strikes) == set(schedule.WEIGHTS)


def test_a_seed_decides_everything() -> None:
    def drawn(seed: int, nodes: int = 3) -> list[schedule.Strike]:
        return list(islice(schedule.strikes(seed, seats=3, nodes=nodes, session_ms=3_000), 100))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert {each.kind for each in drawn(1)} == {*schedule.WEIGHTS, schedule.KILL_NODE}
    assert {each.kind for each in drawn(1, nodes=1)} == set(schedule.WEIGHTS)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([b"0", b"1", b"1"], "1 is there more than once"),
        ([b"0", b"2"], "2 comes where 1 was due"),
        ([b"0", b"aborted"], "was aborted in the original"),
    ],
)
def test_a_copy_that_is_not_the_original_is_noticed(values: list[bytes], what: str) -> None:
    copy = Copy(1)
    for offset, value in enumerate(values):
        copy.take(0, offset, value)
    assert len(copy.violations) == 1
    assert what in copy.violations[0]


def test_a_copy_that_is_the_original() -> None:
    copy = Copy(2)
    for offset, (partition, value) in enumerate([(0, b"0"), (1, b"0"), (0, b"1")]):
        copy.take(partition, offset, value)
    assert (copy.counts, copy.violations) == ([2, 1], [])
