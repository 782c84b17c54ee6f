"""Controllers under a nemesis; `python -m headrace.testing.simulate quorum` plays more seeds."""

import pytest

from headrace.testing.simulate import play


@pytest.mark.parametrize("seed", range(6))
def test_quorum(seed: int) -> None:
    play("quorum", seed)
