"""Under fire, in its short form; `python -m tests.spark.fire --restarts 20` is the long one."""

import random

import pytest

from tests.spark import fire
from tests.spark.fire_source import STEPS


@pytest.mark.timeout(600)
def test_nothing_is_missing_after_each_kind_of_harm() -> None:
    """One of each kind, where it hurts most; a killed driver has written a batch and not yet said so."""
    told: list[str] = []
    harms = [
        ("task", "write-after", 0),
        ("worker", "read", 1),
        ("broker", "write-before", 1),
        ("driver", "commit-before", 1),
    ]
    fire.run(harms, told.append)
    assert not [line for line in told if "was not reached" in line]


def test_every_kind_and_step_has_its_turn() -> None:
    everything = fire.harms(random.Random(1), 100)
    assert {kind for kind, _, _ in everything} == set(fire.KINDS)
    assert {step for kind, step, _ in everything if kind == "driver"} == set(STEPS)
    assert fire.harms(random.Random(1), 20) == everything[:20]
