"""Settings of topics, brokers, groups and client metrics, held to what Apache Kafka 4.3.1 was seen to
answer.
"""

from random import Random
from typing import Any

import pytest

from headrace.base.internal_topics import NEVER_TIERED
from headrace.controller.configuration_control import (
    ConfigOperation,
    alter_configs,
    incremental_alter_configs,
)
from headrace.controller.core import ControllerCore
from headrace.controller.replication_control import create_topics
from headrace.metadata.config_resource import CLUSTER_DEFAULT, ConfigKey, ResourceType
from headrace.wire.schemas import alter_configs as legacy
from headrace.wire.schemas import incremental_alter_configs as incremental
from headrace.wire.schemas import metadata_records as wire
from headrace.wire.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.controller.building import apply, new_core

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, GROUP, METRICS = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
)
Change = tuple[str, int, str | None]


@pytest.fixture
def core() -> ControllerCore:
    core = new_core(1, 2)
    topic = CreatableTopic(name="t1", num_partitions=1, replication_factor=2)
    apply(core, create_topics(core.cluster, CreateTopicsRequest(topics=[topic]), rng=Random(1)))
    return core


def resource(kind: int, name: str, *changes: Change) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(*c) for c in changes])


def alter(core: ControllerCore, kind: int, name: str, *changes: Change, validate_only: bool = False) -> Any:
    request = incremental.IncrementalAlterConfigsRequest([resource(kind, name, *changes)], validate_only)
    return apply(core, incremental_alter_configs(core.cluster, request)).responses[0]


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "message"),
    [
        (TOPIC, "nope", ("retention.ms", SET, "5"), 3, "The topic 'nope' does not exist."),
        (TOPIC, "t1", ("foo", SET, "5"), 40, "foo"),
        (TOPIC, "t1", ("retention.ms", SET, "x"), 40, "retention.ms"),
        (TOPIC, "t1", ("retention.ms", SET, None), 42, "Null value not supported for"),
        (
            TOPIC,
            "t1",
            ("retention.ms", APPEND, "1"),
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (TOPIC, "t1", ("retention.ms", 9, "1"), 42, "operation 9 on retention.ms: known are 0 (SET)"),
        (TOPIC, "", ("retention.ms", SET, "1"), 42, "Default topic resources are not allowed."),
        (TOPIC, "a b", ("retention.ms", SET, "1"), 17, "Topic name is invalid"),
        (BROKER, "1", ("node.id", SET, "2"), 42, "node.id"),
        (BROKER, "7", ("log.cleaner.threads", SET, "2"), 102, "there is no broker 7"),
        (BROKER, "x", ("log.cleaner.threads", SET, "2"), 42, "Node id must be an integer, but it is: x"),
        (BROKER, "-3", ("log.cleaner.threads", SET, "2"), 42, "broker -3: ids begin at 0"),
        (BROKER, "1", ("log.cleaner.threads", SET, "-2"), 42, "log.cleaner.threads"),
        (BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), 42, "listeners"),
        (
            BROKER,
            "1",
            ("min.insync.replicas", SET, "1"),
            40,
            "not for broker 1: change the brokers' default",
        ),
        (
            BROKER,
            "",
            ("min.insync.replicas", DELETE, None),
            40,
            "the cluster's min.insync.replicas must have a value",
        ),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "5"), 40, "consumer.session.timeout.ms"),
        (
            GROUP,
            "",
            ("consumer.session.timeout.ms", SET, "50000"),
            42,
            "Default group resources are not allowed.",
        ),
        (GROUP, "g", ("foo", SET, "1"), 40, "foo"),
        (METRICS, "s", ("interval.ms", SET, "1"), 42, "interval.ms"),
        (METRICS, "", ("interval.ms", SET, "1000"), 42, "Subscription name can't be empty"),
        (METRICS, "s", ("match", SET, "foo=bar"), 40, "Illegal client matching pattern: foo=bar"),
        (METRICS, "s", ("foo", SET, "1"), 42, "foo"),
        (0, "s", ("foo", SET, "1"), 42, "Unknown resource type 0"),
        (99, "s", ("foo", SET, "1"), 42, "Unknown resource type 99"),
    ],
)
def test_what_cannot_be_set_is_refused_as_kafka_does(
    core: ControllerCore, kind: int, name: str, change: Change, code: int, message: str
) -> None:
    result = alter(core, kind, name, change)
    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
    assert message in str(result.error_message)
    assert core.image.configs == {}


