"""The promise that everything else rests on: a seed is a run, whichever process plays it."""

import os
import subprocess
import sys

import pytest

from headrace.testing.scenarios import SCENARIOS
from headrace.testing.simulate import play

PLAY = "import sys; from headrace.testing.simulate import play; print(play(sys.argv[1], int(sys.argv[2])))"


def outcome_elsewhere(scenario, seed, hash_seed):
    """What another process makes of a seed, with sets and dicts of strings laid out differently."""
    finished = subprocess.run(
        [sys.executable, "-c", PLAY, scenario, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_seed_plays_the_same_run_everywhere(scenario):
    seed = 2
    here = str(play(scenario, seed))
    assert str(play(scenario, seed)) == here
    assert outcome_elsewhere(scenario, seed, "1") == here
    assert outcome_elsewhere(scenario, seed, "2") == here


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_seeds_differ(scenario):
    assert play(scenario, 1).digest != play(scenario, 2).digest
