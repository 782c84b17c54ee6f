"""The promise that everything else rests on: a seed is a run, whichever process plays it."""

import os
import subprocess
import sys

import pytest

from headrace.testing.scenarios import SCENARIOS
from headrace.testing.simulate import play

SEED = 2
PLAY_ALL = (
    "import sys; from headrace.testing.simulate import play\n"
    "for scenario in sys.argv[2:]: print(play(scenario, int(sys.argv[1])))"
)


def outcomes_elsewhere(hash_seed):
    """What another process makes of the seed, with sets and dicts of strings laid out differently."""
    finished = subprocess.run(
        [sys.executable, "-c", PLAY_ALL, str(SEED), *sorted(SCENARIOS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(sorted(SCENARIOS), finished.stdout.splitlines(), strict=True))


@pytest.fixture(scope="module")
def here():
    return {scenario: str(play(scenario, SEED)) for scenario in sorted(SCENARIOS)}


def test_a_seed_plays_the_same_run_everywhere(here):
    assert outcomes_elsewhere("1") == here


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_seed_plays_the_same_run_again_and_another_seed_another(here, scenario):
    assert str(play(scenario, SEED)) == here[scenario]
    assert play(scenario, SEED + 1).digest not in here[scenario]
