"""DescribeConfigs: every kind of resource, where values come from, and what is kept from the asker."""

from pathlib import Path
from typing import Any

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.metadata.config_resource import ResourceType
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.desk import Desk, at_desk

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
METRICS, GROUP = ResourceType.CLIENT_METRICS, ResourceType.GROUP


async def put(desk: Desk, kind: int, name: str, **settings: str) -> None:
    configs = [AlterableConfig(key.replace("_", "."), 0, value) for key, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)])
    assert (await desk.ask(request)).responses[0].error_code == 0


async def describe(
    desk: Desk, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: bool
) -> Any:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], **more)
    return (await desk.ask(request, version)).results[0]


def test_a_topics_settings_with_every_place_that_sets_them(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        await put(desk, BROKER, "", log_retention_ms="9999")
        await put(desk, TOPIC, "a", retention_ms="8")
        result = await describe(
            desk, TOPIC, "a", ["retention.ms", "segment.ms", "foo"], include_synonyms=True
        )
        assert (result.error_code, result.error_message) == (0, "")
        by_name = {entry.name: entry for entry in result.configs}
        assert list(by_name) == ["retention.ms", "segment.ms"]
        own = by_name["retention.ms"]
        assert (own.value, own.config_source, own.read_only, own.is_sensitive) == ("8", 1, False, False)
        assert [(s.name, s.value, s.source) for s in own.synonyms] == [
            ("retention.ms", "8", 1),
            ("log.retention.ms", "9999", 3),
            ("log.retention.hours", "168", 5),
        ]
        assert (own.config_type, own.documentation) == (5, None)
        told = await describe(desk, TOPIC, "a", ["retention.ms"], include_documentation=True)
        assert told.configs[0].documentation
        assert told.configs[0].synonyms == []
        for version in range(1, 5):
            assert len((await describe(desk, TOPIC, "a", [], version)).configs) > 30

    at_desk(tmp_path, script)


def test_a_broker_tells_its_own_and_the_clusters(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await put(desk, BROKER, "1", log_cleaner_threads="2")
        await put(desk, BROKER, "", log_retention_ms="9999")
        entries = {entry.name: entry for entry in (await describe(desk, BROKER, "1")).configs}
        assert (entries["log.cleaner.threads"].value, entries["log.cleaner.threads"].config_source) == (
            "2",
            2,
        )
        assert (entries["log.retention.ms"].value, entries["log.retention.ms"].config_source) == ("9999", 3)
        assert (entries["node.id"].value, entries["node.id"].config_source) == ("1", 4)
        assert entries["node.id"].read_only
        assert entries["inter.broker.protocol.version"].value
        assert (entries["ssl.key.password"].value, entries["ssl.key.password"].is_sensitive) == (None, True)
        shared = await describe(desk, BROKER, "")
        assert {entry.name: entry.value for entry in shared.configs} == {
            "log.retention.ms": "9999",
            "min.insync.replicas": "1",
        }

    at_desk(tmp_path, script)


def test_groups_subscriptions_and_loggers_have_settings_too(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await put(desk, GROUP, "g", consumer_session_timeout_ms="50000")
        await put(desk, METRICS, "s", interval_ms="1000")
        (entry,) = (await describe(desk, GROUP, "g", ["consumer.session.timeout.ms"])).configs
        assert (entry.value, entry.config_source) == ("50000", 8)
        (entry,) = (await describe(desk, GROUP, "new", ["consumer.session.timeout.ms"])).configs
        assert (entry.value, entry.config_source) == ("45000", 5)
        told = await describe(desk, METRICS, "s", include_synonyms=True)
        assert {e.name: (e.value, e.config_source) for e in told.configs} == {
            "interval.ms": ("1000", 7),
            "match": ("", 5),
            "metrics": ("", 5),
        }
        assert [len(e.synonyms) for e in told.configs] == [1, 0, 0]
        levels = {e.name: e for e in (await describe(desk, LOGGER, "1")).configs}
        assert levels["root"].config_source == 6
        assert "headrace.raft.drivers.raft_client" in levels

    at_desk(tmp_path, script)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "5", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "5", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(tmp_path: Path, kind: int, name: str, code: ErrorCode) -> None:
    async def script(desk: Desk) -> None:
        result = await describe(desk, kind, name)
        assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
        assert result.configs == []

    at_desk(tmp_path, script)