def test_settings_are_set_deleted_and_edited(core: ControllerCore) -> None:
    key = ConfigKey(TOPIC, "t1")
    assert alter(core, TOPIC, "t1", ("retention.ms", SET, "5"), ("segment.ms", SET, "9")).error_code == 0
    assert core.image.configs[key] == {"retention.ms": "5", "segment.ms": "9"}
    alter(core, TOPIC, "t1", ("retention.ms", DELETE, "ignored"), ("segment.ms", DELETE, None))
    assert key not in core.image.configs
    alter(core, TOPIC, "t1", ("cleanup.policy", APPEND, "compact"))
    assert core.image.configs[key] == {"cleanup.policy": "delete,compact"}, "appended to the default"
    alter(core, TOPIC, "t1", ("cleanup.policy", APPEND, "compact"), ("cleanup.policy.x", DELETE, None))
    alter(core, TOPIC, "t1", ("cleanup.policy", SUBTRACT, "delete"))
    assert core.image.configs[key] == {"cleanup.policy": "compact"}


def test_a_value_that_stays_is_not_written_again_but_for_brokers(core: ControllerCore) -> None:
    alter(core, TOPIC, "t1", ("retention.ms", SET, "5"))
    alter(core, BROKER, "1", ("log.cleaner.threads", SET, "2"))
    same = incremental.IncrementalAlterConfigsRequest(
        [
            resource(TOPIC, "t1", ("retention.ms", SET, "5")),
            resource(BROKER, "1", ("log.cleaner.threads", SET, "2")),
        ]
    )
    records = incremental_alter_configs(core.cluster, same).records
    assert [record.resource_name for record in records] == ["1"]


