"""DescribeTopicPartitions: topics in order, page by page."""

from pathlib import Path
from typing import Any

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.server.desk import Desk, at_desk


async def page(desk: Desk, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else Cursor(*cursor)
    topics = [TopicRequest(name) for name in names]
    return await desk.ask(DescribeTopicPartitionsRequest(topics, limit, at))


def content(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics]


def test_topics_are_told_in_the_order_of_their_names(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("t", partitions=2)
        response = await page(desk, "t", "nope", "a b")
        assert [(t.name, t.error_code) for t in response.topics] == [
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", 0),
        ]
        assert response.next_cursor is None
        topic = response.topics[2]
        assert (topic.topic_id, topic.topic_authorized_operations) == (
            desk.image.topics_by_name["t"].id,
            3576,
        )
        partition = topic.partitions[1]
        assert (partition.leader_id, partition.leader_epoch, partition.isr_nodes) == (1, 0, [1])
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])

    at_desk(tmp_path, script)


def test_pages_follow_each_other_by_their_cursors(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a", "b", "c", partitions=3)
        seen: list[tuple[str, int]] = []
        cursor: tuple[str, int] | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            response = await page(desk, limit=2, cursor=cursor)
            seen += [(name, index) for name, indexes in content(response) for index in indexes]
            after = response.next_cursor
            cursor = None if after is None else (after.topic_name, after.partition_index)
            pages += 1
        assert seen == [(name, index) for name in "abc" for index in range(3)]
        assert pages == 5
        assert content(await page(desk, "b", "c", limit=9, cursor=("b", 1))) == [
            ("b", [1, 2]),
            ("c", [0, 1, 2]),
        ]
        assert content(await page(desk, "a", limit=-5)) == [("a", [0])], "a page has one partition at least"
        assert content(await page(desk, cursor=("aa", 2)))[0] == ("b", [0, 1, 2]), "aa was deleted meanwhile"
        assert content(await page(desk, "a", cursor=("a", 7))) == [("a", [])]

    at_desk(tmp_path, script)


def test_a_cursor_must_belong_to_the_request(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        for cursor in (("a", -1), ("0", 0), ("z", 0)):
            response = await page(desk, "a", cursor=cursor)
            assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]

    at_desk(tmp_path, script)
