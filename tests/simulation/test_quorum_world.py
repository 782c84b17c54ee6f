"""Controllers under a nemesis; `headrace sim --scenario quorum` plays more seeds."""

import pytest

from headrace.testing.simulate import play


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 1056, 1211])
def test_quorum(seed: int) -> None:
    play("quorum", seed)
