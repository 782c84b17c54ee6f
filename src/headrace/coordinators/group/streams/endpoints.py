"""Endpoint maps: which member answers questions about which partitions (interactive queries, KIP-1071).

Members with an endpoint hear of each other's: an active task is known to a client as the partitions that it
reads, a standby by the same, since its state is a copy. The group counts changes, and a member that has heard
of the last one is told nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.coordinators.group.streams.internal_topics import ConfiguredSubtopology, PartitionCount
from headrace.coordinators.group.streams.member import StreamsGroupMember, UserEndpoint
from headrace.coordinators.group.streams.tasks import Tasks
from headrace.wire.schemas.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def endpoint_to_partitions(
    members: Iterable[StreamsGroupMember],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    partition_count: PartitionCount,
) -> list[EndpointToPartitions]:
    """For each member that has an endpoint, what it has the state of."""

    def partitions(tasks: Tasks) -> list[TopicPartition]:
        return list(_partitions_of(tasks, subtopologies, partition_count))

    return [
        EndpointToPartitions(
            _on_wire(member.user_endpoint),
            partitions(member.assigned.without_epochs().active),
            partitions(member.assigned.standby),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _on_wire(endpoint: UserEndpoint) -> Endpoint:
    return Endpoint(endpoint.host, endpoint.port)


def _partitions_of(
    tasks: Tasks, subtopologies: Mapping[str, ConfiguredSubtopology], partition_count: PartitionCount
) -> Iterator[TopicPartition]:
    """A topic with fewer partitions than there are tasks is read by the first of them."""
    for subtopology_id in sorted(tasks):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for topic in sorted(subtopology.source_topics.union(subtopology.repartition_source_topics)):
            count = partition_count(topic) or 0
            read = sorted(each for each in tasks[subtopology_id] if each < count)
            if read:
                yield TopicPartition(topic, read)
