"""IncrementalAlterConfigs: what the controller decides, what this node does itself, and their results in
order.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.controller.configuration_control import ConfigOperation
from headrace.metadata.config_resource import ResourceType
from headrace.server.config_admin import logger_levels
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.desk import Desk, at_desk
from tests.server.node_world import NodeWorld, simulated

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SET, DELETE, APPEND, _ = ConfigOperation
NAME = "headrace.raft.drivers.raft_client"
SETTING = "listener.name.plaintext.ssl.truststore.location"


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    yield
    logging.getLogger(NAME).setLevel(logging.NOTSET)


def change(kind: int, name: str, setting: str, operation: int, value: str | None) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(setting, operation, value)])


async def alter(desk: Desk, *resources: AlterConfigsResource, validate_only: bool = False) -> list[int]:
    response = await desk.ask(IncrementalAlterConfigsRequest(list(resources), validate_only))
    asked = [(r.resource_type, r.resource_name) for r in resources]
    assert [(r.resource_type, r.resource_name) for r in response.responses] == asked
    return [r.error_code for r in response.responses]


def test_results_come_in_the_order_of_the_request_wherever_they_were_decided(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        codes = await alter(
            desk,
            change(LOGGER, "1", NAME, SET, "DEBUG"),
            change(TOPIC, "a", "retention.ms", SET, "5"),
            change(BROKER, "7", "log.cleaner.threads", SET, "2"),
            change(BROKER, "1", "log.cleaner.threads", SET, "2"),
            change(TOPIC, "nope", "retention.ms", SET, "5"),
        )
        assert codes == [0, 0, ErrorCode.INVALID_REQUEST, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert desk.image.topic_config_of("a") == {"retention.ms": "5"}
        assert desk.parts.config.int("log.cleaner.threads") == 2
        assert logger_levels()[NAME] == "DEBUG"

    at_desk(tmp_path, script)


def test_loggers_are_loud_and_quiet_again(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        root = logger_levels()["root"]
        assert await alter(desk, change(LOGGER, "1", NAME, SET, "TRACE"), validate_only=True) == [0]
        assert logger_levels()[NAME] == root
        assert await alter(desk, change(LOGGER, "1", NAME, SET, "TRACE")) == [0]
        assert logger_levels()[NAME] == "TRACE"
        assert await alter(desk, change(LOGGER, "1", NAME, DELETE, None)) == [0]
        assert logger_levels()[NAME] == root
        wrong = [
            change(LOGGER, "5", NAME, SET, "INFO"),
            change(LOGGER, "1", "nobody.of.ours", SET, "INFO"),
            change(LOGGER, "1", NAME, SET, "LOUD"),
            change(LOGGER, "1", NAME, APPEND, "INFO"),
            change(LOGGER, "1", "root", DELETE, None),
        ]
        for resource, code in zip(wrong, (42, 40, 40, 42, 42), strict=True):
            assert await alter(desk, resource) == [code]

    at_desk(tmp_path, script)


def test_kafkas_names_stand_for_loggers_of_ours(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        name = "org.apache.kafka.raft.KafkaRaftClient"
        assert await alter(desk, change(LOGGER, "1", name, SET, "DEBUG")) == [0]
        assert logging.getLogger(NAME).level == logging.DEBUG
        assert logger_levels()[name] == logger_levels()[NAME] == "DEBUG"
        assert await alter(desk, change(LOGGER, "1", name, DELETE, None)) == [0]
        assert logging.getLogger(NAME).level == logging.NOTSET
        described = await desk.ask(DescribeConfigsRequest([DescribeConfigsResource(LOGGER, "1", None)]))
        told = {each.name for each in described.results[0].configs}
        assert {"kafka.server.ReplicaManager", "state.change.logger", "kafka.request.logger", NAME} <= told

    at_desk(tmp_path, script)


def test_if_the_controller_is_gone_all_of_it_fails(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.node.controller.stop()
        codes = await alter(
            desk, change(BROKER, "7", "x", SET, "2"), change(TOPIC, "a", "retention.ms", SET, "5")
        )
        assert codes == [ErrorCode.NOT_CONTROLLER] * 2

    at_desk(tmp_path, script)


@simulated()
async def test_a_reference_that_a_client_sends_is_a_text_like_any_other(world: NodeWorld) -> None:
    """CVE-2024-31141: config providers read files for a node's own file, never for who sends a setting."""
    reference = "${env:PATH}"
    client = await world.connect()
    request = IncrementalAlterConfigsRequest([change(BROKER, "1", SETTING, SET, reference)])
    assert [each.error_code for each in (await client.ask(request, 1)).responses] == [0]
    asked = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", [SETTING])])
    (found,) = (await client.ask(asked, 4)).results
    assert [each.value for each in found.configs] == [reference]
