"""The real transport in the simulated world; `headrace sim --scenario echo` plays more seeds."""

import pytest

from headrace.testing.simulate import play


# 7100350: a wire on which the largest frames take longer than the clients' patience.
@pytest.mark.parametrize("seed", [*range(12), 7100350])
def test_echo(seed):
    play("echo", seed)
