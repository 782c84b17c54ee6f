"""What a node tells of its life: who starts, who leads, what was changed by whom, and how it stops."""

import logging
from pathlib import Path

import pytest

from headrace.metadata.config_resource import ResourceType
from headrace.node.announcements import different_settings
from headrace.node.config import load
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.node_world import NodeWorld, simulated


def test_a_node_tells_its_life(caplog: pytest.LogCaptureFixture) -> None:
    @simulated()
    async def life(world: NodeWorld) -> None:
        await world.create_topic("a", 2)
        client = await world.connect()
        change = AlterConfigsResource(ResourceType.TOPIC, "a", [AlterableConfig("retention.ms", 0, "5")])
        await client.ask(IncrementalAlterConfigsRequest([change], False), 1)

    with caplog.at_level(logging.INFO, "headrace"):
        life()
    told = "\n".join(record.getMessage() for record in caplog.records)
    for line in (
        "starts as node 1 of cluster",
        "settings that differ from the defaults: ",
        "listening at PLAINTEXT://",
        "node 1 leads the quorum in epoch 1",
        "broker 1 registers in epoch",
        "broker 1 is unfenced, 0 partitions change",
        "the broker is unfenced: it may lead",
        "partitions led here from now on: 2 (a-0, a-1); followed: none; dropped: none",
        "settings of topic 'a' changed by client 'c' at ",
        ": retention.ms=5",
        "partitions without a leader: 2 (a-0, a-1)",
        "stopped after",
    ):
        assert line in told, line
    assert {record.levelname for record in caplog.records} == {"INFO"}, "nothing is wrong"


def test_secrets_are_not_told(tmp_path: Path) -> None:
    config = load(None, {"log.retention.hours": "24", "ssl.keystore.password": "xyz"}, 0, str(tmp_path))
    told = dict(different_settings(config))
    assert told["log.retention.hours"] == "24"
    assert told["ssl.keystore.password"] == "(hidden)"
    assert "log.segment.bytes" not in told


def test_settings_without_effect_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    @simulated(num_network_threads="9", background_threads="11")
    async def life(world: NodeWorld) -> None:
        pass

    with caplog.at_level(logging.INFO, "headrace"):
        life()
    told = [record for record in caplog.records if "have no effect" in record.getMessage()]
    assert [each.levelname for each in told] == ["WARNING"]
    assert "num.network.threads" in told[0].getMessage()
