"""Sticky assignment where all members subscribe to the same topics.

Everybody may have anything, so how many each gets is known beforehand: the even share, and for some members
(as many as the division leaves over) one on top. What remains is to move as little as possible:

1. Members keep what they own, up to their number. Where racks matter, only what is near to them.
2. Where racks matter, the others' places are filled with near partitions, those with the least choice first.
3. What is left is dealt out in turn to members below the even share, then one each on top.

`lean` members are below the even share, `even` ones have it and may get one more, `rich` ones have that.
"""

from collections import deque
from collections.abc import Collection, Sequence

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.claims import Claims
from headrace.clients.assignors.consumer_partition_assignor import Assignment
from headrace.clients.assignors.orders import code_units
from headrace.clients.assignors.racks import Racks


class ConstrainedAssignmentBuilder:
    """One assignment in the making."""

    def __init__(self, partitions: Collection[TopicPartition], claims: Claims, racks: Racks) -> None:
        self.assignment: Assignment = {member: [] for member in claims.owned}
        self.moving: set[TopicPartition] = set()
        """Partitions that go to another member than the one that has them."""
        self._partitions = partitions
        self._claims = claims
        self._racks = racks
        self._given_up: dict[TopicPartition, str] = {}
        self._share, self._rich_left = divmod(len(partitions), len(claims.owned))
        self._most = self._share + (self._rich_left > 0)
        self._lean: list[str] = []
        self._even: list[str] = []

    def spread(self) -> Assignment:
        for member in self.assignment:
            self._keep(member)
        kept = {each for partitions in self.assignment.values() for each in partitions}
        left = self._racks.scarcest_first([each for each in sorted(self._partitions) if each not in kept])
        self._lean.sort(key=code_units)
        self._even.sort(key=code_units)
        if self._racks:
            left = self._fill_near(left)
        self._deal_out(left)
        return self.assignment

    def _keep(self, member: str) -> None:
        """Leave a member what it owns, lowest numbers first, as far as its number goes."""
        owned = []
        for partition in sorted(self._claims.owned[member], key=lambda each: (each.partition, each.topic)):
            if self._racks.is_far(member, partition):
                self._given_up[partition] = member
            elif partition not in self._claims.contested:
                owned.append(partition)
        keep = self._share
        if len(owned) < self._share:
            self._lean.append(member)
        elif len(owned) >= self._most and self._rich_left:
            keep = self._most
            self._count_rich()
        elif self._rich_left:
            self._even.append(member)
        self.assignment[member] += owned[:keep]
        self._given_up.update((partition, member) for partition in owned[keep:])

    def _count_rich(self) -> None:
        """One more member has one on top; after the last, nobody with the even share waits for more."""
        self._rich_left -= 1
        if not self._rich_left:
            self._even.clear()

    def _fill_near(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members near them; returns those that nobody near has room for."""
        left = []
        turn = 0
        for partition in partitions:
            index = self._next_near(partition, self._lean, turn)
            if index is not None:
                member = self._lean[index]
                if len(self.assignment[member]) + 1 >= self._share:
                    del self._lean[index]
                    if self._share < self._most and self._rich_left:
                        self._even.append(member)
                else:
                    index += 1
                turn = index % len(self._lean) if self._lean else 0
            else:
                index = self._next_near(partition, self._even, 0)
                if index is None:
                    left.append(partition)
                    continue
                member = self._even.pop(index)
                self._count_rich()
            self._give(partition, member)
        return left

    def _next_near(self, partition: TopicPartition, members: Sequence[str], first: int) -> int | None:
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self._racks.shares(members[index], partition):
                return index
        return None

    def _deal_out(self, partitions: Sequence[TopicPartition]) -> None:
        lean, even = deque(self._lean), deque(self._even)
        for partition in partitions:
            member = lean.popleft() if lean else even.popleft()
            self._give(partition, member)
            if len(self.assignment[member]) < self._share:
                lean.append(member)
            elif len(self.assignment[member]) == self._share:
                even.append(member)

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.assignment[member].append(partition)
        if self._given_up.get(partition, member) != member or partition in self._claims.contested:
            self.moving.add(partition)
