"""roundrobin: all partitions of all topics in a row, dealt out to the members in a ring.

Members sit in ranked order; one that does not subscribe to a partition's topic is passed over. Shares differ
by at most one where all members subscribe to the same topics.
"""

from collections.abc import Iterable, Mapping

from headrace.base.ids import TopicPartition
from headrace.clients.assignors.consumer_partition_assignor import (
    Assignment,
    RebalanceProtocol,
    Subscription,
    Topics,
)
from headrace.clients.assignors.orders import ranked_members


class RoundRobinAssignor:
    """One partition each, around and around."""

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return None

    def on_assignment(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        pass

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        ring = ranked_members(subscriptions)
        wants = {member: frozenset(each.topics) for member, each in subscriptions.items()}
        assignment: Assignment = {member: [] for member in subscriptions}
        turn = 0
        for topic in sorted(frozenset().union(*wants.values()) & topics.keys()):
            for info in topics[topic]:
                while topic not in wants[ring[turn]]:
                    turn = (turn + 1) % len(ring)
                assignment[ring[turn]].append(TopicPartition(topic, info.partition))
                turn = (turn + 1) % len(ring)
        return assignment
