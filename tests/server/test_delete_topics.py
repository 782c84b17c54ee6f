"""DeleteTopics through its handler, by name in the old versions and by id in the new."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.base.clock import SystemClock
from headrace.base.error_codes import ErrorCode
from headrace.server.api_table import BROKER
from headrace.server.context import RequestContext
from headrace.server.quotas.quota_managers import QuotaManagers
from headrace.wire.apis import ApiKey
from headrace.wire.codec import decode, encode
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server.desk import Desk, at_desk


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_go_by_name(tmp_path: Path, version: int) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a", "b")
        response = await desk.ask(DeleteTopicsRequest(topic_names=["a", "nope"]), version)
        assert {r.name: r.error_code for r in response.responses} == {
            "a": 0,
            "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert list(desk.image.topics_by_name) == ["b"]

    at_desk(tmp_path, script)


def test_topics_go_by_id(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a", "b")
        topic_id = desk.image.topics_by_name["a"].id
        request = DeleteTopicsRequest(topics=[DeleteTopicState(None, topic_id), DeleteTopicState("b")])
        response = await desk.ask(request, 6)
        assert [(r.name, r.error_code) for r in response.responses] == [("a", 0), ("b", 0)]
        assert desk.image.topics_by_name == {}

    at_desk(tmp_path, script)


def test_deletion_can_be_off(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        response = await desk.ask(DeleteTopicsRequest(topics=[DeleteTopicState("a")]), 6)
        assert [r.error_code for r in response.responses] == [ErrorCode.TOPIC_DELETION_DISABLED]

    at_desk(tmp_path, script, delete_topic_enable="false")


def test_names_reach_a_controller_elsewhere() -> None:
    """It is asked in the version of the client: the newest one has no list of names."""
    asked: list[tuple[DeleteTopicsRequest, int]] = []

    loop = asyncio.new_event_loop()

    def ask(request: DeleteTopicsRequest, *, api_version: int, quota: object) -> "asyncio.Future[Any]":
        asked.append((request, api_version))
        return loop.create_future()

    parts = SimpleNamespace(quotas=QuotaManagers(SystemClock(), loop))
    context = SimpleNamespace(controller=SimpleNamespace(ask=ask), api_version=5, parts=parts)
    row = next(row for row in BROKER if row.key is ApiKey.DELETE_TOPICS)
    row.load()(cast(RequestContext, context), DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=7))
    loop.close()
    [(request, version)] = asked
    received = decode(DeleteTopicsRequest, version, encode(request, version))
    assert received.topic_names == ["a", "b"]
    assert received.timeout_ms == 7
