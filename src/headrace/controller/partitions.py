"""AlterPartition, ElectLeaders and AssignReplicasToDirs: changes of partitions that brokers and operators
ask for.
"""

from enum import IntEnum

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_LEADER, TopicId
from headrace.controller.brokers import check_broker_epoch
from headrace.controller.cluster import Cluster
from headrace.controller.decision import Decision, check_size
from headrace.controller.elections import Election, change_partition
from headrace.metadata.image import MetadataRecord
from headrace.metadata.topics import (
    RECOVERED,
    RECOVERING,
    UNCHANGED_LEADER,
    PartitionImage,
    TopicImage,
    changed,
)
from headrace.wire.schemas import alter_partition as alter
from headrace.wire.schemas import assign_replicas_to_dirs as assign
from headrace.wire.schemas import elect_leaders as elect


class ElectionType(IntEnum):
    """What ElectLeaders asks for."""

    PREFERRED = 0
    UNCLEAN = 1


def alter_partition(
    cluster: Cluster, request: alter.AlterPartitionRequest, *, api_version: int
) -> Decision[alter.AlterPartitionResponse]:
    """A leader says who is in sync with it now. Every partition succeeds or fails by itself."""
    check_broker_epoch(cluster, request.broker_id, request.broker_epoch)
    response = alter.AlterPartitionResponse()
    records: list[MetadataRecord] = []
    for topic_data in request.topics:
        result = alter.ResponseTopicData(topic_id=topic_data.topic_id)
        response.topics.append(result)
        topic = cluster.image.topics_by_id.get(TopicId(topic_data.topic_id))
        for data in topic_data.partitions:
            if api_version < 3:
                data.new_isr_with_epochs = [alter.BrokerState(broker_id=each) for each in data.new_isr]
            try:
                result.partitions.append(_alter_one(cluster, topic, request.broker_id, data, records))
            except ApiError as error:
                result.partitions.append(
                    alter.ResponsePartitionData(partition_index=data.partition_index, error_code=error.code)
                )
    return Decision(records, response)


