"""The real transport in the simulated world; `headrace sim --scenario echo` plays more seeds."""

import pytest

from headrace.testing.simulate import play


@pytest.mark.parametrize("seed", range(12))
def test_echo(seed):
    play("echo", seed)
