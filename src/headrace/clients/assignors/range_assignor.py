"""range: each topic is cut into as many runs of partitions as it has subscribers.

Topics are looked at one by one, members in ranked order, and the first ones get one partition more where the
cut is uneven. So members that subscribe to the same topics with as many partitions get the same numbers of
all of them, which joins rely on.

Where racks matter (KIP-881) partitions first go to members near a replica, in the same order and up to the
same number each; topics of the same subscribers and size are given out together, so that joins still find
the same numbers at one member. What is left is then cut as ever.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.consumer_partition_assignor import (
    Assignment,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
    Topics,
)
from headrace.clients.assignors.orders import ranked_members
from headrace.clients.assignors.racks import member_racks, racks_matter


class _Topic:
    """One topic while it is given out."""

    __slots__ = ("_extras", "_share", "by_rack", "members", "name", "racks", "taken", "unassigned")

    def __init__(self, name: str, infos: Iterable[PartitionInfo], members: Mapping[str, str | None]) -> None:
        self.name = name
        self.members = members  # with their racks, in ranked order
        self.racks = {info.partition: info.racks for info in infos}
        self.unassigned = list(self.racks)
        self.taken: dict[str, list[int]] = {member: [] for member in members}
        self._share, self._extras = divmod(len(self.racks), max(len(members), 1))
        wanted = {rack for rack in members.values() if rack is not None}
        self.by_rack = racks_matter(wanted, infos)

    def room(self, member: str) -> int:
        """How many more the member may have: an even share, and one on top while there are such."""
        return max(self._share + (self._extras > 0) - len(self.taken[member]), 0)

    def is_near(self, member: str, partition: int) -> bool:
        rack = self.members[member]
        return rack is None or rack in self.racks.get(partition, ())

    def give(self, member: str, partitions: Iterable[int]) -> None:
        given = set(partitions)
        if not given:
            return
        self.taken[member] += given
        self._extras -= len(self.taken[member]) > self._share
        self.unassigned = [each for each in self.unassigned if each not in given]


class RangeAssignor:
    """Runs of partitions, topic by topic."""

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return None

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        pass

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        racks = member_racks(subscriptions)
        subscribers: dict[str, dict[str, str | None]] = {}
        for member in ranked_members(subscriptions):
            for topic in subscriptions[member].topics:
                subscribers.setdefault(topic, {})[member] = racks.get(member)
        wanted = [
            _Topic(name, topics[name], members) for name, members in subscribers.items() if name in topics
        ]
        if any(topic.by_rack for topic in wanted):
            for together in _copartitioned(wanted):
                if len(together) > 1:
                    _give_together(together)
                elif together[0].by_rack:
                    _give_runs(together[0], together[0].is_near)
        for each in wanted:
            _give_runs(each, lambda _member, _partition: True)
        assignment: Assignment = {member: [] for member in subscriptions}
        for each in sorted(wanted, key=lambda each: each.name):
            for member, partitions in each.taken.items():
                assignment[member] += (TopicPartition(each.name, number) for number in sorted(partitions))
        return assignment


def _copartitioned(topics: Iterable[_Topic]) -> Iterable[list[_Topic]]:
    """Topics grouped by subscribers and number of partitions; those where nobody has a rack are left out."""
    groups: dict[object, list[_Topic]] = {}
    for topic in topics:
        if any(rack is not None for rack in topic.members.values()):
            groups.setdefault((frozenset(topic.members), len(topic.racks)), []).append(topic)
    return groups.values()


def _give_together(topics: list[_Topic]) -> None:
    """Give each number in all topics to the first member that is near to all of them."""
    candidates = list(topics[0].members)
    for partition in topics[0].racks:
        for member in candidates:
            if all(topic.is_near(member, partition) and topic.room(member) for topic in topics):
                for topic in topics:
                    topic.give(member, (partition,))
                break


def _give_runs(topic: _Topic, may: Callable[[str, int], bool]) -> None:
    """Give each member in turn the first partitions it may have."""
    for member in topic.members:
        fitting = (partition for partition in topic.unassigned if may(member, partition))
        topic.give(member, list(islice(fitting, topic.room(member))))
