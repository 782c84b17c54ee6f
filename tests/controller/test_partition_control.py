"""AlterPartition, ElectLeaders, AssignReplicasToDirs and reassignments: changes that brokers and operators
ask for.
"""

from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import TopicId
from headrace.controller.core import ControllerCore
from headrace.controller.partition_control import alter_partition, assign_replicas_to_dirs, elect_leaders
from headrace.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from headrace.metadata.directory_id import UNASSIGNED
from headrace.metadata.topics import RECOVERED, RECOVERING, PartitionImage, record_of
from headrace.wire.schemas import alter_partition as alter
from headrace.wire.schemas import alter_partition_reassignments as reassign
from headrace.wire.schemas import assign_replicas_to_dirs as assign
from headrace.wire.schemas import elect_leaders as elect
from headrace.wire.schemas import list_partition_reassignments as listing
from headrace.wire.schemas import metadata_records as wire
from tests.controller.building import apply, directory_of, new_core

TOPIC = TopicId(b"t" * 16)


def core_with(*replicas: int, fenced: tuple[int, ...] = (), **more: Any) -> ControllerCore:
    core = new_core(1, 2, 3)
    fields = {"replicas": replicas, "isr": replicas, "leader": replicas[0]}
    fields["directories"] = tuple(map(directory_of, replicas))
    core.replay(
        [wire.TopicRecord(name="t", topic_id=TOPIC), record_of(TOPIC, 0, PartitionImage(**(fields | more)))]
    )
    core.replay(
        [wire.BrokerRegistrationChangeRecord(broker_id=b, broker_epoch=100 + b, fenced=1) for b in fenced]
    )
    return core


def partition_of(core: ControllerCore) -> PartitionImage:
    found = core.image.partition("t", 0)
    assert found is not None
    return found


