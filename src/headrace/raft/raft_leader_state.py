"""What only the quorum's leader knows: how far each replica of the log has got, and who is in touch.

A voter has on its disk what lies below the offset that it fetches from: it flushes before it asks for more.
The high watermark is the offset that a majority of voters has. A leader that a majority has not fetched from
for a while cannot commit anything, and somebody else may lead by now: it must give up (check-quorum).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.raft.messages import NO_DIRECTORY

UNKNOWN: Final = -1
OBSERVER_FORGOTTEN_MS: Final = 300_000
"""An observer that has not fetched for so long is not told of any more (Kafka's five minutes)."""

REPLICAS_MAX: Final = 10_000
"""Anybody can fetch under any id: beyond so many, who was silent longest is forgotten."""


@dataclass(slots=True)
class RaftReplicaState:
    """One replica, a voter or an observer. Times are monotonic milliseconds, -1 for never."""

    directory_id: bytes = NO_DIRECTORY
    end_offset: int = UNKNOWN
    fetched_ms: int = UNKNOWN
    caught_up_ms: int = UNKNOWN
    # The leader's end at the last fetch: a replica that reaches it was caught up at that time.
    leader_end_then: int = UNKNOWN
    committed_to: int = 0
    """What the replica itself knows to be committed, and so has replayed."""


@dataclass(slots=True)
class RaftLeaderState:
    """One leader's epoch. `in_touch_ms` is when each voter was last heard of, or when the epoch began."""

    node_id: int
    start_offset: int
    since_ms: int
    replicas: dict[int, RaftReplicaState] = field(default_factory=dict)

    def of(self, node_id: int) -> RaftReplicaState:
        replica = self.replicas.get(node_id)
        if replica is None:
            if len(self.replicas) >= REPLICAS_MAX:
                others = (each for each in self.replicas if each != self.node_id)
                del self.replicas[min(others, key=lambda each: self.replicas[each].fetched_ms)]
            replica = self.replicas[node_id] = RaftReplicaState()
        return replica

    def durable(self, end_offset: int) -> None:
        """The leader's own disk has everything below an offset."""
        own = self.of(self.node_id)
        own.end_offset = max(own.end_offset, end_offset)

    def fetched(
        self, node_id: int, directory_id: bytes, offset: int, *, leader_end: int, now_ms: int
    ) -> None:
        """A replica asks for what follows `offset`."""
        replica = self.of(node_id)
        if replica.directory_id != directory_id:
            # Another disk: what an earlier one had is no promise of this one's.
            replica = self.replicas[node_id] = RaftReplicaState(directory_id)
        if offset >= leader_end:
            replica.caught_up_ms = max(replica.caught_up_ms, now_ms)
        elif 0 <= replica.leader_end_then <= offset:
            replica.caught_up_ms = max(replica.caught_up_ms, replica.fetched_ms)
        replica.fetched_ms = now_ms
        replica.leader_end_then = leader_end
        replica.end_offset = max(replica.end_offset, offset)

    def has_another_disk(self, node_id: int, directory_id: bytes) -> bool:
        """Whether a node fetches under a voter's id that is not that voter, whose disk is gone for good
        (KIP-853: remove the old one, add the new)."""
        replica = self.replicas.get(node_id)
        return (
            replica is not None
            and node_id != self.node_id
            and NO_DIRECTORY not in (directory_id, replica.directory_id)
            and replica.directory_id != directory_id
        )

    def end_of(self, node_id: int, directory_id: bytes) -> int:
        """How far a voter has got; of another directory than the voter's nothing is known."""
        replica = self.replicas.get(node_id)
        if replica is None or self.has_another_disk(node_id, directory_id):
            return UNKNOWN
        return replica.end_offset

    def majority_end(self, voters: Mapping[int, bytes]) -> int:
        """The offset that a majority of the voters has."""
        ends = sorted((self.end_of(*voter) for voter in voters.items()), reverse=True)
        return ends[len(ends) // 2]

    def heard_of_ms(self, node_id: int) -> int:
        replica = self.replicas.get(node_id)
        return max(self.since_ms, UNKNOWN if replica is None else replica.fetched_ms)

    def silent_for(self, wait_ms: int, voters: Mapping[int, bytes], now_ms: int) -> list[int]:
        """Other voters that were not heard of for so long."""
        others = sorted(set(voters) - {self.node_id})
        return [voter for voter in others if now_ms - self.heard_of_ms(voter) >= wait_ms]

    def quorum_lost_at_ms(self, wait_ms: int, voters: Mapping[int, bytes]) -> int | None:
        """When a majority will have been silent for so long if nothing more is heard; None: never."""
        heard_ms = [
            self.since_ms if self.has_another_disk(*voter) else self.heard_of_ms(voter[0])
            for voter in voters.items()
            if voter[0] != self.node_id
        ]
        others = sorted(heard_ms, reverse=True)
        needed = len(voters) // 2 + 1 - (self.node_id in voters)
        return others[needed - 1] + wait_ms if 0 < needed <= len(others) else None

    def observers(self, voters: Mapping[int, bytes], now_ms: int) -> list[int]:
        """Replicas that do not vote and were heard of lately."""
        return [
            node_id
            for node_id, replica in self.replicas.items()
            if node_id not in voters and now_ms - replica.fetched_ms <= OBSERVER_FORGOTTEN_MS
        ]

    def successors(self, voters: Mapping[int, bytes]) -> tuple[int, ...]:
        """The other voters, those with the longest logs first."""
        others = [voter for voter in voters if voter != self.node_id]
        return tuple(sorted(others, key=lambda voter: (-self.end_of(voter, voters[voter]), voter)))
