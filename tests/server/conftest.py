"""What several tests of this room stand on."""

import pytest

from headrace.testing.loop import SimulatedLoop


@pytest.fixture
def loop():
    """Virtual time: what sleeps waits for nothing real."""
    loop = SimulatedLoop(seed=1)
    yield loop
    assert not loop.uncaught
    loop.close()
