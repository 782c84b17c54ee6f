"""CreateTopics through its handler: the reply of each version, and the node that has the topic when it
comes.
"""

from pathlib import Path

import pytest

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_there_when_the_reply_comes(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        asked = CreatableTopic(name="a", num_partitions=2, replication_factor=1)
        response = await desk.ask(CreateTopicsRequest(topics=[asked]), version)
        assert response.topics[0].error_code == 0
        assert len(desk.image.topics_by_name["a"].partitions) == 2
        if version >= 5:
            assert response.topics[0].num_partitions == 2
            assert len(response.topics[0].configs) > 30
        if version >= 7:
            assert response.topics[0].topic_id == desk.image.topics_by_name["a"].id
        again = await desk.ask(CreateTopicsRequest(topics=[asked]), version)
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    at_desk(tmp_path, script)


def test_a_request_that_is_too_large_fails_for_every_topic(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        topics = [CreatableTopic(name=name, num_partitions=9000, replication_factor=1) for name in "ab"]
        response = await desk.ask(CreateTopicsRequest(topics=topics))
        assert [(t.name, t.error_code) for t in response.topics] == [
            ("a", ErrorCode.POLICY_VIOLATION),
            ("b", ErrorCode.POLICY_VIOLATION),
        ]

    at_desk(tmp_path, script)


def test_a_node_that_does_not_lead_says_so_for_every_topic(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.node.controller.stop()
        response = await desk.ask(CreateTopicsRequest(topics=[CreatableTopic(name="a")]))
        assert [t.error_code for t in response.topics] == [ErrorCode.NOT_CONTROLLER]

    at_desk(tmp_path, script)
