"""All who ask for all topics at once wait for one build, and are sent the same bytes."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from headrace.metadata.image import MetadataImage
from headrace.server.context import PreparedReply
from headrace.server.metadata_replies import MetadataForm, Telling
from headrace.testing.loop import SimulatedLoop
from headrace.wire.codec import decode
from headrace.wire.schemas.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from headrace.wire.schemas.metadata_records import NoOpRecord, PartitionRecord, TopicRecord

VERSION = 12


class Builds:
    """An image of some topics, and how often each of them was told."""

    def __init__(self, topics: int) -> None:
        self.loop = SimulatedLoop()
        self.image = MetadataImage()
        self.form = MetadataForm(VERSION)
        self.told: list[str] = []
        for number in range(topics):
            self.add(number)

    def add(self, number: int) -> None:
        topic_id = number.to_bytes(16, "big")
        self.image.replay(TopicRecord(name=f"t{number}", topic_id=topic_id))
        self.image.replay(PartitionRecord(topic_id=topic_id, replicas=[1], isr=[1], leader=1))

    def ask(self) -> Generator[Any, None, PreparedReply]:
        return self.form.prepare(self.loop, self.image, MetadataResponse, self.telling)

    @property
    def telling(self) -> Telling:
        def tell(topic: Any) -> Generator[Any, None, MetadataResponseTopic]:
            self.told.append(topic.name)
            yield
            return MetadataResponseTopic(name=topic.name, partitions=[MetadataResponsePartition(leader_id=1)])

        return tell


def step(slices: Generator[Any, None, PreparedReply]) -> Any:
    """What the work waits for, or its result."""
    try:
        return next(slices)
    except StopIteration as end:
        return end.value


def finish(slices: Generator[Any, None, PreparedReply]) -> PreparedReply:
    while not isinstance(reply := step(slices), PreparedReply):
        assert reply is None, "it waits for others"
    return reply


def names(reply: PreparedReply) -> list[str | None]:
    return [topic.name for topic in decode(MetadataResponse, VERSION, reply.body[0]).topics]  # type: ignore[arg-type]


def test_one_build_serves_all_who_wait_with_the_same_bytes() -> None:
    builds = Builds(5)
    first, *others = (builds.ask() for _ in range(10))
    assert step(first) is None
    waiting = [step(other) for other in others]
    assert all(asyncio.isfuture(each) and not each.done() for each in waiting)
    reply = finish(first)
    assert all(each.done() for each in waiting)
    assert all(finish(other).body[0] is reply.body[0] for other in others)
    assert len(builds.told) == 5
    assert names(reply) == [f"t{number}" for number in range(5)]


def test_records_that_change_no_topic_leave_the_reply_as_it_is() -> None:
    builds = Builds(3)
    reply = finish(builds.ask())
    builds.image.replay(NoOpRecord())
    builds.image.mark(offset=100, epoch=1, timestamp_ms=0)
    assert builds.form.whole(builds.image) is reply
    builds.add(3)
    assert builds.form.whole(builds.image) is None
    assert names(finish(builds.ask())) == ["t0", "t1", "t2", "t3"]
    assert len(builds.told) == 4, "the others were told before"


def test_who_asks_while_a_build_is_under_way_hears_of_what_changed_before() -> None:
    builds = Builds(3)
    first = builds.ask()
    step(first)
    builds.add(3)
    late, later = builds.ask(), builds.ask()
    assert asyncio.isfuture(step(late))
    assert asyncio.isfuture(step(later))
    assert "t3" not in names(finish(first))
    assert step(late) is None, "it makes the next"
    assert asyncio.isfuture(step(later))
    builds.add(4)
    assert "t3" in names(finish(late))
    assert "t3" in names(finish(later)), "made after it asked: it need not be made again"


@pytest.mark.parametrize("was_waited_for", [False, True])
def test_a_client_that_goes_while_it_makes_the_reply_leaves_it_to_the_next(was_waited_for: bool) -> None:
    builds = Builds(3)
    first, other = builds.ask(), builds.ask()
    step(first)
    awaited = step(other) if was_waited_for else None
    first.close()
    assert awaited is None or awaited.done()
    assert names(finish(other)) == ["t0", "t1", "t2"]
