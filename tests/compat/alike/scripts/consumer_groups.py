"""Groups of the KIP-848 protocol: every field of a heartbeat right and wrong, epochs, instances, patterns."""

import random
from itertools import product
from typing import Any

from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.compat.alike.scripts.states import consumer, groups_ready, stable
from tests.compat.alike.session import UNKNOWN_ID, Session, versions


def joining(session: Session, group: str, member: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A request that joins, with some of its fields changed."""
    usual: dict[str, Any] = {
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [session.name("topic")],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(session.name(group), member, **usual | fields)


async def script(session: Session) -> None:
    await groups_ready(session)
    topic_id = await session.topic("topic", 3)
    await session.topic("topic-b", 1)
    await first_requests(session, topic_id)
    await later_requests(session, topic_id)
    await patterns(session)
    await full(session)
    await other_groups(session)


async def first_requests(session: Session, topic_id: bytes) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "right": {},
        "no rebalance time-out": {"rebalance_timeout_ms": -1},
        "a rebalance time-out of nothing": {"rebalance_timeout_ms": 0},
        "no names": {"subscribed_topic_names": None},
        "empty names": {"subscribed_topic_names": []},
        "an unknown topic": {"subscribed_topic_names": [session.name("none")]},
        "a bad topic name": {"subscribed_topic_names": ["a/b", ""]},
        "null partitions": {"topic_partitions": None},
        "owned partitions": {"topic_partitions": [TopicPartitions(topic_id, [0])]},
        "an unknown assignor": {"server_assignor": "none"},
        "an assignor without a name": {"server_assignor": ""},
        "range": {"server_assignor": "range"},
        "uniform": {"server_assignor": "uniform"},
        "a rack": {"rack_id": "r"},
        "an empty rack": {"rack_id": ""},
        "an instance": {"instance_id": "i"},
        "an empty instance": {"instance_id": ""},
        "an instance and a rack": {"instance_id": "i", "rack_id": "r"},
        "leaves": {"member_epoch": -1},
        "leaves for a while": {"member_epoch": -2},
        "leaves for a while with an instance": {"member_epoch": -2, "instance_id": "i"},
        "epoch -3": {"member_epoch": -3},
        "epoch 1": {"member_epoch": 1},
        "no topics at all": {"subscribed_topic_names": None, "subscribed_topic_regex": None},
        "an empty pattern": {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        "a pattern": {"subscribed_topic_names": None, "subscribed_topic_regex": "none.*"},
        "a bad pattern": {"subscribed_topic_names": None, "subscribed_topic_regex": "["},
        "a pattern that looks ahead": {"subscribed_topic_names": None, "subscribed_topic_regex": "(?=a)"},
        "both": {"subscribed_topic_regex": "none.*"},
    }
    for version, (number, (label, fields)) in product(
        versions("ConsumerGroupHeartbeat"), enumerate(wrong.items())
    ):
        if version == 0 and "subscribed_topic_regex" in fields:
            continue
        group = f"first{version}-{number}"
        await session.ask(label, joining(session, group, **fields), version)
        described = ConsumerGroupDescribeRequest([session.name(group)])
        await session.every(f"after {label}", lambda version, what=described: what)
    for version in versions("ConsumerGroupHeartbeat"):
        for member, epoch in product(("", "m" * 37, "a b"), (0, -1, -2, 1)):
            request = joining(session, f"names{version}", member, member_epoch=epoch)
            await session.ask(f"member {member[:4]!r}, epoch {epoch}", request, version)
        request = joining(session, "x", "m")
        request.group_id = ""
        await session.ask("no group", request, version)


async def later_requests(session: Session, topic_id: bytes) -> None:
    """Heartbeats of a member of a stable group, and of those who are not."""
    for version, instance in product(versions("ConsumerGroupHeartbeat"), (None, "i")):
        for number, fields in enumerate(_later_fields(session, topic_id)):
            group = await consumer(session, f"later{version}{number}{instance or ''}", instance)
            epoch = group.generation
            for member, said, seat in product(
                ("m", group.member), (0, epoch, epoch + 1, epoch - 1), (instance, "j")
            ):
                request = ConsumerGroupHeartbeatRequest(group.id, member, said, seat, **fields)
                await session.ask(f"{sorted(fields)} {number}, {said}, {seat}", request, version)
            for said in (-3, -2, -1, epoch):
                request = ConsumerGroupHeartbeatRequest(group.id, group.member, said, instance, **fields)
                await session.ask(f"{sorted(fields)} {number}, {said}", request, version)
            await session.ask("the group", ConsumerGroupDescribeRequest([group.id]))


def _later_fields(session: Session, topic_id: bytes) -> list[dict[str, Any]]:
    return [
        {},
        {"rebalance_timeout_ms": 0},
        {"rebalance_timeout_ms": 40_000},
        {"server_assignor": "none"},
        {"server_assignor": "range"},
        {"subscribed_topic_names": []},
        {"topic_partitions": [TopicPartitions(topic_id, [0, 1, 2])]},
        {"topic_partitions": [TopicPartitions(topic_id, [0, 7])]},
        {"topic_partitions": [TopicPartitions(UNKNOWN_ID, [0])]},
        {"topic_partitions": []},
        {"rack_id": "r"},
    ]


async def patterns(session: Session) -> None:
    """Kafka looks for topics in the background, so nothing follows that depends on when."""
    for number, pattern in enumerate(
        ("", ".*none", "[", "a{1001}", "\\1", "(?i)NONE", "(?P<n>none)", "\\pN+none")
    ):
        fields = {"subscribed_topic_names": None, "subscribed_topic_regex": pattern}
        await session.ask(f"joins with {pattern!r}", joining(session, f"pattern{number}", **fields))
    group = await consumer(session, "pattern")
    for pattern in ("[", "(", "a**", "(?=a)"):
        request = ConsumerGroupHeartbeatRequest(
            group.id, group.member, group.generation, subscribed_topic_regex=pattern
        )
        await session.ask(f"goes on with {pattern!r}", request)
    await session.ask("the group", ConsumerGroupDescribeRequest([group.id]))


async def full(session: Session) -> None:
    for number in range(5):
        await session.ask(f"member {number} of 3", joining(session, "full", f"m{number}"))
    await session.ask("the first again", joining(session, "full", "m0"))
    await session.ask("a static one", joining(session, "full", "s", instance_id="i"))


async def other_groups(session: Session) -> None:
    classic = await stable(session, "classic")
    connect = await stable(session, "connect", protocol_type="connect")
    for group, epoch in product((classic, connect), (1, -1, -2, -3)):
        for member in (group.member, "m"):
            request = ConsumerGroupHeartbeatRequest(group.id, member, epoch)
            await session.ask(f"{group.state}: {member == 'm'}, {epoch}", request)
    await session.ask("joins connect", joining(session, "connect"))


async def walk(session: Session, rng: random.Random) -> None:
    """Three members, two of them with one instance's name, with random heartbeats to one group."""
    await groups_ready(session)
    topic_id = await session.topic("topic", 2)
    epochs = {"a": 0, "b": 0, "c": 0}
    for number in range(60):
        member = rng.choice("abc")
        epoch = rng.choices((epochs[member], 0, -1, -2, epochs[member] + 1, 1), (8, 1, 1, 1, 0.5, 0.5))[0]
        instance = None if member == "a" else "i"
        if epoch == 0 and instance and epochs[member]:  # Kafka turns such a one away for good
            continue
        if epoch and rng.random() < 0.1:
            instance = "j"
        fields: dict[str, Any] = {}
        if epoch == 0 or rng.random() < 0.2:
            # Not none at all: Kafka assigns partitions also to members that want none, where others do.
            names = [[session.name("topic")], [session.name("none")]]
            fields["subscribed_topic_names"] = rng.choices(names, (8, 1))[0]
            fields["rebalance_timeout_ms"] = 30_000
        if epoch == 0 or rng.random() < 0.3:
            owned = [TopicPartitions(topic_id, rng.choice(([0], [1], [0, 1])))]
            fields["topic_partitions"] = [] if epoch == 0 or rng.random() < 0.5 else owned
        request = ConsumerGroupHeartbeatRequest(session.name("g"), member, epoch, instance, **fields)
        reply = await session.ask(f"{number} {member} {epoch} {instance}", request)
        if reply is not None and not reply.error_code:
            epochs[member] = max(reply.member_epoch, 0)
        elif reply is not None and instance is None and reply.error_code in (25, 110):
            epochs[member] = 0
        if number % 5 == 0:
            await session.ask(f"{number} the group", ConsumerGroupDescribeRequest([session.name("g")]))