def _alter_one(
    cluster: Cluster,
    topic: TopicImage | None,
    broker_id: int,
    data: alter.RequestPartitionData,
    records: list[MetadataRecord],
) -> alter.ResponsePartitionData:
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(data.partition_index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_epochs(partition, broker_id, data)
    in_sync = [state.broker_id for state in data.new_isr_with_epochs]
    _check_in_sync(cluster, partition, data, in_sync)
    record = change_partition(
        cluster, topic, data.partition_index, isr=in_sync, recovery_state=data.leader_recovery_state
    )
    if record is not None:
        records.append(record)
        partition = changed(partition, record)
        if record.leader not in (UNCHANGED_LEADER, broker_id):
            # The change completed a reassignment that took the lead from its asker: it must look again.
            raise ApiError(ErrorCode.NEW_LEADER_ELECTED)
    return alter.ResponsePartitionData(
        partition_index=data.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _check_epochs(partition: PartitionImage, broker_id: int, data: alter.RequestPartitionData) -> None:
    """Whether the asker leads, and knows the partition as it is."""
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        # It knows more than this node, so another one must be the controller by now.
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if data.leader_epoch < partition.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if data.partition_epoch < partition.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_in_sync(
    cluster: Cluster, partition: PartitionImage, data: alter.RequestPartitionData, in_sync: list[int]
) -> None:
    """Whether these replicas can be in sync: the leader among them, all of them alive and of the epoch
    given.
    """
    unique = len(set(in_sync)) == len(in_sync)
    if not unique or not set(in_sync) <= set(partition.replicas) or partition.leader not in in_sync:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    alone_and_recovering = len(in_sync) == 1 and partition.leader_recovery_state != RECOVERED
    if data.leader_recovery_state == RECOVERING and not alone_and_recovering:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    for state in data.new_isr_with_epochs:
        broker = cluster.image.brokers.get(state.broker_id)
        if broker is None or not broker.is_active or state.broker_epoch not in (-1, broker.epoch):
            raise ApiError(ErrorCode.INELIGIBLE_REPLICA)


def elect_leaders(
    cluster: Cluster, request: elect.ElectLeadersRequest
) -> Decision[elect.ElectLeadersResponse]:
    """Give partitions their preferred leader back, or any leader at all. Null stands for every partition."""
    if request.election_type not in ElectionType._value2member_map_:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"election type {request.election_type}: known are "
            + ", ".join(f"{each.value} ({each.name})" for each in ElectionType),
        )
    election_type = ElectionType(request.election_type)
    wanted = request.topic_partitions
    every = wanted is None
    if wanted is None:
        wanted = [
            elect.TopicPartitions(topic=topic.name, partitions=list(topic.partitions))
            for topic in cluster.image.topics_by_name.values()
        ]
    response = elect.ElectLeadersResponse()
    records: list[MetadataRecord] = []
    for asked in wanted:
        result = elect.ReplicaElectionResult(topic=asked.topic)
        for index in asked.partitions:
            outcome = elect.PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(_elect_one(cluster, asked.topic, index, election_type))
            except ApiError as error:
                outcome.error_code, outcome.error_message = error.code, error.message
            # Asked about all, only what was done or failed is told.
            if not every or outcome.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                result.partition_result.append(outcome)
        response.replica_election_results.append(result)
    check_size(records)
    return Decision(records, response)


def _elect_one(cluster: Cluster, name: str, index: int, election_type: ElectionType) -> MetadataRecord:
    topic = cluster.image.topics_by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic '{name}' has no partition {index}, only 0 to {len(topic.partitions) - 1}",
        )
    preferred = election_type is ElectionType.PREFERRED
    settled = partition.leader == partition.preferred_leader if preferred else partition.leader != NO_LEADER
    if settled:
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED,
            f"{name}-{index} is led by {partition.leader} already, as it should be",
        )
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    record = change_partition(cluster, topic, index, election=election)
    if record is None:
        if preferred:
            raise ApiError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"{name}-{index}: broker {partition.preferred_leader} is down or not in sync, so it "
                "cannot lead yet",
            )
        raise ApiError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"{name}-{index}: none of its replicas {list(partition.replicas)} is up",
        )
    return record


def assign_replicas_to_dirs(
    cluster: Cluster, request: assign.AssignReplicasToDirsRequest
) -> Decision[assign.AssignReplicasToDirsResponse]:
    """A broker with several directories says in which one it put its replicas (KIP-858)."""
    broker = check_broker_epoch(cluster, request.broker_id, request.broker_epoch)
    response = assign.AssignReplicasToDirsResponse()
    records: list[MetadataRecord] = []
    for directory in request.directories:
        online = directory.id in broker.directories
        result = assign.ResponseDirectoryData(id=directory.id)
        for topic_data in directory.topics:
            topic = cluster.image.topics_by_id.get(TopicId(topic_data.topic_id))
            topic_result = assign.ResponseTopicData(topic_id=topic_data.topic_id)
            for data in topic_data.partitions:
                index, code = data.partition_index, ErrorCode.NONE
                if topic is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                elif index not in topic.partitions:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif broker.id not in topic.partitions[index].replicas:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                else:
                    records += _moved(cluster, topic, index, broker.id, directory.id, online=online)
                topic_result.partitions.append(
                    assign.ResponsePartitionData(partition_index=index, error_code=code)
                )
            result.topics.append(topic_result)
        response.directories.append(result)
    return Decision(records, response)


def _moved(
    cluster: Cluster, topic: TopicImage, index: int, broker_id: int, directory_id: bytes, *, online: bool
) -> list[MetadataRecord]:
    """A replica is in a directory; one that is offline takes it out of sync."""
    partition = topic.partitions[index]
    in_sync = [replica for replica in partition.isr if online or replica != broker_id]
    record = change_partition(
        cluster,
        topic,
        index,
        isr=in_sync,
        directories={broker_id: directory_id},
        may_lead=lambda replica: (online or replica != broker_id) and cluster.is_active(replica),
    )
    return [] if record is None else [record]
