"""Tiered topics on simulated clusters; `headrace sim --scenario tiers --seeds 1000` is the long form."""

import pytest

from headrace.testing.simulate import play


@pytest.mark.parametrize(
    "seed", [5, 3000030, 3000033, 3000104, 3000421, 3000589, 3000624, 3001091, 3002642, 3003434]
)
def test_tiers(seed: int) -> None:
    play("tiers", seed)
