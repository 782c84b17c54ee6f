"""One request with many names, of each kind whose work grows with its list: what is asked for does not exist,
or is named over and over, because that is what a stranger can ask for without any right.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headrace.wire.schemas import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_transactions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_for_leader_epoch,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    streams_group_describe,
    txn_offset_commit,
)

KNOWN: Final = "many-names"
"""A topic with one partition."""

GROUP: Final = "many-names"
"""A group with an offset of that partition."""

MEMBER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_TOPIC: Final = 2
_UNKNOWN_ID: Final = bytes(range(16))


class ManyNames(NamedTuple):
    """A request with so many names, in this version."""

    request: Callable[[int], Any]
    version: int


def _names(count: int) -> list[str]:
    return [f"n{number:06}" for number in range(count)]


def _each(count: int, make: Callable[[int], Any]) -> list[Any]:
    return [make(number) for number in range(count)]


def _list_offsets(count: int, topic: str = "t") -> list_offsets.ListOffsetsRequest:
    partitions = _each(count, lambda index: list_offsets.ListOffsetsPartition(index, timestamp=-1))
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(topic, partitions)]
    )


def _offset_commit(count: int, index: Callable[[int], int]) -> offset_commit.OffsetCommitRequest:
    partitions = _each(count, lambda number: offset_commit.OffsetCommitRequestPartition(index(number), 1))
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        topics=[offset_commit.OffsetCommitRequestTopic(KNOWN, partitions=partitions)],
    )


def _txn_offset_commit(count: int, index: Callable[[int], int]) -> txn_offset_commit.TxnOffsetCommitRequest:
    partitions = _each(
        count, lambda number: txn_offset_commit.TxnOffsetCommitRequestPartition(index(number), 1)
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=1,
        topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(KNOWN, partitions=partitions)],
    )


def _add_partitions(count: int) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(KNOWN, [*range(count)])],
    )


def _verify_partitions(count: int) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(KNOWN, [0])]
    transactions = [
        add_partitions_to_txn.AddPartitionsToTxnTransaction(name, 1, verify_only=True, topics=topics)
        for name in _names(count)
    ]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=transactions)


def _fetch(count: int) -> fetch.FetchRequest:
    partitions = _each(count, lambda index: fetch.FetchPartition(index, partition_max_bytes=1 << 20))
    return fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[fetch.FetchTopic("t", partitions=partitions)]
    )


def _share_fetch(count: int) -> share_fetch.ShareFetchRequest:
    partitions = _each(count, share_fetch.FetchPartition)
    return share_fetch.ShareFetchRequest(
        group_id="many-names-share",
        member_id=MEMBER_ID,
        share_session_epoch=0,
        max_wait_ms=500,
        min_bytes=1,
        max_records=500,
        batch_size=500,
        topics=[share_fetch.FetchTopic(_UNKNOWN_ID, partitions)],
    )


def _share_acknowledge(count: int) -> share_acknowledge.ShareAcknowledgeRequest:
    batch = share_acknowledge.AcknowledgementBatch(0, 0, [1])
    partitions = _each(count, lambda index: share_acknowledge.AcknowledgePartition(index, [batch]))
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id="many-names-share",
        member_id=MEMBER_ID,
        share_session_epoch=1,
        topics=[share_acknowledge.AcknowledgeTopic(_UNKNOWN_ID, partitions)],
    )


def _create_topics(count: int) -> create_topics.CreateTopicsRequest:
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in _names(count)]
    return create_topics.CreateTopicsRequest(topics, 30_000, validate_only=True)


def _alter(count: int) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    config = incremental_alter_configs.AlterableConfig("retention.ms", value="1")
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        [incremental_alter_configs.AlterConfigsResource(_TOPIC, name, [config]) for name in _names(count)]
    )


def _alter_all(count: int) -> alter_configs.AlterConfigsRequest:
    config = alter_configs.AlterableConfig("retention.ms", "1")
    return alter_configs.AlterConfigsRequest(
        [alter_configs.AlterConfigsResource(_TOPIC, name, [config]) for name in _names(count)]
    )


def _acls(count: int) -> create_acls.CreateAclsRequest:
    return create_acls.CreateAclsRequest(
        [create_acls.AclCreation(_TOPIC, name, 3, "User:a", "*", 3, 3) for name in _names(count)]
    )


def _quotas(count: int) -> alter_client_quotas.AlterClientQuotasRequest:
    ops = [alter_client_quotas.OpData("producer_byte_rate", 1e9)]
    return alter_client_quotas.AlterClientQuotasRequest(
        [
            alter_client_quotas.RequestEntryData([alter_client_quotas.EntityData("user", name)], ops)
            for name in _names(count)
        ],
        validate_only=True,
    )


def _share_offsets(count: int) -> describe_share_group_offsets.DescribeShareGroupOffsetsRequest:
    topics = [describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(KNOWN, [*range(count)])]
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
        [describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup("many-names-share", topics)]
    )


def _alter_share_offsets(count: int) -> alter_share_group_offsets.AlterShareGroupOffsetsRequest:
    partitions = _each(
        count, lambda index: alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(index, 0)
    )
    return alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        "many-names-share", [alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(KNOWN, partitions)]
    )


def _move(count: int) -> alter_replica_log_dirs.AlterReplicaLogDirsRequest:
    topics = [alter_replica_log_dirs.AlterReplicaLogDirTopic(KNOWN, [*range(1, count + 1)])]
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        [alter_replica_log_dirs.AlterReplicaLogDir("/nowhere", topics)]
    )


MANY_NAMES: Final[dict[str, ManyNames]] = {
    "add-partitions-to-txn": ManyNames(_add_partitions, 3),
    "verify-partitions-of-txn": ManyNames(_verify_partitions, 5),
    "alter-client-quotas": ManyNames(_quotas, 1),
    "alter-configs": ManyNames(_alter_all, 2),
    "alter-partition-reassignments": ManyNames(
        lambda count: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    "t",
                    _each(count, lambda index: alter_partition_reassignments.ReassignablePartition(index)),
                )
            ]
        ),
        0,
    ),
    "alter-replica-log-dirs": ManyNames(_move, 2),
    "alter-share-group-offsets": ManyNames(_alter_share_offsets, 0),
    "alter-user-scram-credentials": ManyNames(
        lambda count: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[
                alter_user_scram_credentials.ScramCredentialDeletion(name, 1) for name in _names(count)
            ]
        ),
        0,
    ),
    "consumer-group-describe": ManyNames(
        lambda count: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=_names(count)), 0
    ),
    "create-acls": ManyNames(_acls, 3),
    "create-partitions": ManyNames(
        lambda count: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(name, 2, None) for name in _names(count)]
        ),
        3,
    ),
    "create-topics": ManyNames(_create_topics, 7),
    "delete-acls": ManyNames(
        lambda count: delete_acls.DeleteAclsRequest(
            [delete_acls.DeleteAclsFilter(_TOPIC, name, 3, None, None, 1, 1) for name in _names(count)]
        ),
        3,
    ),
    "delete-groups": ManyNames(lambda count: delete_groups.DeleteGroupsRequest(_names(count)), 2),
    "delete-records": ManyNames(
        lambda count: delete_records.DeleteRecordsRequest(
            [
                delete_records.DeleteRecordsTopic(
                    "t", _each(count, lambda index: delete_records.DeleteRecordsPartition(index, 0))
                )
            ],
            1_000,
        ),
        2,
    ),
    "delete-share-group-offsets": ManyNames(
        lambda count: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
            "many-names-share",
            [delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(name) for name in _names(count)],
        ),
        0,
    ),
    "delete-topics": ManyNames(
        lambda count: delete_topics.DeleteTopicsRequest(topic_names=_names(count), timeout_ms=1_000), 5
    ),
    "describe-groups": ManyNames(
        lambda count: describe_groups.DescribeGroupsRequest(groups=_names(count)), 5
    ),
    "describe-producers": ManyNames(
        lambda count: describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest("t", [*range(count)])]
        ),
        0,
    ),
    "describe-share-group-offsets": ManyNames(_share_offsets, 0),
    "describe-some-log-dirs": ManyNames(
        lambda count: describe_log_dirs.DescribeLogDirsRequest(
            [describe_log_dirs.DescribableLogDirTopic(name, [0]) for name in _names(count)]
        ),
        4,
    ),
    "describe-transactions": ManyNames(
        lambda count: describe_transactions.DescribeTransactionsRequest(_names(count)), 0
    ),
    "elect-leaders": ManyNames(
        lambda count: elect_leaders.ElectLeadersRequest(
            topic_partitions=[elect_leaders.TopicPartitions("t", [*range(count)])]
        ),
        2,
    ),
    "fetch": ManyNames(_fetch, 12),
    "find-coordinator": ManyNames(
        lambda count: find_coordinator.FindCoordinatorRequest(coordinator_keys=_names(count)), 4
    ),
    "incremental-alter-configs": ManyNames(_alter, 1),
    "leave-group": ManyNames(
        lambda count: leave_group.LeaveGroupRequest(
            GROUP, members=[leave_group.MemberIdentity(name) for name in _names(count)]
        ),
        5,
    ),
    "list-config-resources": ManyNames(
        lambda count: list_config_resources.ListConfigResourcesRequest([_TOPIC] * count), 1
    ),
    "list-groups-by-state": ManyNames(lambda count: list_groups.ListGroupsRequest(_names(count)), 4),
    "list-offsets": ManyNames(_list_offsets, 8),
    "list-offsets-again": ManyNames(
        lambda count: list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(KNOWN, [list_offsets.ListOffsetsPartition(0, timestamp=-1)])
            ]
            * count,
        ),
        8,
    ),
    "list-partition-reassignments": ManyNames(
        lambda count: list_partition_reassignments.ListPartitionReassignmentsRequest(
            topics=[
                list_partition_reassignments.ListPartitionReassignmentsTopics("t", [*range(count)]),
            ]
        ),
        0,
    ),
    "list-transactions": ManyNames(
        lambda count: list_transactions.ListTransactionsRequest(state_filters=_names(count)), 1
    ),
    "offset-commit": ManyNames(lambda count: _offset_commit(count, lambda number: number + 1), 9),
    "offset-commit-again": ManyNames(lambda count: _offset_commit(count, lambda number: 0), 9),
    "offset-delete": ManyNames(
        lambda count: offset_delete.OffsetDeleteRequest(
            GROUP,
            [
                offset_delete.OffsetDeleteRequestTopic(
                    KNOWN, _each(count, lambda index: offset_delete.OffsetDeleteRequestPartition(index + 1))
                )
            ],
        ),
        0,
    ),
    "offset-for-leader-epoch": ManyNames(
        lambda count: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    "t", _each(count, offset_for_leader_epoch.OffsetForLeaderPartition)
                )
            ]
        ),
        4,
    ),
    "share-fetch": ManyNames(_share_fetch, 1),
    "share-acknowledge": ManyNames(_share_acknowledge, 1),
    "share-group-describe": ManyNames(
        lambda count: share_group_describe.ShareGroupDescribeRequest(group_ids=_names(count)), 1
    ),
    "streams-group-describe": ManyNames(
        lambda count: streams_group_describe.StreamsGroupDescribeRequest(group_ids=_names(count)), 0
    ),
    "txn-offset-commit": ManyNames(lambda count: _txn_offset_commit(count, lambda number: number + 1), 3),
    "txn-offset-commit-again": ManyNames(lambda count: _txn_offset_commit(count, lambda number: 0), 3),
}
