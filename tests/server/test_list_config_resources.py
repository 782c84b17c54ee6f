"""ListConfigResources: client metrics in v0, everything in v1."""

from pathlib import Path

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.schemas.list_config_resources import ListConfigResourcesRequest
from tests.server.desk import Desk, at_desk


def test_resources_are_listed_by_type(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        timeout = [AlterableConfig("consumer.session.timeout.ms", 0, "50000")]
        interval = [AlterableConfig("interval.ms", 0, "1000")]
        resources = [AlterConfigsResource(32, "g", timeout), AlterConfigsResource(16, "s", interval)]
        await desk.ask(IncrementalAlterConfigsRequest(resources))

        async def listed(version: int, *types: int) -> list[tuple[int, str]]:
            response = await desk.ask(ListConfigResourcesRequest(list(types)), version)
            assert response.error_code == 0
            return [(r.resource_type, r.resource_name) for r in response.config_resources]

        assert await listed(0) == [(16, "s")]
        assert await listed(1) == [(2, "a"), (4, "1"), (8, "1"), (16, "s"), (32, "g")]
        assert await listed(1, 32, 2, 32) == [(32, "g"), (2, "a")]
        unknown = await desk.ask(ListConfigResourcesRequest([99]), 1)
        assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION

    at_desk(tmp_path, script)
