"""Under fire, in its short form; `python -m tests.spark.fire --restarts 20` is the long one."""

import random

import pytest

from tests.spark import fire
from tests.spark.fire_source import EXACT_STEPS, STEPS


@pytest.mark.timeout(600)
def test_nothing_is_missing_or_doubled_after_each_kind_of_harm() -> None:
    """One of each kind, where it hurts most; a killed driver has decided and not yet said so."""
    told: list[str] = []
    harms = [
        ("task", "write-after", 0),
        ("worker", "read", 1),
        ("broker", "write-before", 1),
        ("driver", "finishing", 1),
    ]
    fire.run(harms, fire.EXACTLY_ONCE, told.append)
    assert not [line for line in told if "was not reached" in line]


def test_every_kind_and_step_has_its_turn() -> None:
    everything = fire.harms(random.Random(1), 100, fire.EXACTLY_ONCE)
    assert {kind for kind, _, _ in everything} == set(fire.KINDS)
    assert {step for kind, step, _ in everything if kind == "driver"} == {*STEPS, *EXACT_STEPS}
    assert fire.harms(random.Random(1), 20, fire.EXACTLY_ONCE) == everything[:20]