def test_groups_metrics_and_all_brokers_have_settings_too(core: ControllerCore) -> None:
    alter(core, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    alter(core, METRICS, "s", ("match", SET, "client_id=a.*"), ("metrics", SET, "*"))
    alter(core, BROKER, "", ("log.retention.ms", SET, "9999"))
    assert core.image.config_of(GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert core.image.config_of(METRICS, "s") == {"match": "client_id=a.*", "metrics": "*"}
    assert core.cluster.topic_config("t1").retention_ms == 9999, "topics inherit it at once"


def test_a_resource_or_setting_given_twice_is_refused(core: ControllerCore) -> None:
    twice = alter(core, TOPIC, "t1", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert (twice.error_code, twice.error_message) == (
        42,
        "Error due to duplicate config keys",
    )
    request = incremental.IncrementalAlterConfigsRequest(
        [resource(TOPIC, "t1", ("retention.ms", SET, "1")), resource(TOPIC, "t1", ("segment.ms", SET, "2"))]
    )
    results = apply(core, incremental_alter_configs(core.cluster, request)).responses
    assert [r.error_code for r in results] == [42, 42]
    assert core.image.configs == {}


def test_one_bad_resource_does_not_harm_the_others(core: ControllerCore) -> None:
    request = incremental.IncrementalAlterConfigsRequest(
        [resource(TOPIC, "nope", ("retention.ms", SET, "1")), resource(TOPIC, "t1", ("segment.ms", SET, "2"))]
    )
    results = apply(core, incremental_alter_configs(core.cluster, request)).responses
    assert [result.error_code for result in results] == [3, 0]
    assert core.image.topic_config_of("t1") == {"segment.ms": "2"}


def test_nothing_is_written_when_only_validating(core: ControllerCore) -> None:
    assert alter(core, TOPIC, "t1", ("retention.ms", SET, "77"), validate_only=True).error_code == 0
    assert core.image.configs == {}


def test_another_minimum_of_replicas_forgets_who_was_eligible_by_the_old_one(core: ControllerCore) -> None:
    def cleared(kind: int, name: str, value: str | None) -> list[str]:
        change = ("min.insync.replicas", DELETE if value is None else SET, value)
        request = incremental.IncrementalAlterConfigsRequest([resource(kind, name, change)])
        decision = incremental_alter_configs(core.cluster, request)
        apply(core, decision)
        return [r.topic_name for r in decision.records if isinstance(r, wire.ClearElrRecord)]

    assert cleared(TOPIC, "t1", "1") == [], "it was 1 before"
    assert cleared(TOPIC, "t1", "2") == ["t1"]
    assert cleared(BROKER, "", "2") == [""]
    assert cleared(TOPIC, "t1", None) == [], "it is 2 by the cluster's default now"


def test_the_deprecated_form_says_what_all_settings_shall_be(core: ControllerCore) -> None:
    def put(kind: int, name: str, *settings: tuple[str, str | None], validate_only: bool = False) -> Any:
        configs = [legacy.AlterableConfig(*setting) for setting in settings]
        request = legacy.AlterConfigsRequest(
            [legacy.AlterConfigsResource(kind, name, configs)], validate_only
        )
        return apply(core, alter_configs(core.cluster, request)).responses[0]

    alter(core, TOPIC, "t1", ("segment.ms", SET, "9"))
    assert put(TOPIC, "t1", ("retention.ms", "8"), validate_only=True).error_code == 0
    assert put(TOPIC, "t1", ("retention.ms", "8")).error_code == 0
    assert core.image.topic_config_of("t1") == {"retention.ms": "8"}
    assert put(TOPIC, "t1", ("retention.ms", None)).error_code == 42
    assert put(TOPIC, "t1", ("retention.ms", "8"), ("retention.ms", "9")).error_code == 42
    assert put(TOPIC, "t1", ("foo", "8")).error_code == 40
    assert put(ResourceType.BROKER_LOGGER, "1", ("root", "INFO")).error_code == 42
    assert put(TOPIC, "t1").error_code == 0
    assert CLUSTER_DEFAULT not in core.image.configs
    assert core.image.topic_config_of("t1") == {}


@pytest.mark.parametrize("name", sorted(NEVER_TIERED - {"__cluster_metadata"}))
def test_the_systems_own_topics_cannot_be_tiered(name: str) -> None:
    core = new_core(1, remote_log_storage_system_enable="true")
    tiered = [CreatableTopicConfig("remote.storage.enable", "true")]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=tiered)
    created = apply(core, create_topics(core.cluster, CreateTopicsRequest([topic]), rng=Random(1))).topics[0]
    assert (created.error_code, name in core.image.topics_by_name) == (40, False)
    topic.configs = []
    apply(core, create_topics(core.cluster, CreateTopicsRequest([topic]), rng=Random(1)))
    refused = alter(core, TOPIC, name, ("remote.storage.enable", SET, "true"))
    assert refused.error_code == 40
    assert f"{name} is one of the system's own topics" in refused.error_message
    whole = legacy.AlterConfigsResource(
        TOPIC, name, [legacy.AlterableConfig("remote.storage.enable", "true")]
    )
    (replaced,) = apply(core, alter_configs(core.cluster, legacy.AlterConfigsRequest([whole]))).responses
    assert replaced.error_code == 40
    assert alter(core, TOPIC, name, ("remote.storage.enable", SET, "false")).error_code == 0


def test_what_an_older_version_let_be_tiered_is_not_and_can_be_mended() -> None:
    core = new_core(1, remote_log_storage_system_enable="true")
    topic = CreatableTopic(name="__consumer_offsets", num_partitions=1, replication_factor=1)
    apply(core, create_topics(core.cluster, CreateTopicsRequest([topic]), rng=Random(1)))
    for name in ("remote.storage.enable", "remote.log.delete.on.disable"):
        record = wire.ConfigRecord(
            resource_type=TOPIC, resource_name="__consumer_offsets", name=name, value="true"
        )
        core.replay([record])
    assert not core.cluster.topic_config("__consumer_offsets").is_tiered
    assert alter(core, TOPIC, "__consumer_offsets", ("segment.ms", SET, "9")).error_code == 0
    assert alter(core, TOPIC, "__consumer_offsets", ("remote.storage.enable", DELETE, None)).error_code == 0
