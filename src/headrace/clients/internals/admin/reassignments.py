"""Replicas, as an administrator moves them: to other brokers, to other folders, and the lead among them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError, error_code, raise_for
from headrace.clients.internals.network_client import NetworkClient
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1


class PartitionReassignment(NamedTuple):
    """A reassignment under way: all replicas for now, and which of them come and go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of each topic's partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


async def reassign(
    client: NetworkClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, ClientError]:
    """Begin to move partitions to these replicas, or (None) stop moving them; what failed, and why."""
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(index, None if wanted is None else list(wanted))
                for index in indexes
                for wanted in (targets[TopicPartition(name, index)],)
            ],
        )
        for name, indexes in by_topic(targets).items()
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=client.timeout_ms, topics=topics)

    async def ask() -> dict[TopicPartition, ClientError]:
        response = await client.call(request)
        raise_for(response.error_code, "cannot reassign partitions", response.error_message)
        failed = {}
        for topic in response.responses:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                try:
                    raise_for(each.error_code, f"cannot reassign {where}", each.error_message)
                except ClientError as error:
                    failed[where] = error
        return failed

    return await client.patiently(ask)


async def list_reassignments(
    client: NetworkClient, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """Reassignments under way, of these partitions or of all."""
    topics = None
    if partitions is not None:
        topics = [ListPartitionReassignmentsTopics(*each) for each in by_topic(partitions).items()]
    request = ListPartitionReassignmentsRequest(timeout_ms=client.timeout_ms, topics=topics)

    async def ask() -> dict[TopicPartition, PartitionReassignment]:
        response = await client.call(request)
        raise_for(response.error_code, "cannot list reassignments", response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                each.replicas, each.adding_replicas, each.removing_replicas
            )
            for topic in response.topics
            for each in topic.partitions
        }

    return await client.patiently(ask)


async def move_to_log_dirs(
    client: NetworkClient, node_id: int, paths: Mapping[TopicPartition, str]
) -> dict[TopicPartition, ErrorCode]:
    """Have a broker move replicas of its own to these folders of its own; what it refused."""
    folders: dict[str, list[TopicPartition]] = {}
    for where, path in paths.items():
        folders.setdefault(path, []).append(where)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(*each) for each in by_topic(moved).items()])
            for path, moved in folders.items()
        ]
    )

    async def ask() -> dict[TopicPartition, ErrorCode]:
        response = await client.call(request, node=node_id)
        return {
            TopicPartition(topic.topic_name, each.partition_index): error_code(each.error_code)
            for topic in response.results
            for each in topic.partitions
            if each.error_code
        }

    return await client.patiently(ask)


async def elect_leaders(
    client: NetworkClient, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
) -> dict[TopicPartition, ErrorCode]:
    """Have first replicas lead again; unclean: rather any replica than none, though records may be lost.
    What could not be done, and why; None stands for every partition.
    """
    wanted = None
    if partitions is not None:
        wanted = [TopicPartitions(*each) for each in by_topic(partitions).items()]
    request = ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=wanted,
        timeout_ms=client.timeout_ms,
    )

    async def ask() -> dict[TopicPartition, ErrorCode]:
        response = await client.call(request)
        raise_for(response.error_code, "cannot elect leaders")
        return {
            TopicPartition(topic.topic, each.partition_id): error_code(each.error_code)
            for topic in response.replica_election_results
            for each in topic.partition_result
            if each.error_code
        }

    return await client.patiently(ask)
