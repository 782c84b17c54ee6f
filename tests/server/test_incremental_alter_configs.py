"""IncrementalAlterConfigs: what the controller decides, what this node does itself, and their results in
order.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.controller.configs import Operation
from headrace.metadata.resources import ResourceType
from headrace.server.broker_loggers import logger_levels
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.desk import Desk, at_desk

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SET, DELETE, APPEND, _ = Operation
NAME = "headrace.raft.driver"


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
            change(LOGGER, "1", "kafka", SET, "INFO"),
            change(LOGGER, "1", NAME, SET, "LOUD"),
            change(LOGGER, "1", NAME, APPEND, "INFO"),
            change(LOGGER, "1", "root", DELETE, None),
        ]
        for resource, code in zip(wrong, (42, 40, 40, 42, 42), strict=True):
            assert await alter(desk, resource) == [code]

    at_desk(tmp_path, script)


def test_if_the_controller_is_gone_all_of_it_fails(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.node.controller.stop()
        codes = await alter(
            desk, change(BROKER, "7", "x", SET, "2"), change(TOPIC, "a", "retention.ms", SET, "5")
        )
        assert codes == [ErrorCode.NOT_CONTROLLER] * 2

    at_desk(tmp_path, script)
