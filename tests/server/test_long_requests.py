"""Requests whose cost grows with what is stored: the same answers in slices, and nobody waits for them."""

from typing import Any

import pytest

from headrace.server import long_requests
from headrace.server.handlers import metadata
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.list_transactions import ListTransactionsRequest
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schemas.offset_fetch import OffsetFetchRequest
from tests.server.beside_kafka.find_coordinator import ask_for
from tests.server.group_requests import commit
from tests.server.node_world import NodeWorld, simulated

AT_ONCE = 10**9


async def both_ways(monkeypatch: pytest.MonkeyPatch, world: NodeWorld, request: Any, version: int) -> Any:
    """The answer in slices, which must be the one that is given at once."""
    client = await world.connect()
    answers = []
    for short in (0, AT_ONCE):
        monkeypatch.setattr(long_requests, "SHORT_ITEMS", short)
        monkeypatch.setattr(metadata, "SHORT_ITEMS", short)
        answers.append(await client.ask(request, version))
    client.close()
    assert answers[0] == answers[1]
    return answers[0]


def test_a_long_list_within_a_message_is_freed_in_slices() -> None:
    topic = TopicRequest("t", [*range(10_000)])
    assert sum(1 for _ in long_requests.let_go(DescribeProducersRequest([topic]))) == 4
    assert len(topic.partition_indexes) <= 2_048


async def many_topics(world: NodeWorld) -> None:
    await world.create_topic("wide", partitions=200)
    for number in range(3):
        await world.create_topic(f"t{number}")


@simulated()
async def test_metadata_in_all_versions(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await many_topics(world)
    for version in range(14):
        everything = MetadataRequest(topics=[] if version == 0 else None)
        found = await both_ways(monkeypatch, world, everything, version)
        assert len(found.topics) == 4
        names = ["t1", "nosuch", "wide", "t1"] if version else ["t1", "wide"]
        some = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        some.allow_auto_topic_creation = version < 4
        if version < 4:
            some.topics = some.topics[:1]  # type: ignore[index]
        await both_ways(monkeypatch, world, some, version)


@simulated()
async def test_metadata_with_operations(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await many_topics(world)
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    found = await both_ways(monkeypatch, world, request, 12)
    assert all(topic.topic_authorized_operations > 0 for topic in found.topics)


@simulated()
async def test_prepared_metadata_follows_every_change(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await many_topics(world)
    for number in range(3, 6):
        found = await both_ways(monkeypatch, world, MetadataRequest(topics=None), 12)
        assert len(found.topics) == number + 1
        again = await both_ways(monkeypatch, world, MetadataRequest(topics=None), 12)
        assert again == found
        await world.create_topic(f"t{number}")
    await world.delete_topic("t3")
    found = await both_ways(monkeypatch, world, MetadataRequest(topics=None), 12)
    assert "t3" not in {topic.name for topic in found.topics}


@simulated(auto_create_topics_enable="false")
async def test_a_request_too_long_to_be_read_at_once(world: NodeWorld) -> None:
    await world.create_topic("t")
    names = [f"n{number}" for number in range(20_000)]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in [*names, "t", "n1"]])
    client, other = await world.connect(), await world.connect()
    long = client.ask(request, 12)
    behind = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    assert (await other.ask(MetadataRequest(topics=[]), 12)).topics == []
    found = await long
    assert len(found.topics) == 20_001
    assert {topic.name for topic in found.topics if not topic.error_code} == {"t"}
    assert [topic.name for topic in (await behind).topics] == ["t"]


@simulated()
async def test_lists_and_descriptions(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await many_topics(world)
    client = await world.connect()
    await client.ask(ask_for(6, "g"), 6)
    for number in range(70):
        await client.ask(commit(f"group-{number}", "t0", {0: 1}), 9)
    await client.ask(commit("wide-group", "wide", dict.fromkeys(range(200), 1)), 9)
    groups = await both_ways(monkeypatch, world, ListGroupsRequest(), 5)
    assert len(groups.groups) == 71
    assert not (await both_ways(monkeypatch, world, ListGroupsRequest(states_filter=["Dead"]), 5)).groups
    offsets = OffsetFetchRequest(group_id="wide-group", topics=None)
    assert len((await both_ways(monkeypatch, world, offsets, 7)).topics[0].partitions) == 200
    resources = [DescribeConfigsResource(2, name, None) for name in ("wide", "t0", "nosuch")]
    described = await both_ways(monkeypatch, world, DescribeConfigsRequest(resources), 4)
    assert [bool(each.configs) for each in described.results] == [True, True, False]
    folders = await both_ways(monkeypatch, world, DescribeLogDirsRequest(topics=None), 4)
    assert len(folders.results[0].topics) == 5
    pages = await both_ways(monkeypatch, world, DescribeTopicPartitionsRequest(), 0)
    assert len(pages.topics) == 5
    await both_ways(monkeypatch, world, ListTransactionsRequest(), 2)
