"""Clusters with attackers among their clients: nobody loses a session for lack of a turn.

`headrace sim --scenario attackers --seeds 600` is the long form: two hours of virtual time.
"""

import pytest

from headrace.testing.simulate import SeedFailedError, play
from headrace.transport import connection

NEVER_NS = 10**15


@pytest.mark.parametrize("seed", [1, 8_301_577])
def test_a_cluster_under_attack_keeps_its_sessions(seed):
    play("attackers", seed)


def test_without_turns_somebody_is_thought_to_be_gone(monkeypatch):
    """The rule can be broken: a connection that is served to the end of what it sent holds the loop."""
    monkeypatch.setattr(connection, "SLICE_NS", NEVER_NS)
    with pytest.raises(SeedFailedError, match=r"somebody was gone|is lost"):
        play("attackers", 1)
