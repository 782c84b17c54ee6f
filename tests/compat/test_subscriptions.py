"""What members say of themselves where the coordinator assigns, patterns and racks: by librdkafka and by our
own consumer, against either broker.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from headrace.clients import AsyncAdmin, Consumer
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.compat.brokers import Broker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Record, eventually
from tests.compat.conftest import MakeTopic
from tests.compat.samples import hour_ago_ms

SETTINGS: dict[str, Any] = {
    "group.protocol": "consumer",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "client.rack": "west",
}


def members_of(broker: Broker, group: str) -> list[Any]:
    """The coordinator's description of the members, with all that it knows. Others know nothing."""

    async def ask() -> list[Any]:
        members: list[Any] = []
        async with AsyncAdmin({"bootstrap.servers": broker.bootstrap}) as admin:
            for each in (await admin.describe_cluster()).brokers:
                request = ConsumerGroupDescribeRequest(group_ids=[group])
                members += (await admin.client.call(request, node=each.node_id)).groups[0].members
        return members

    return asyncio.run(ask())


@contextmanager
def librdkafka(broker: Broker, group: str, topic: str) -> Iterator[Any]:
    consumer = ConfluentConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0, **SETTINGS}
    )
    with closing(consumer):
        consumer.subscribe([topic])

        def poll() -> Any:
            found = consumer.poll(0.1)
            return None if found is None or found.error() is not None else found

        yield poll


@contextmanager
def our_own(broker: Broker, group: str, topic: str) -> Iterator[Any]:
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **SETTINGS}) as consumer:
        if topic.startswith("^"):
            consumer.subscribe(pattern=topic)
        else:
            consumer.subscribe([topic])
        yield lambda: consumer.poll(0.1)


@pytest.mark.parametrize("client", [librdkafka, our_own])
def test_a_member_says_where_it_is(client: Any, broker: Broker, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(1)
    with client(broker, group, topic) as poll:

        def is_known() -> bool:
            poll()
            return [each.rack_id for each in members_of(broker, group)] == ["west"]

        eventually(is_known, "the coordinator to know the member's rack")


@pytest.mark.parametrize("client", [librdkafka, our_own])
def test_the_coordinator_matches_the_pattern(
    client: Any, broker: Broker, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(2)
    pattern = f"^{topic[:-1]}[[:xdigit:]]$"  # a class that Python's own patterns do not have
    Confluent(broker.bootstrap).produce(topic, [Record(0, hour_ago_ms(), None, b"found")], "none")
    with client(broker, group, pattern) as poll:
        found = eventually(poll, "a record of the topic that matches")
        assert (found[0].value if isinstance(found, list) else found.value()) == b"found"
        (member,) = members_of(broker, group)
        assert member.subscribed_topic_names == []
        assert member.subscribed_topic_regex.strip("()") == pattern  # librdkafka gathers several in groups
