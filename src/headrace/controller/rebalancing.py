"""What the controller does about leaders by itself, now and then.

Leaders go back to first replicas (`auto.leader.rebalance.enable`): those were spread evenly when they were
placed, while failures heap leaders on whoever stayed up. And where a topic allows unclean elections, a
partition that nobody in sync can lead any more gets whoever is left (`unclean.leader.election.enable`).

Both walk over many partitions, so they go step by step: a step looks at a bounded number of partitions and
changes a bounded number, and says whether there is more to do.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from headrace.base.ids import NO_LEADER, TopicId
from headrace.controller.cluster import Cluster
from headrace.controller.decision import Decision
from headrace.controller.elections import Election, change_partition
from headrace.metadata.image import MetadataRecord

# Elections in one decision, as many as Kafka makes at once: clients of all of them must find new leaders.
ELECTIONS_MAX: Final = 1_000
# Partitions looked at in one step: some milliseconds, in which the controller hears nobody.
LOOKS_MAX: Final = 20_000


class LeaderBalance:
    """One round over all partitions, in steps; then the next round begins."""

    def __init__(self) -> None:
        self._walk: Iterator[tuple[TopicId, int]] | None = None

    def step(self, cluster: Cluster) -> Decision[bool]:
        """Give some first replicas the lead back; the reply says whether this round goes on."""
        if self._walk is None:
            self._walk = _all_partitions(cluster)
        records: list[MetadataRecord] = []
        looked = 0
        for topic_id, index in islice(self._walk, LOOKS_MAX):
            looked += 1
            topic = cluster.image.topics_by_id.get(topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if topic is None or partition is None or partition.leader == NO_LEADER:
                continue
            first = partition.preferred_leader
            if partition.leader != first and first in partition.isr and cluster.is_active(first):
                record = change_partition(cluster, topic, index, election=Election.PREFERRED)
                if record is not None:
                    records.append(record)
            if len(records) >= ELECTIONS_MAX:
                break
        goes_on = looked == LOOKS_MAX or len(records) >= ELECTIONS_MAX
        if not goes_on:
            self._walk = None
        return Decision(records, goes_on)


def _all_partitions(cluster: Cluster) -> Iterator[tuple[TopicId, int]]:
    """Every partition that was there when its topic's turn came. The image may change meanwhile."""
    for topic_id in list(cluster.image.topics_by_id):
        topic = cluster.image.topics_by_id.get(topic_id)
        for index in () if topic is None else list(topic.partitions):
            yield topic_id, index


def elect_where_nobody_leads(cluster: Cluster) -> Decision[bool]:
    """Unclean elections where nobody leads and the topic allows them; whether there is more to do."""
    records: list[MetadataRecord] = []
    for topic, index, _ in islice(list(cluster.holdings.without_leader()), LOOKS_MAX):
        if cluster.topic_config(topic.name).unclean_leader_election_enable:
            record = change_partition(cluster, topic, index, election=Election.UNCLEAN)
            if record is not None:
                records.append(record)
        if len(records) >= ELECTIONS_MAX:
            return Decision(records, True)
    return Decision(records, False)
