"""CreateTopics, held to what Apache Kafka 4.3.1 was seen to answer."""

from random import Random
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.core import ControllerCore
from headrace.controller.replication_control import create_topics
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tests.controller.building import apply, directory_of, new_core, registration


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    at: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    **settings: str | None,
) -> CreatableTopic:
    assigned = at.items() if isinstance(at, dict) else at or ()
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assigned else partitions,
        replication_factor=-1 if assigned else factor,
        assignments=[CreatableReplicaAssignment(index, ids) for index, ids in assigned],
        configs=[CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()],
    )


def create(
    core: ControllerCore, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    results: list[CreatableTopicResult] = apply(
        core, create_topics(core.cluster, request, rng=Random(3))
    ).topics
    return results


def test_a_topic_gets_its_records_in_order_and_its_reply_tells_all() -> None:
    core = new_core(1)
    decision = create_topics(
        core.cluster,
        CreateTopicsRequest(topics=[topic("orders", 2, retention_ms="5")]),
        rng=Random(3),
    )
    assert [type(record) for record in decision.records] == [
        wire.TopicRecord,
        wire.ConfigRecord,
        wire.PartitionRecord,
        wire.PartitionRecord,
    ]
    partition = decision.records[2]
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ([1], [1], 1, 0)
    assert partition.directories == [directory_of(1)]
    result = decision.reply.topics[0]
    assert (result.error_code, result.error_message, result.num_partitions) == (0, None, 2)
    assert result.topic_id == decision.records[0].topic_id
    settings = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert settings["retention.ms"] == ("5", 1)
    assert settings["segment.bytes"] == ("1073741824", 5)
    assert list(settings) == sorted(settings)


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (topic("taken"), 36, "Topic 'taken' already exists."),
        (topic("a b"), 17, "contains one or more characters other than ASCII alphanumerics"),
        (topic(""), 17, "the empty string is not allowed"),
        (topic(".."), 17, "'..' is not allowed"),
        (topic("x" * 250), 17, "is longer than the max allowed length 249"),
        (topic("with_dot"), 17, "collides with existing topic: with.dot"),
        (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
        (topic("z", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (topic("z", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            topic("z", 1, 3),
            38,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot",
        ),
        (topic("z", 0), 37, "Number of partitions was set to an invalid non-positive value."),
        (
            topic("z", at=[(0, [1]), (0, [1])]),
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
        (topic("z", at={0: [1], 2: [1]}), 39, "partitions should be a consecutive 0-based integer sequence"),
        (topic("z", at={0: [9]}), 39, "includes broker 9, but no such broker is registered."),
        (topic("z", at={0: [1, 1]}), 39, "includes the broker 1 more than once."),
        (topic("z", at={0: []}), 39, "includes an empty replica list."),
        (
            topic("z", at={0: [1], 1: [1, 2]}),
            39,
            "a partition with 2 replica(s), but this is not consistent with previous partitions",
        ),
        (topic("z", at={0: [2]}), 39, "for partition 0 are fenced or in controlled shutdown."),
        (topic("z", foo="1"), 40, "foo"),
        (topic("z", retention_ms="abc"), 40, "retention.ms"),
        (topic("z", segment_bytes="1"), 40, "segment.bytes"),
        (topic("z", retention_ms=None), 40, "Null value not supported for"),
        (topic("z", cleanup_policy="bogus"), 40, "cleanup.policy"),
        (topic("z", remote_storage_enable="true"), 40, "remote.storage.enable"),
    ],
)
def test_what_cannot_be_is_refused_as_kafka_does(asked: CreatableTopic, code: int, message: str) -> None:
    core = new_core(1)
    core.replay([registration(2, fenced=True)])
    create(core, topic("taken"), topic("with.dot"))
    before = dict(core.image.topics_by_name)
    result = create(core, asked)[0]
    assert (result.name, result.error_code) == (asked.name, code)
    assert message in str(result.error_message)
    assert core.image.topics_by_name == before


def test_assignments_and_counts_exclude_each_other() -> None:
    core = new_core(1)
    both = topic("z", at={0: [1]})
    both.num_partitions = 1
    assert "but numPartitions was not set to -1." in str(create(core, both)[0].error_message)
    both.replication_factor = 1
    result = create(core, both)[0]
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "but replication factor was not set to -1." in str(result.error_message)


def test_a_name_given_twice_fails_once_and_the_others_are_made() -> None:
    core = new_core(1)
    results = create(core, topic("d"), topic("e"), topic("d"))
    assert {result.name: result.error_code for result in results} == {"d": ErrorCode.INVALID_REQUEST, "e": 0}
    assert len(results) == 2
    assert list(core.image.topics_by_name) == ["e"]


def test_defaults_come_from_the_settings_of_the_cluster() -> None:
    core = new_core(1, 2, 3, num_partitions=4, default_replication_factor=2)
    result = create(core, topic("d", -1, -1))[0]
    assert (result.num_partitions, result.replication_factor) == (4, 2)
    core.replay([wire.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="77")])
    settings = {config.name: config for config in create(core, topic("e"))[0].configs or ()}
    assert (settings["retention.ms"].value, settings["retention.ms"].config_source) == ("77", 3)


def test_nothing_is_written_when_only_validating() -> None:
    core = new_core(1)
    result = create(core, topic("v", 3), validate_only=True)[0]
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert core.image.topics_by_name == {}


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    core = new_core(1, 2)
    core.replay([registration(3, fenced=True)])
    assert create(core, topic("m", at={1: [3, 2], 0: [1, 2]}))[0].error_code == 0
    partitions: Any = core.image.topics_by_name["m"].partitions
    assert partitions[0].replicas == partitions[0].isr == (1, 2)
    assert (partitions[1].replicas, partitions[1].isr, partitions[1].leader) == ((3, 2), (2,), 2)


def test_too_many_partitions_in_one_request_fail_it_as_a_whole() -> None:
    core = new_core(1)
    with pytest.raises(ApiError) as refused:
        create(core, topic("a", 6000), topic("b", 6000))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert "12000 partitions in one request, at most 10000" in refused.value.message


def test_without_a_live_broker_no_topic_can_be_made() -> None:
    core = new_core()
    core.replay([registration(1, fenced=True)])
    result = create(core, topic("z"))[0]
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "All brokers are currently fenced." in str(result.error_message)
