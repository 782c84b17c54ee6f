"""Which epochs a member of the quorum believes, when somebody else names them.

An epoch is adopted for good: it is on the disk before it is answered, and never goes back. The largest number
that the wire can carry therefore ends a quorum, for no election can follow it. Elections count one by one and
take time, so an epoch that is far ahead of this node's is no election's:

- A request may come from anybody. What requests add to a node's epoch is an allowance that fills with time.
- An answer to a request of one's own comes from where a voter listens, and may be far ahead: that of a voter
  which was cut off for long. That is also how a quorum follows a true epoch beyond the allowance, for every
  voter without a leader asks the others, a follower its leader, and a leader whoever is silent.
- Nobody is believed beyond `epoch_max`.
"""

from dataclasses import replace
from typing import Final

from headrace.base.ids import NO_LEADER
from headrace.raft.messages import NO_DIRECTORY, NOBODY, ElectionState

INT32_MAX: Final = 2**31 - 1

EPOCH_MAX: Final = 2**30
"""With an election in every second a quorum gets there in 34 years."""

LOST_ELECTIONS_MAX: Final = 2**20
"""How many elections without a record of them may lie behind a log: twelve days of one in every second."""

ALLOWANCE: Final = 1000
ALLOWANCE_PER_S: Final = 10
"""More elections than voters with the shortest time-outs hold; used up, the numbers last for seven years."""


def epoch_max(log_epoch: int) -> int:
    """The largest epoch to believe in. A log that is past the usual bound was written by elected leaders."""
    return max(EPOCH_MAX, min(log_epoch + LOST_ELECTIONS_MAX, INT32_MAX - 1))


class EpochAllowance:
    """By how much requests may still raise this node's epoch."""

    def __init__(self) -> None:
        self._left: float = ALLOWANCE
        self._at_ms: int | None = None

    def left(self, now_ms: int) -> int:
        if self._at_ms is not None:
            passed_s = max(now_ms - self._at_ms, 0) / 1000
            self._left = min(self._left + passed_s * ALLOWANCE_PER_S, ALLOWANCE)
        self._at_ms = now_ms
        return int(self._left)

    def use(self, epochs: int, now_ms: int) -> None:
        self._left = self.left(now_ms) - epochs


def believable(state: ElectionState, log_epoch: int) -> ElectionState:
    """A node's own state as it was on the disk, or one in its place where a request of a stranger ruined it.

    The epoch in its place is above all in which this node can have voted, so it votes in none twice.
    """
    if state.epoch <= epoch_max(log_epoch):
        return state
    return replace(
        state,
        epoch=log_epoch + LOST_ELECTIONS_MAX,
        leader_id=NO_LEADER,
        voted_id=NOBODY,
        voted_directory_id=NO_DIRECTORY,
    )
