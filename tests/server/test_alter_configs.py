"""AlterConfigs, the deprecated form: all settings of a resource at once."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.metadata.config_resource import ResourceType
from headrace.wire.schemas.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.server.desk import Desk, at_desk

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_goes_back_to_its_default(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")

        async def put(kind: int, name: str, **settings: str) -> int:
            configs = [AlterableConfig(key.replace("_", "."), value) for key, value in settings.items()]
            request = AlterConfigsRequest([AlterConfigsResource(kind, name, configs)])
            code: int = (await desk.ask(request, version)).responses[0].error_code
            return code

        assert await put(TOPIC, "a", retention_ms="5", segment_ms="9") == 0
        assert await put(TOPIC, "a", retention_ms="6") == 0
        assert desk.image.topic_config_of("a") == {"retention.ms": "6"}
        assert await put(BROKER, "1", log_cleaner_threads="2") == 0
        assert await put(BROKER, "7", log_cleaner_threads="2") == ErrorCode.INVALID_REQUEST
        assert await put(LOGGER, "1", root="INFO") == ErrorCode.INVALID_REQUEST

    at_desk(tmp_path, script)


def test_refusals_and_decisions_keep_their_places(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        threads = [AlterableConfig("log.cleaner.threads", "2")]
        request = AlterConfigsRequest(
            [
                AlterConfigsResource(BROKER, "7", threads),
                AlterConfigsResource(TOPIC, "a", []),
                AlterConfigsResource(BROKER, "x", threads),
            ]
        )
        response = await desk.ask(request)
        assert [(r.resource_name, r.error_code) for r in response.responses] == [
            ("7", 42),
            ("a", 0),
            ("x", 42),
        ]

    at_desk(tmp_path, script)
