"""Who is near to what (KIP-881): members and replicas that say which rack they are in.

Racks count only where they can make a difference: where some member shares a rack with some partition, and
not every partition is on every rack that there is. Otherwise this answers that everybody is near everything.
A member that names no rack is near everything, too.
"""

from collections.abc import Iterable, Mapping

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.consumer_partition_assignor import PartitionInfo, Subscription, Topics


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """The rack of each member that names one."""
    return {member: each.rack for member, each in subscriptions.items() if each.rack}


def racks_matter(wanted: Iterable[str], partitions: Iterable[PartitionInfo]) -> bool:
    """Whether looking at racks can bring members of the wanted racks nearer to partitions."""
    each = [info.racks for info in partitions]
    all_racks = frozenset().union(*each)
    return not all_racks.isdisjoint(wanted) and any(racks != all_racks for racks in each)


class Racks:
    """The racks of a whole group; both tables are empty where racks do not matter."""

    __slots__ = ("of_member", "of_partition")

    def __init__(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> None:
        self.of_member = member_racks(subscriptions)
        self.of_partition: dict[TopicPartition, frozenset[str]] = {}
        if racks_matter(self.of_member.values(), (info for infos in topics.values() for info in infos)):
            for topic, infos in topics.items():
                self.of_partition.update(
                    (TopicPartition(topic, info.partition), info.racks) for info in infos
                )
        else:
            self.of_member = {}

    def __bool__(self) -> bool:
        return bool(self.of_member)

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and no replica of the partition is on it."""
        rack = self.of_member.get(member)
        return rack is not None and rack not in self.of_partition.get(partition, ())

    def shares(self, member: str, partition: TopicPartition) -> bool:
        """Whether member and partition are known to have a rack in common."""
        rack = self.of_member.get(member)
        return rack is not None and rack in self.of_partition.get(partition, ())

    def scarcest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Partitions with the fewest members on their racks first: they have the least choice."""
        if not self:
            return partitions
        members_on: dict[str, int] = {}
        for rack in self.of_member.values():
            members_on[rack] = members_on.get(rack, 0) + 1
        return sorted(
            partitions, key=lambda each: sum(members_on.get(rack, 0) for rack in self.of_partition[each])
        )
