"""AlterPartitionReassignments and ListPartitionReassignments: moving replicas from brokers to others
(KIP-455).

A reassignment first adds the new replicas beside the old ones, which stay until all new ones are in sync;
the change of the in-sync set that makes it so also completes it (`elections`). Cancelling takes the added
ones out again.
"""

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult, check_size
from headrace.controller.partition_change_builder import change_partition
from headrace.controller.replication_control import check_replicas
from headrace.metadata.image import MetadataImage, MetadataRecord
from headrace.metadata.topics import TopicImage
from headrace.wire.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headrace.wire.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    cluster: ClusterState, request: AlterPartitionReassignmentsRequest
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Begin, change or cancel reassignments. Every partition succeeds or fails by itself."""
    allow_change = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        error_message=None if request.topics else "", allow_replication_factor_change=allow_change
    )
    records: list[MetadataRecord] = []
    for asked in request.topics:
        result = ReassignableTopicResponse(name=asked.name)
        response.responses.append(result)
        for target in asked.partitions:
            outcome = ReassignablePartitionResponse(
                partition_index=target.partition_index, error_message=None
            )
            result.partitions.append(outcome)
            try:
                record = _reassign(cluster, asked.name, target, allow_change=allow_change)
            except ApiError as error:
                outcome.error_code, outcome.error_message = error.code, error.message
                continue
            if record is not None:
                records.append(record)
    check_size(records)
    return ControllerResult(records, response)


def _reassign(
    cluster: ClusterState, name: str, target: ReassignablePartition, *, allow_change: bool
) -> MetadataRecord | None:
    topic = cluster.image.topics_by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if target.partition_index not in topic.partitions:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{target.partition_index}.",
        )
    if target.replicas is None:
        return _cancel(cluster, topic, target.partition_index)
    return _begin(cluster, topic, target.partition_index, target.replicas, allow_change=allow_change)


def _begin(
    cluster: ClusterState, topic: TopicImage, index: int, replicas: list[int], *, allow_change: bool
) -> MetadataRecord | None:
    partition = topic.partitions[index]
    check_replicas(cluster, replicas)
    current = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
    if not allow_change and len(replicas) != len(current):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{topic.name}-{index} has {len(current)} replicas and would have {len(replicas)}, which "
            "the request does not allow",
        )
    removing = sorted(set(partition.replicas) - set(replicas))
    adding = sorted(set(replicas) - set(partition.replicas))
    return change_partition(
        cluster, topic, index, replicas=[*replicas, *removing], removing=removing, adding=adding
    )


def _cancel(cluster: ClusterState, topic: TopicImage, index: int) -> MetadataRecord | None:
    partition = topic.partitions[index]
    if not partition.is_reassigning:
        raise ApiError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            f"{topic.name}-{index} is not being reassigned, so there is nothing to cancel",
        )
    replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
    in_sync = [replica for replica in partition.isr if replica not in partition.adding_replicas]
    if not in_sync:
        if not cluster.topic_config(topic.name).unclean_leader_election_enable:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{topic.name}-{index} cannot go back to replicas {replicas}: none of them is in "
                "sync, and the topic does not allow unclean.leader.election.enable",
            )
        in_sync = replicas[:1]
    return change_partition(cluster, topic, index, replicas=replicas, isr=in_sync, removing=(), adding=())


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Reassignments under way, of the partitions asked for or of all."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        asked = {topic.name: list(topic.partitions) for topic in image.topics_by_name.values()}
    else:
        asked = {topic.name: topic.partition_indexes for topic in request.topics}
    for name, indexes in asked.items():
        topic = image.topics_by_name.get(name)
        if topic is None:
            continue
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return response
