"""DeleteTopics and CreatePartitions, held to what Apache Kafka 4.3.1 was seen to answer."""

from random import Random

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.core import ControllerCore
from headrace.controller.replication_control import create_partitions, create_topics, delete_topics
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headrace.wire.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.schemas.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from tests.controller.building import apply, new_core

RECORDS = "__remote_log_metadata"
ZERO = bytes(16)
STRANGE = b"x" * 16


@pytest.fixture
def core() -> ControllerCore:
    core = new_core(1, 2)
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in ("a", "b")]
    apply(core, create_topics(core.cluster, CreateTopicsRequest(topics=topics), rng=Random(1)))
    return core


def delete(
    core: ControllerCore, *states: tuple[str | None, bytes], names: tuple[str, ...] = ()
) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name, topic_id) for name, topic_id in states], topic_names=list(names)
    )
    results: list[DeletableTopicResult] = apply(core, delete_topics(core.cluster, request)).responses
    return results


def test_topics_are_deleted_by_name_and_by_id(core: ControllerCore) -> None:
    ids = {name: topic.id for name, topic in core.image.topics_by_name.items()}
    results = delete(core, (None, ids["b"]), names=("a",))
    assert [(r.name, r.topic_id, r.error_code) for r in results] == [("a", ids["a"], 0), ("b", ids["b"], 0)]
    assert core.image.topics_by_id == {}


@pytest.mark.parametrize(
    ("state", "code", "message"),
    [
        (("nope", ZERO), 3, "This server does not host this topic-partition."),
        ((None, STRANGE), 100, "This server does not host this topic ID."),
        ((None, ZERO), 42, "Neither topic name nor id were specified."),
        (("a", STRANGE), 42, "You may not specify both topic name and topic id."),
    ],
)
def test_what_cannot_be_deleted(
    core: ControllerCore, state: tuple[str | None, bytes], code: int, message: str
) -> None:
    result = delete(core, state)[0]
    assert (result.error_code, result.error_message) == (code, message)
    assert (result.name, result.topic_id) == state
    assert len(core.image.topics_by_id) == 2


def test_a_topic_given_twice_stays(core: ControllerCore) -> None:
    assert [r.error_code for r in delete(core, ("a", ZERO), ("a", ZERO))] == [ErrorCode.INVALID_REQUEST]
    topic_id = core.image.topics_by_name["a"].id
    assert [r.error_code for r in delete(core, (None, topic_id), (None, topic_id))] == [42]
    results = delete(core, ("a", ZERO), (None, topic_id))
    assert [
        (r.error_code, "maps to an ID that was already supplied" in str(r.error_message)) for r in results
    ] == [(42, True)]
    assert "a" in core.image.topics_by_name


def test_deleting_can_be_forbidden() -> None:
    core = new_core(1, delete_topic_enable="false")
    with pytest.raises(ApiError) as refused:
        delete(core, ("a", ZERO))
    assert refused.value.code == ErrorCode.TOPIC_DELETION_DISABLED


def with_tiers() -> ControllerCore:
    core = new_core(1, remote_log_storage_system_enable="true")
    tiered = [CreatableTopicConfig("remote.storage.enable", "true")]
    topics = [
        CreatableTopic(name="a", num_partitions=1, replication_factor=1, configs=tiered),
        CreatableTopic(name=RECORDS, num_partitions=2, replication_factor=1),
    ]
    apply(core, create_topics(core.cluster, CreateTopicsRequest(topics=topics), rng=Random(1)))
    return core


def test_what_tells_of_tiered_topics_stays_while_there_are_any() -> None:
    core = with_tiers()
    by_id = (None, core.image.topics_by_name[RECORDS].id)
    for state in ((RECORDS, ZERO), by_id):
        (result,) = delete(core, state)
        assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert "in the remote store of 1 topics (a)" in str(result.error_message)
    results = delete(core, names=("a", RECORDS))
    assert [r.error_code for r in results] == [0, 73], "what the deleted one left is told by it, too"
    assert [r.error_code for r in delete(core, by_id)] == [0]


def test_what_tells_of_tiered_topics_keeps_its_partitions() -> None:
    core = with_tiers()
    for at in (None, [[1]]):
        result = add(core, RECORDS, 3, at)
        assert result.error_code == ErrorCode.INVALID_PARTITIONS
        assert f"{RECORDS} keeps its 2 partitions" in str(result.error_message)
    assert len(core.image.topics_by_name[RECORDS].partitions) == 2


def add(
    core: ControllerCore,
    name: str,
    count: int,
    at: list[list[int]] | None = None,
    *,
    validate_only: bool = False,
) -> CreatePartitionsTopicResult:
    assignments = None if at is None else [CreatePartitionsAssignment(ids) for ids in at]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name, count, assignments)], validate_only=validate_only
    )
    result: CreatePartitionsTopicResult = apply(
        core, create_partitions(core.cluster, request, rng=Random(1))
    ).results[0]
    return result


@pytest.mark.parametrize(
    ("name", "count", "at", "code", "message"),
    [
        ("a", 2, None, 37, "Topic already has 2 partition(s)."),
        ("a", 1, None, 37, "currently has 2 partition(s); 1 would not be an increase."),
        ("nope", 3, None, 3, "This server does not host this topic-partition."),
        (
            "a",
            4,
            [[1]],
            39,
            "but only 1 assignment(s) were specified.",
        ),
        (
            "a",
            3,
            [[9]],
            39,
            "includes broker 9, but no such broker is registered.",
        ),
        ("a", 3, [[1, 2]], 39, "previous partitions, which have 1 replica(s)."),
        ("a", 20000, None, 44, "at most 10000 are made at once"),
    ],
)
def test_partitions_that_cannot_be_added(
    core: ControllerCore, name: str, count: int, at: list[list[int]] | None, code: int, message: str
) -> None:
    result = add(core, name, count, at)
    assert result.error_code == code
    assert message in str(result.error_message)
    assert len(core.image.topics_by_name["a"].partitions) == 2


def test_partitions_are_added_behind_those_there_are(core: ControllerCore) -> None:
    assert add(core, "a", 5, validate_only=True).error_code == 0
    assert len(core.image.topics_by_name["a"].partitions) == 2
    assert add(core, "a", 4, [[1], [2]]).error_code == 0
    partitions = core.image.topics_by_name["a"].partitions
    assert sorted(partitions) == [0, 1, 2, 3]
    assert (partitions[2].leader, partitions[3].leader) == (1, 2)
    assert add(core, "a", 6).error_code == 0
    assert len(partitions) == 6


def test_a_topic_named_twice_gets_none(core: ControllerCore) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic("a", 3, None), CreatePartitionsTopic("a", 4, None)]
    )
    results = apply(core, create_partitions(core.cluster, request, rng=Random(1))).results
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST]


def test_settings_go_with_their_topic(core: ControllerCore) -> None:
    core.replay([wire.ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1")])
    delete(core, ("a", ZERO))
    assert core.image.configs == {}
