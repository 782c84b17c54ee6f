"""CreatePartitions through its handler."""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        topics = [CreatePartitionsTopic("a", 3, None), CreatePartitionsTopic("nope", 3, None)]
        response = await desk.ask(CreatePartitionsRequest(topics=topics), version)
        assert [(r.name, r.error_code) for r in response.results] == [
            ("a", 0),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert sorted(desk.image.topics_by_name["a"].partitions) == [0, 1, 2]

    at_desk(tmp_path, script)
