"""Where in a partition a time, the beginning or the end is, and where a leader epoch ended."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_EPOCH, NO_LEADER, TopicPartition
from headrace.clients.cluster_client import ClusterClient
from headrace.clients.errors import RefusedError, raise_for
from headrace.clients.places import Place as Place
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: Final = -1


class FoundOffset(NamedTuple):
    """An offset with its record's time and leader epoch; -1 where there is none."""

    offset: int = -1
    timestamp_ms: int = -1
    epoch: int = NO_EPOCH


async def find_offsets(
    cluster: ClusterClient,
    times: Mapping[TopicPartition, int],
    *,
    is_committed: bool = False,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, FoundOffset]:
    """Each partition's first offset at or after its time, or the one at a `Place`."""

    async def ask() -> dict[TopicPartition, FoundOffset]:
        await _know_leaders(cluster, times)
        found: dict[TopicPartition, FoundOffset] = {}
        for node, group in _by_leader(cluster, times).items():
            found |= await _find_on(cluster, node, {each: times[each] for each in group}, is_committed)
        return found

    async def try_anew() -> dict[TopicPartition, FoundOffset]:
        try:
            return await ask()
        except RefusedError:
            await cluster.refresh(sorted({each.topic for each in times}))
            raise

    return await cluster.patiently(try_anew, timeout_ms=timeout_ms)


async def _know_leaders(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> None:
    unknown = {each.topic for each in partitions if cluster.view.leader(each).node == NO_LEADER}
    if unknown:
        await cluster.refresh(sorted(unknown))


def _by_leader(
    cluster: ClusterClient, partitions: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    groups: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        node = cluster.view.leader(partition).node
        if node == NO_LEADER:
            raise RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
        groups.setdefault(node, []).append(partition)
    return groups


async def _find_on(
    cluster: ClusterClient, node: int, times: Mapping[TopicPartition, int], is_committed: bool
) -> dict[TopicPartition, FoundOffset]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, time_ms in times.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=cluster.view.leader(partition).epoch,
                timestamp=time_ms,
            )
        )
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=int(is_committed),
        topics=list(topics.values()),
        timeout_ms=cluster.timeout_ms,
    )
    found = {}
    for topic_result in (await cluster.call(request, node=node)).topics:
        for result in topic_result.partitions:
            partition = TopicPartition(topic_result.name, result.partition_index)
            raise_for(result.error_code, f"cannot find an offset in partition {partition}")
            found[partition] = FoundOffset(result.offset, result.timestamp, result.leader_epoch)
    return found


async def find_epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Any]:
    """For each partition, the end of the largest epoch not above the given one: an EpochEndOffset."""
    found: dict[TopicPartition, Any] = {}
    for node, group in _by_leader(cluster, epochs).items():
        topics: dict[str, OffsetForLeaderTopic] = {}
        for each in group:
            topic = topics.setdefault(each.topic, OffsetForLeaderTopic(topic=each.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=each.partition,
                    current_leader_epoch=cluster.view.leader(each).epoch,
                    leader_epoch=epochs[each],
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        for topic_result in (await cluster.call(request, node=node)).topics:
            for result in topic_result.partitions:
                found[TopicPartition(topic_result.topic, result.partition)] = result
    return found
