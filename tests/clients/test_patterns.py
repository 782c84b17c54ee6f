"""Subscriptions by pattern: matched by the coordinator where it can, else by the consumer."""

import re
from typing import Any

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import AsyncConsumer, Consumer, ConsumerRecord
from headrace.clients.errors import ClientError, RefusedError
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from headrace.wire.schemas.find_coordinator import Coordinator as Found
from headrace.wire.schemas.find_coordinator import FindCoordinatorResponse
from tests.clients.scripted import ScriptedCluster
from tests.clients.test_consumer import fill
from tests.clients.test_groups import BROKER
from tests.clients.test_producer import play
from tests.clients.worlds import ClientWorld, read_until

HEARTBEAT = 68


def consumer_of(world: ClientWorld, **settings: Any) -> AsyncConsumer:
    options = {"group_id": "g", "group_protocol": "consumer", "auto_offset_reset": "earliest"}
    return world.consumer(**(options | settings))


async def subscription_at_coordinator(world: ClientWorld) -> tuple[list[str], str]:
    outsider = await world.connect("admin")
    answer = await outsider.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    outsider.close()
    (member,) = answer.groups[0].members
    return member.subscribed_topic_names, member.subscribed_topic_regex


async def until_read(consumer: AsyncConsumer, topic: str) -> None:
    for _ in range(200):
        await consumer.poll(0.05)
        if consumer.assignment == {TopicPartition(topic, 0)}:
            return
    raise AssertionError(consumer.assignment)


def test_the_coordinator_finds_topics_that_come_later() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 5, topic="log-a")
        await fill(world, 5, topic="other")
        consumer = consumer_of(world)
        consumer.subscribe(pattern="log-.*")
        seen: list[ConsumerRecord] = []
        await read_until([consumer], seen, 5)
        assert await subscription_at_coordinator(world) == ([], "log-.*")
        await fill(world, 5, topic="log-b")
        await read_until([consumer], seen, 10)
        assert {row.topic for row in seen} == {"log-a", "log-b"} == consumer.subscription
        await consumer.commit()
        assert (await consumer.committed([TopicPartition("log-b", 0)]))[
            TopicPartition("log-b", 0)
        ].offset == 5
        await consumer.close()

    play(script, **BROKER)


def test_from_a_pattern_to_names_and_back() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 5, topic="log-a")
        await fill(world, 5, topic="other")
        consumer = consumer_of(world)
        consumer.subscribe(pattern="log-.*")
        await until_read(consumer, "log-a")
        consumer.subscribe(["other"])
        await until_read(consumer, "other")
        assert await subscription_at_coordinator(world) == (["other"], "")
        consumer.subscribe(pattern="l.*")
        await until_read(consumer, "log-a")
        assert await subscription_at_coordinator(world) == ([], "l.*")
        await consumer.unsubscribe()
        assert consumer.assignment == consumer.subscription == set()
        await consumer.close()

    play(script, **BROKER)


def test_what_re2_cannot_read_is_said_by_the_next_poll() -> None:
    async def script(world: ClientWorld) -> None:
        consumer = consumer_of(world)
        consumer.subscribe(pattern="(?=look)ahead")
        with pytest.raises(RefusedError, match="is not a valid regular expression"):
            await consumer.poll(10.0)
        await consumer.close()

    play(script, **BROKER)


def test_a_pattern_in_the_place_of_a_name_is_refused() -> None:
    """Other clients take '^name.*' for a pattern: as a name it would never match anything."""

    async def script(world: ClientWorld) -> None:
        consumer = consumer_of(world)
        with pytest.raises(ClientError, match="pattern="):
            consumer.subscribe(["^orders.*"])
        await consumer.close()

    play(script, **BROKER)


def test_a_compiled_pattern_is_matched_here() -> None:
    async def script(world: ClientWorld) -> None:
        await fill(world, 5, topic="log-a")
        await fill(world, 5, topic="log-b")
        consumer = consumer_of(world)
        consumer.subscribe(pattern=re.compile("LOG-(?!b).", re.IGNORECASE))  # RE2 has no such thing
        await read_until([consumer], [], 5)
        assert await subscription_at_coordinator(world) == (["log-a"], "")
        assert consumer.subscription == {"log-a"}
        await consumer.close()

    play(script, **BROKER)


def test_a_coordinator_without_patterns_is_told_names() -> None:
    with ScriptedCluster() as scripted:
        scripted.versions[HEARTBEAT] = (0, 0)
        scripted.leaders = {("log-a", 0): 1, ("other", 0): 1}
        scripted.handlers["FindCoordinator"] = lambda request, node: FindCoordinatorResponse(
            coordinators=[Found(key="g", node_id=1, host="127.0.0.1", port=scripted.ports[1])]
        )
        scripted.handlers["ConsumerGroupHeartbeat"] = lambda request, node: ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=max(1, request.member_epoch), heartbeat_interval_ms=50
        )
        settings = {"group_id": "g", "group_protocol": "consumer"}
        with Consumer(bootstrap_servers=scripted.address, **settings) as consumer:
            consumer.subscribe(pattern="log-.*")
            for _ in range(1_200):
                consumer.poll(0.05)
                told = [each.subscribed_topic_names for each in scripted.asked("ConsumerGroupHeartbeat")]
                if ["log-a"] in told:
                    break
            else:
                raise AssertionError(told)