def alter_isr(core: ControllerCore, *in_sync: int, broker: int = 1, api_version: int = 3, **more: Any) -> Any:
    data = alter.RequestPartitionData(
        **({"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0} | more)
    )
    if api_version >= 3:
        data.new_isr_with_epochs = data.new_isr_with_epochs or [
            alter.BrokerState(b, 100 + b) for b in in_sync
        ]
    else:
        data.new_isr = list(in_sync)
    request = alter.AlterPartitionRequest(
        broker, 100 + broker, [alter.RequestTopicData(more.pop("topic_id", TOPIC), [data])]
    )
    decision = alter_partition(core.cluster, request, api_version=api_version)
    return apply(core, decision).topics[0].partitions[0]


def test_a_leader_shrinks_and_grows_its_in_sync_set() -> None:
    core = core_with(1, 2, 3)
    result = alter_isr(core, 1, 2)
    assert (result.error_code, result.isr, result.leader_id, result.partition_epoch) == (0, [1, 2], 1, 1)
    assert partition_of(core).isr == (1, 2)
    assert alter_isr(core, 1, 2, 3, partition_epoch=1, api_version=2).isr == [1, 2, 3]
    unchanged = alter_isr(core, 1, 2, 3, partition_epoch=2)
    assert (unchanged.error_code, unchanged.partition_epoch) == (0, 2)


@pytest.mark.parametrize(
    ("in_sync", "more", "code"),
    [
        ((1, 2), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"broker": 2}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 9), {}, ErrorCode.INVALID_REQUEST),
        ((2,), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ((1, 3), {}, ErrorCode.INELIGIBLE_REPLICA),
        (
            (1, 2),
            {"new_isr_with_epochs": [alter.BrokerState(1, 101), alter.BrokerState(2, 7)]},
            ErrorCode.INELIGIBLE_REPLICA,
        ),
        ((1, 2), {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_in_sync_sets_that_are_refused(
    in_sync: tuple[int, ...], more: dict[str, Any], code: ErrorCode
) -> None:
    core = core_with(1, 2, 3, fenced=(3,))
    before = partition_of(core)
    assert alter_isr(core, *in_sync, **more).error_code == code
    assert partition_of(core) == before


def test_an_unknown_topic_and_a_stale_broker_are_told() -> None:
    core = core_with(1, 2)
    data = alter.RequestPartitionData(partition_index=0)
    strange = alter.AlterPartitionRequest(1, 101, [alter.RequestTopicData(b"x" * 16, [data])])
    reply = alter_partition(core.cluster, strange, api_version=3).reply
    assert reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(ApiError) as refused:
        alter_partition(core.cluster, alter.AlterPartitionRequest(1, 7), api_version=3)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_recovering_leader_says_when_it_has_recovered() -> None:
    core = core_with(1, 2, isr=(1,), leader_recovery_state=RECOVERING)
    assert alter_isr(core, 1, leader_recovery_state=RECOVERING).error_code == 0
    assert alter_isr(core, 1, leader_recovery_state=RECOVERED).leader_recovery_state == RECOVERED
    assert partition_of(core).leader_recovery_state == RECOVERED


def test_completing_a_reassignment_away_from_the_asker_tells_it_to_look_again() -> None:
    core = core_with(2, 1, isr=(1,), leader=1, adding_replicas=(2,), removing_replicas=(1,))
    assert alter_isr(core, 1, 2).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (partition_of(core).replicas, partition_of(core).leader) == ((2,), 2)


def elect_for(core: ControllerCore, kind: int, *indexes: int, topic: str = "t") -> dict[int, int]:
    request = elect.ElectLeadersRequest(kind, [elect.TopicPartitions(topic, list(indexes))])
    results = apply(core, elect_leaders(core.cluster, request)).replica_election_results
    return {result.partition_id: result.error_code for result in results[0].partition_result}


def test_preferred_leaders_are_elected_where_they_can() -> None:
    assert elect_for(core_with(1, 2, leader=2), 0, 0, 9) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert elect_for(core_with(1, 2), 0, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}
    missing = core_with(1, 2, leader=2, isr=(2,))
    assert elect_for(missing, 0, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect_for(missing, 0, 0, topic="nope") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_any_leader_is_elected_when_that_is_asked_for() -> None:
    lost = core_with(1, 2, leader=-1, isr=(1,), fenced=(1,))
    assert elect_for(lost, 1, 0) == {0: 0}
    assert (partition_of(lost).leader, partition_of(lost).isr) == (2, (2,))
    assert elect_for(lost, 1, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}
    nobody = core_with(1, 2, leader=-1, isr=(1,), fenced=(1, 2))
    assert elect_for(nobody, 1, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    with pytest.raises(ApiError, match="Unknown election type 9"):
        elect_for(lost, 9, 0)


def test_asked_about_all_partitions_only_news_is_told() -> None:
    core = core_with(1, 2, leader=2)
    request = elect.ElectLeadersRequest(0, None)
    first = apply(core, elect_leaders(core.cluster, request)).replica_election_results
    again = apply(core, elect_leaders(core.cluster, request)).replica_election_results
    assert [len(result.partition_result) for result in (*first, *again)] == [1, 0]


def test_brokers_say_in_which_directory_a_replica_is() -> None:
    core = core_with(1, 2, directories=(UNASSIGNED, UNASSIGNED))

    def put(directory: bytes, topic_id: bytes = TOPIC, index: int = 0, broker: int = 1) -> int:
        topics = [assign.RequestTopicData(topic_id, [assign.RequestPartitionData(index)])]
        request = assign.AssignReplicasToDirsRequest(
            broker, 100 + broker, [assign.RequestDirectoryData(directory, topics)]
        )
        reply = apply(core, assign_replicas_to_dirs(core.cluster, request))
        code: int = reply.directories[0].topics[0].partitions[0].error_code
        return code

    assert put(directory_of(1)) == 0
    assert partition_of(core).directories == (directory_of(1), UNASSIGNED)
    assert put(directory_of(1), topic_id=b"x" * 16) == ErrorCode.UNKNOWN_TOPIC_ID
    assert put(directory_of(1), index=4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert put(directory_of(3), broker=3) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert put(b"offline".ljust(16)) == 0
    assert (partition_of(core).leader, partition_of(core).isr) == (2, (2,)), "its directory is offline"


def move(
    core: ControllerCore, replicas: list[int] | None, *, index: int = 0, topic: str = "t", allow: bool = True
) -> Any:
    request = reassign.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allow,
        topics=[reassign.ReassignableTopic(topic, [reassign.ReassignablePartition(index, replicas)])],
    )
    return apply(core, alter_partition_reassignments(core.cluster, request)).responses[0].partitions[0]


def test_a_reassignment_is_listed_until_it_is_cancelled() -> None:
    core = core_with(1, 2)
    everything = listing.ListPartitionReassignmentsRequest()
    assert list_partition_reassignments(core.image, everything).topics == []
    assert move(core, [3, 2]).error_code == 0
    ongoing = list_partition_reassignments(core.image, everything).topics[0].partitions[0]
    assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == ([3, 2, 1], [3], [1])
    asked = listing.ListPartitionReassignmentsRequest(
        topics=[
            listing.ListPartitionReassignmentsTopics("t", [0, 7]),
            listing.ListPartitionReassignmentsTopics("nope", [0]),
        ]
    )
    assert [topic.name for topic in list_partition_reassignments(core.image, asked).topics] == ["t"]
    assert move(core, None).error_code == 0
    assert (partition_of(core).replicas, partition_of(core).is_reassigning) == ((2, 1), False)
    assert move(core, None).error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_mere_change_of_order_is_done_at_once() -> None:
    core = core_with(1, 2)
    assert move(core, [2, 1]).error_code == 0
    assert (partition_of(core).replicas, partition_of(core).leader) == ((2, 1), 1)
    assert move(core, [2, 1]).error_code == 0


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"replicas": [9]}, 39, "but no such broker is registered."),
        ({"replicas": [1, 1]}, 39, "more than once."),
        ({"replicas": []}, 39, "includes an empty replica list."),
        ({"replicas": [1], "index": 9}, 3, "Unable to find partition t:9."),
        ({"replicas": [1], "topic": "nope"}, 3, "Unable to find a topic named nope."),
        ({"replicas": [1], "allow": False}, 38, "has 2 replicas and would have 1"),
    ],
)
def test_reassignments_that_cannot_be(more: dict[str, Any], code: int, message: str) -> None:
    core = core_with(1, 2)
    result = move(core, **more)
    assert result.error_code == code
    assert message in str(result.error_message)


def test_cancelling_may_need_an_unclean_election() -> None:
    core = core_with(3, 1, isr=(3,), leader=3, adding_replicas=(3,), removing_replicas=(1,))
    core.replay([wire.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)])
    refused = move(core, None)
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    core.replay(
        [
            wire.ConfigRecord(
                resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true"
            )
        ]
    )
    assert move(core, None).error_code == 0
    assert (partition_of(core).replicas, partition_of(core).leader) == ((1,), 1)
