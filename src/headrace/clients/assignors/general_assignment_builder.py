"""Sticky assignment where members subscribe to different topics.

How many each can get is not known beforehand, so the assignment is balanced step by step:

1. Members keep what they own and still subscribe to; where racks matter, only what is near to them.
2. Each partition without an owner goes to the member with the fewest that may have it, topics with the fewest
   subscribers first; where racks matter, first to near members only.
3. While some member has two more than another that could take one of its partitions, one moves. Only what was
   just given out moves at first, if nobody has to give anything up anyway. A partition whose earlier owner is
   back goes there. And no two members exchange partitions of one topic: instead of sending another one
   back, the one that came from there returns.
4. If members had partitions before and the moves made nothing more even, they are taken back.

Members and topics that have no choice take no part in the moves.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.claims import Claims
from headrace.clients.assignors.consumer_partition_assignor import Assignment, Topics
from headrace.clients.assignors.orders import code_units, hash_order, partition_hash
from headrace.clients.assignors.racks import Racks


class GeneralAssignmentBuilder:
    """One assignment in the making."""

    def __init__(
        self, topics: Topics, wants: Mapping[str, frozenset[str]], claims: Claims, racks: Racks
    ) -> None:
        self._wants = wants
        self._racks = racks
        self._earlier = claims.earlier
        self._subscribers = Counter(topic for wanted in wants.values() for topic in wanted)
        ordered = sorted(topics, key=lambda topic: (self._subscribers[topic], topic))
        self._partitions = [
            TopicPartition(topic, info.partition) for topic in ordered for info in topics[topic]
        ]
        self._count = {topic: len(infos) for topic, infos in topics.items()}
        self._held: dict[str, set[TopicPartition]] = {}
        self._holder: dict[TopicPartition, str] = {}
        self._topic_holders: dict[str, Counter[str]] = {topic: Counter() for topic in topics}
        self._ladder: list[tuple[int, bytes, str]] = []
        self._moves = PartitionMovements()
        self._must_revoke = self._keep_owned(claims)

    def _keep_owned(self, claims: Claims) -> bool:
        """Returns whether somebody has to give something up."""
        must_revoke = False
        for member, partitions in claims.owned.items():
            self._held[member] = set()
            for partition in partitions:
                if partition.topic not in self._wants[member] or self._racks.is_far(member, partition):
                    must_revoke = True
                else:
                    self._hold(partition, member)
            insort(self._ladder, self._rung(member))
        return must_revoke

    def spread(self) -> Assignment:
        is_first = self._ladder[-1][0] == 0
        new = [partition for partition in self._partitions if partition not in self._holder]
        for partition in self._give_near(new) if self._racks else new:
            self._give(partition, by_rack=False)
        self._ladder = [rung for rung in self._ladder if self._has_choice(rung[2])]
        before = dict(self._holder)
        score_before = self._unevenness()
        if not self._must_revoke:
            self._balance(partition for partition in new)
        if self._balance(self._partitions) and not is_first and self._unevenness() >= score_before:
            return self._assignment(before)
        return self._assignment(self._holder)

    def _assignment(self, holder: Mapping[TopicPartition, str]) -> Assignment:
        assignment: Assignment = {member: [] for member in self._held}
        for partition, member in holder.items():
            assignment[member].append(partition)
        return assignment

    # -- who has what

    def _hold(self, partition: TopicPartition, member: str) -> None:
        self._held[member].add(partition)
        self._holder[partition] = member
        self._topic_holders[partition.topic][member] += 1

    def _rung(self, member: str) -> tuple[int, bytes, str]:
        return len(self._held[member]), code_units(member), member

    def _give_near(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [partition for partition in partitions if not self._give(partition, by_rack=True)]

    def _give(self, partition: TopicPartition, *, by_rack: bool) -> bool:
        """Give a partition to the member with the fewest that may have it."""
        for index, (_, _, member) in enumerate(self._ladder):
            if partition.topic in self._wants[member] and not (
                by_rack and self._racks.is_far(member, partition)
            ):
                del self._ladder[index]
                self._hold(partition, member)
                insort(self._ladder, self._rung(member))
                return True
        return False

    # -- balance

    def _has_choice(self, member: str) -> bool:
        held = self._held[member]
        return len(held) < sum(self._count[topic] for topic in self._wants[member]) or any(
            self._subscribers[partition.topic] > 1 for partition in held
        )

    def _is_balanced(self) -> bool:
        most = self._ladder[-1][0]
        for size, _, member in self._ladder:
            if size + 1 >= most:
                return True
            if any(self._heaviest(topic) > size + 1 for topic in self._wants[member]):
                return False
        return True

    def _heaviest(self, topic: str) -> int:
        """The most that a member with a partition of this topic has in all."""
        return max((len(self._held[member]) for member in self._topic_holders[topic]), default=0)

    def _unevenness(self) -> int:
        """The differences between all pairs of members, added up."""
        last = len(self._ladder) - 1
        return sum(size * (2 * index - last) for index, (size, _, _) in enumerate(self._ladder))

    def _balance(self, partitions: Iterable[TopicPartition]) -> bool:
        """Move partitions until nothing can be made more even; returns whether any moved."""
        movable = [partition for partition in partitions if self._subscribers[partition.topic] > 1]
        moved = moved_now = False
        while True:
            moved_now = False
            for partition in movable:
                if self._is_balanced():
                    break
                target = self._better_member(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = moved_now = True
            if not moved_now:
                return moved

    def _better_member(self, partition: TopicPartition) -> str | None:
        size = len(self._held[self._holder[partition]])
        earlier = self._earlier.get(partition)
        # Java does not ask whether the earlier owner still wants the topic, and so may give the partition to
        # a member that does not subscribe to it. There we do not follow.
        if (
            earlier is not None
            and partition.topic in self._wants[earlier]
            and size > len(self._held[earlier]) + 1
        ):
            return earlier
        for least, _, member in self._ladder:
            if partition.topic in self._wants[member]:
                return member if size > least + 1 else None
        return None

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._moves.instead_of(partition, self._holder[partition], target)
        source = self._holder[partition]
        self._moves.add(partition, source, target)
        for member in (source, target):
            self._ladder.remove(self._rung(member))
        self._held[source].remove(partition)
        holders = self._topic_holders[partition.topic]
        holders[source] -= 1
        if not holders[source]:
            del holders[source]
        self._hold(partition, target)
        for member in (source, target):
            insort(self._ladder, self._rung(member))


class PartitionMovements:
    """Which partitions have moved from whom to whom, with detours cut short."""

    def __init__(self) -> None:
        self._path: dict[TopicPartition, tuple[str, str]] = {}
        self._on_path: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """What to move when this partition should: one that made the opposite way is sent back first."""
        source = self._path.get(partition, (source, ""))[0]
        opposite = self._on_path.get((partition.topic, target, source))
        return hash_order(opposite, partition_hash)[0] if opposite else partition

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        known = self._path.pop(partition, None)
        if known is not None:
            del self._on_path[partition.topic, *known][partition]
            source = known[0]
        if source != target:
            self._path[partition] = source, target
            self._on_path.setdefault((partition.topic, source, target), {})[partition] = None
