"""Changes of single partitions (part of Kafka's ReplicationControlManager): AlterPartition, ElectLeaders and
AssignReplicasToDirs, and what the controller does about leaders by itself.

Leaders go back to first replicas (`auto.leader.rebalance.enable`): those were spread evenly when they were
placed, while failures heap leaders on whoever stayed up. And where a topic allows unclean elections, a
partition that nobody in sync can lead any more gets whoever is left (`unclean.leader.election.enable`). Both
walk over many partitions, so they go step by step: a step looks at a bounded number of partitions and
changes a bounded number, and says whether there is more to do.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_LEADER, TopicId
from headrace.controller.cluster_control import check_broker_epoch
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult, check_size
from headrace.controller.partition_change_builder import Election, change_partition
from headrace.metadata.directory_id import LOST
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
from headrace.wire.schemas.alter_partition import ISR_WITH_EPOCHS_SINCE

# Elections in one decision, as many as Kafka makes at once: clients of all of them must find new leaders.
ELECTIONS_MAX: Final = 1_000
# Partitions looked at in one step: some milliseconds, in which the controller hears nobody.
LOOKS_MAX: Final = 20_000


class ElectionType(IntEnum):
    """What ElectLeaders asks for."""

    PREFERRED = 0
    UNCLEAN = 1


def alter_partition(
    cluster: ClusterState, request: alter.AlterPartitionRequest, *, api_version: int
) -> ControllerResult[alter.AlterPartitionResponse]:
    """A leader says who is in sync with it now. Every partition succeeds or fails by itself."""
    check_broker_epoch(cluster, request.broker_id, request.broker_epoch)
    response = alter.AlterPartitionResponse()
    records: list[MetadataRecord] = []
    for topic_data in request.topics:
        result = alter.ResponseTopicData(topic_id=topic_data.topic_id)
        response.topics.append(result)
        topic = cluster.image.topics_by_id.get(TopicId(topic_data.topic_id))
        for data in topic_data.partitions:
            if api_version < ISR_WITH_EPOCHS_SINCE:
                data.new_isr_with_epochs = [alter.BrokerState(broker_id=each) for each in data.new_isr]
            try:
                result.partitions.append(_alter_one(cluster, topic, request.broker_id, data, records))
            except ApiError as error:
                result.partitions.append(
                    alter.ResponsePartitionData(partition_index=data.partition_index, error_code=error.code)
                )
    return ControllerResult(records, response)


def _alter_one(
    cluster: ClusterState,
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
    cluster: ClusterState, partition: PartitionImage, data: alter.RequestPartitionData, in_sync: list[int]
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
        is_new = state.broker_id not in partition.isr
        if is_new and partition.directory_of(state.broker_id) == LOST:
            raise ApiError(ErrorCode.INELIGIBLE_REPLICA)  # it has said itself that it cannot be used


def elect_leaders(
    cluster: ClusterState, request: elect.ElectLeadersRequest
) -> ControllerResult[elect.ElectLeadersResponse]:
    """Give partitions their preferred leader back, or any leader at all. Null stands for every partition."""
    if request.election_type not in ElectionType._value2member_map_:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown election type {request.election_type}",
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
    return ControllerResult(records, response)


def _elect_one(cluster: ClusterState, name: str, index: int, election_type: ElectionType) -> MetadataRecord:
    topic = cluster.image.topics_by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"No such partition as {name}-{index}",
        )
    preferred = election_type is ElectionType.PREFERRED
    settled = partition.leader == partition.preferred_leader if preferred else partition.leader != NO_LEADER
    if settled:
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED,
            "Leader election not needed for topic partition.",
        )
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    record = change_partition(cluster, topic, index, election=election)
    if record is None:
        if preferred:
            raise ApiError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                "The preferred leader was not available.",
            )
        raise ApiError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    return record


def assign_replicas_to_dirs(
    cluster: ClusterState, request: assign.AssignReplicasToDirsRequest
) -> ControllerResult[assign.AssignReplicasToDirsResponse]:
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
    return ControllerResult(records, response)


def _moved(
    cluster: ClusterState, topic: TopicImage, index: int, broker_id: int, directory_id: bytes, *, online: bool
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


class LeaderBalance:
    """One round over all partitions, in steps; then the next round begins."""

    def __init__(self) -> None:
        self._walk: Iterator[tuple[TopicId, int]] | None = None

    def step(self, cluster: ClusterState) -> ControllerResult[bool]:
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
        return ControllerResult(records, goes_on)


def _all_partitions(cluster: ClusterState) -> Iterator[tuple[TopicId, int]]:
    """Every partition that was there when its topic's turn came. The image may change meanwhile."""
    for topic_id in list(cluster.image.topics_by_id):
        topic = cluster.image.topics_by_id.get(topic_id)
        for index in () if topic is None else list(topic.partitions):
            yield topic_id, index


def elect_where_nobody_leads(cluster: ClusterState) -> ControllerResult[bool]:
    """Unclean elections where nobody leads and the topic allows them; whether there is more to do."""
    records: list[MetadataRecord] = []
    for topic, index, _ in islice(list(cluster.holdings.without_leader()), LOOKS_MAX):
        if cluster.topic_config(topic.name).unclean_leader_election_enable:
            record = change_partition(cluster, topic, index, election=Election.UNCLEAN)
            if record is not None:
                records.append(record)
        if len(records) >= ELECTIONS_MAX:
            return ControllerResult(records, True)
    return ControllerResult(records, False)
