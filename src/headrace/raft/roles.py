"""What a node can be in an epoch, where it may go from there, and how long it waits for what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a node is in its epoch."""

    UNATTACHED = "unattached"  # knows the epoch but not its leader, and has not voted in it
    VOTED = "voted"  # gave its vote away, and waits to hear who won
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"  # asks whether it would be elected
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"  # led this epoch and gave it up; never leads it again


MOVES: Final[Mapping[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset({Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.VOTED: frozenset({Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.FOLLOWER: frozenset({Role.PROSPECTIVE}),
    Role.PROSPECTIVE: frozenset({Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.CANDIDATE: frozenset({Role.LEADER, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.LEADER: frozenset({Role.RESIGNED}),
    Role.RESIGNED: frozenset({Role.PROSPECTIVE}),
}
"""Where a node may go within one epoch."""

ENTRIES: Final = frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.CANDIDATE})
"""What a node may become when it meets a newer epoch, whatever it was before."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a node waits, in milliseconds. What is a call has chance in it, so that voters differ."""

    election_ms: Callable[[], int]  # for an election to be decided, or for a leader to speak up
    backoff_ms: Callable[[int], int]  # after so many elections in a row that were not won
    hurry_ms: Callable[[], int]  # before standing in place of a leader that is gone
    fetch_ms: int  # for word from a leader that is known

    @property
    def quorum_ms(self) -> int:
        """How long a leader goes on without a majority: longer than its followers wait for it."""
        return self.fetch_ms * 3 // 2

    @property
    def announce_ms(self) -> int:
        """How often a leader makes itself known to voters that do not fetch."""
        return max(self.fetch_ms // 2, 1)
