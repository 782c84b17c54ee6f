"""The promise that everything else rests on: a seed is a run, whichever process plays it, and whatever it has
played before."""

import os
import subprocess
import sys

from headrace.testing.scenarios import SCENARIOS
from headrace.testing.simulate import play

SEED = 2
PLAY_ALL = (
    "import sys; from headrace.testing.simulate import play\n"
    "for scenario in sys.argv[2:]:\n"
    "    for seed in int(sys.argv[1]) + 1, int(sys.argv[1]): print(play(scenario, seed))"
)


def outcomes_elsewhere(hash_seed):
    """What another process makes of the seed behind the next one, and of that, with sets and dicts of strings
    laid out differently."""
    finished = subprocess.run(
        [sys.executable, "-c", PLAY_ALL, str(SEED), *sorted(SCENARIOS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = finished.stdout.splitlines()
    return tuple(dict(zip(sorted(SCENARIOS), lines[at::2], strict=True)) for at in (1, 0))


def test_a_seed_plays_the_same_run_everywhere_and_another_seed_another():
    runs = {scenario: play(scenario, SEED) for scenario in sorted(SCENARIOS)}
    same, others = outcomes_elsewhere("1")
    assert same == {scenario: str(run) for scenario, run in runs.items()}
    for scenario, run in runs.items():
        assert str(run.digest) not in others[scenario]
