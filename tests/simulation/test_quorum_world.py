"""Controllers under a nemesis; `headrace sim --scenario quorum` plays more seeds."""

import pytest

from headrace.raft.drivers import delivery
from headrace.testing.simulate import play


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 1056, 1211, 2000995, 7100247, 7300323])
def test_quorum(seed: int) -> None:
    play("quorum", seed)


@pytest.mark.parametrize("seed", [4, 5])
def test_quorum_that_loads_record_by_record(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and logs here are short: handed over in ordinary slices, each would be one."""
    monkeypatch.setattr(delivery, "SLICE_RECORDS", 1)
    play("quorum", seed)
