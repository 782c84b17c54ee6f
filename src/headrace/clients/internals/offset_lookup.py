"""Where in a partition a time, the beginning or the end is, and where a leader epoch ended."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import NO_LEADER, TopicPartition
from headrace.clients.errors import RefusedError, raise_for
from headrace.clients.internals.network_client import NetworkClient
from headrace.clients.offsets import OffsetAndTimestamp
from headrace.clients.offsets import OffsetSpec as OffsetSpec
from headrace.wire.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: Final = -1


async def find_offsets(
    client: NetworkClient,
    times: Mapping[TopicPartition, int],
    *,
    is_committed: bool = False,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Each partition's first offset at or after its time, or the one at an `OffsetSpec`."""

    async def ask() -> dict[TopicPartition, OffsetAndTimestamp]:
        await know_leaders(client, times)
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        for node, group in by_leader(client, times).items():
            found |= await _find_on(client, node, {each: times[each] for each in group}, is_committed)
        return found

    async def try_anew() -> dict[TopicPartition, OffsetAndTimestamp]:
        try:
            return await ask()
        except RefusedError:
            await client.refresh(sorted({each.topic for each in times}))
            raise

    return await client.patiently(try_anew, timeout_ms=timeout_ms)


async def know_leaders(client: NetworkClient, partitions: Iterable[TopicPartition]) -> None:
    unknown = {each.topic for each in partitions if client.metadata.leader(each).node == NO_LEADER}
    if unknown:
        await client.refresh(sorted(unknown))


def by_leader(client: NetworkClient, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    groups: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        node = client.metadata.leader(partition).node
        if node == NO_LEADER:
            raise RefusedError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
        groups.setdefault(node, []).append(partition)
    return groups


async def _find_on(
    client: NetworkClient, node: int, times: Mapping[TopicPartition, int], is_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, time_ms in times.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=client.metadata.leader(partition).epoch,
                timestamp=time_ms,
            )
        )
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=int(is_committed),
        topics=list(topics.values()),
        timeout_ms=client.timeout_ms,
    )
    found = {}
    for topic_result in (await client.call(request, node=node)).topics:
        for result in topic_result.partitions:
            partition = TopicPartition(topic_result.name, result.partition_index)
            raise_for(result.error_code, f"cannot find an offset in partition {partition}")
            found[partition] = OffsetAndTimestamp(result.offset, result.timestamp, result.leader_epoch)
    return found


async def find_epoch_ends(
    client: NetworkClient, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Any]:
    """For each partition, the end of the largest epoch not above the given one: an EpochEndOffset."""
    found: dict[TopicPartition, Any] = {}
    for node, group in by_leader(client, epochs).items():
        topics: dict[str, OffsetForLeaderTopic] = {}
        for each in group:
            topic = topics.setdefault(each.topic, OffsetForLeaderTopic(topic=each.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=each.partition,
                    current_leader_epoch=client.metadata.leader(each).epoch,
                    leader_epoch=epochs[each],
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        for topic_result in (await client.call(request, node=node)).topics:
            for result in topic_result.partitions:
                found[TopicPartition(topic_result.topic, result.partition)] = result
    return found
