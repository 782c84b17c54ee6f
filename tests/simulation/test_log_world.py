"""The real log on the simulated disk; `headrace.testing.simulate log --seeds 1000` is the long form."""

import pytest

from headrace.testing.simulate import play


@pytest.mark.parametrize("seed", range(200))
def test_log(seed):
    play("log", seed)
