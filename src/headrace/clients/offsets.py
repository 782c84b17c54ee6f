"""Where in a partition a time, the beginning or the end is."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients.cluster import Cluster
from headrace.clients.errors import RefusedError, raise_for
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class Place(IntEnum):
    """A place in a partition, where ListOffsets takes a time."""

    LATEST = -1
    EARLIEST = -2


def find_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    """Each partition's first offset at or after a time, or the one at a `Place`; -1 where there is none."""
    wanted = sorted(set(partitions))

    def ask() -> dict[TopicPartition, int]:
        cluster.refresh(sorted({each.topic for each in wanted}))
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leader = cluster.view.leader(partition)
            if leader == NO_LEADER:
                raise RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
            by_leader.setdefault(leader, []).append(partition)
        found: dict[TopicPartition, int] = {}
        for leader, group in by_leader.items():
            found |= _find_on(cluster, leader, group, time_ms)
        return found

    return cluster.patiently(ask)


def _find_on(
    cluster: Cluster, leader: int, partitions: Sequence[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(ListOffsetsPartition(partition_index=partition.partition, timestamp=time_ms))
    request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()), timeout_ms=cluster.timeout_ms)
    found = {}
    for topic_result in cluster.call(request, node=leader).topics:
        for result in topic_result.partitions:
            partition = TopicPartition(topic_result.name, result.partition_index)
            raise_for(result.error_code, f"cannot find an offset in partition {partition}")
            found[partition] = result.offset
    return found
