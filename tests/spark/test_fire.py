"""Under fire, in its short form; `python -m tests.spark.fire --restarts 20` is the long one.

A driver that is killed costs a second JVM: the demonstration (`demo/test_run`) has one in each run, and
`test_sink_exactly_once` has one die at each step of a commit.
"""

import random

import pytest

from tests.spark import fire
from tests.spark.fire_source import EXACT_STEPS, STEPS

ONE_JVM = [("task", "write-after", 0), ("worker", "read", 1), ("broker", "write-before", 1)]
# It has decided and not yet said so.
DRIVER = ("driver", "finishing", 1)


@pytest.mark.slow  # the demonstration, a cluster's workers and the sink's own tests have each harm, in CI
@pytest.mark.timeout(600)
@pytest.mark.parametrize("harms", [ONE_JVM, [*ONE_JVM, DRIVER]])
def test_nothing_is_missing_or_doubled_after_each_kind_of_harm(harms: list[tuple[str, str, int]]) -> None:
    """One of each kind, where it hurts most."""
    told: list[str] = []
    fire.run(harms, fire.EXACTLY_ONCE, told.append)
    assert not [line for line in told if "was not reached" in line]


def test_every_kind_and_step_has_its_turn() -> None:
    everything = fire.harms(random.Random(1), 100, fire.EXACTLY_ONCE)
    assert {kind for kind, _, _ in everything} == set(fire.KINDS)
    assert {step for kind, step, _ in everything if kind == "driver"} == {*STEPS, *EXACT_STEPS}
    assert fire.harms(random.Random(1), 20, fire.EXACTLY_ONCE) == everything[:20]
