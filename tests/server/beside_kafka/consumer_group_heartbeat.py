"""ConsumerGroupHeartbeat: joining, leaving, epochs, instances, offsets, other kinds of groups.

When to come back is each broker's own choice and not shown. A second passes between changes, since targets
are made no more often than that.
"""

from typing import Any

from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.group_admin import forget
from tests.server.beside_kafka.join_group import stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit, heartbeat, join, leave, sync

NEWEST = 1
TURN_MS = 1_100


def beat(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group, member, epoch, **fields)


def first(group: str, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A request to join."""
    options = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": list(topics), "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group, member, 0, **(options | fields))


def held(topic_id: bytes, *partitions: int) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, list(partitions))]


async def say(talk: Talk, label: str, request: ConsumerGroupHeartbeatRequest, version: int = NEWEST) -> Any:
    """Ask, and write down the reply but for when to come back."""
    asked = await talk.begin(request, version)
    (await asked).heartbeat_interval_ms = 0
    return await talk.hear(label, asked)


async def script(talk: Talk) -> None:
    await ready(talk)
    topic_id = await talk.topic("topic", 4)
    await talk.topic("second", 2)
    await refused(talk)
    await epochs(talk, topic_id)
    await two_members(talk, topic_id)
    await static(talk, topic_id)
    await offsets(talk, topic_id)
    await other_kinds(talk)


async def refused(talk: Talk) -> None:
    talk.title("Refused")
    group, topic = talk.name("refusing"), talk.name("topic")
    wrong = {
        "no group id": first("", "m", topic),
        "an empty instance": first(group, "m", topic, instance_id=""),
        "an empty rack": first(group, "m", topic, rack_id=""),
        "no time-out": first(group, "m", topic, rebalance_timeout_ms=-1),
        "no list of partitions": first(group, "m", topic, topic_partitions=None),
        "partitions at once": first(group, "m", topic, topic_partitions=held(bytes(15) + b"1", 0)),
        "no subscription": first(group, "m", subscribed_topic_names=None),
        "an unknown assignor": first(group, "m", topic, server_assignor="best"),
        "no such epoch": beat(group, "m", -3),
        "leaving without an id": beat(group, "", -1),
        "leaving for a while without an instance": beat(group, "m", -2),
        "leaving for a while without an id": beat(group, "", -2, instance_id="i"),
        "an unknown group": beat(group, "m", 1),
        "leaving an unknown group": beat(group, "m", -1),
    }
    for label, request in wrong.items():
        for version in (0, NEWEST):
            await say(talk, f"{label}, v{version}", request, version)
    await say(talk, "no member id", first(group, "", topic))
    # A pattern that can be read joins as well, but Kafka looks for its topics in the background.
    for pattern in ("(a", "(?=a)", "a**", "[b-a]"):
        await say(talk, f"the pattern {pattern}", first(group, "m", subscribed_topic_regex=pattern))


async def epochs(talk: Talk, topic_id: bytes) -> None:
    talk.title("Epochs")
    group, topic = talk.name("epochs"), talk.name("topic")
    await say(talk, "joins", first(group, "a", topic))
    await say(talk, "joins again", first(group, "a", topic))
    await say(talk, "alive", beat(group, "a", 2))
    await say(talk, "tells all", beat(group, "a", 2, **_all(topic), topic_partitions=held(topic_id, 0, 1)))
    await say(talk, "has it all", beat(group, "a", 2, topic_partitions=held(topic_id, 0, 1, 2, 3)))
    for epoch in (1, 3, 99):
        await say(talk, f"epoch {epoch}", beat(group, "a", epoch))
    await say(talk, "a stranger", beat(group, "b", 2))
    await say(talk, "a stranger leaves", beat(group, "b", -1))
    await talk.pass_time(TURN_MS)
    await say(
        talk, "subscribes to another", beat(group, "a", 2, subscribed_topic_names=[talk.name("second")])
    )
    await say(talk, "nothing to say", beat(group, "a", 2))
    await say(talk, "has let go", beat(group, "a", 2, topic_partitions=[]))
    await say(talk, "the epoch before", beat(group, "a", 2, topic_partitions=[]))
    await say(talk, "the epoch before, with nothing to say", beat(group, "a", 2))
    await say(
        talk, "the epoch before, with too much", beat(group, "a", 2, topic_partitions=held(topic_id, 0))
    )
    await talk.pass_time(TURN_MS)
    await say(talk, "subscribes to nothing", beat(group, "a", 3, subscribed_topic_names=[]))
    await say(talk, "holds nothing", beat(group, "a", 3, topic_partitions=[]))
    await say(talk, "leaves", beat(group, "a", -1))
    await say(talk, "leaves again", beat(group, "a", -1))
    await say(talk, "alive after all", beat(group, "a", 4))
    await talk.ask("the group", ConsumerGroupDescribeRequest([group]), 1)
    await talk.pass_time(TURN_MS)
    await say(talk, "v0 makes an id", first(group, "", topic), 0)


def _all(*topics: str) -> dict[str, Any]:
    return {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": list(topics)}


async def two_members(talk: Talk, topic_id: bytes) -> None:
    talk.title("Two members")
    group, topic = talk.name("two"), talk.name("topic")
    describe = ConsumerGroupDescribeRequest([group])
    await say(talk, "the first joins", first(group, "a", topic))
    await say(talk, "has all", beat(group, "a", 2, topic_partitions=held(topic_id, 0, 1, 2, 3)))
    await talk.pass_time(TURN_MS)
    await say(talk, "the second joins", first(group, "b", topic))
    await talk.ask("the group", describe, 1, unordered=True)
    reply = await say(talk, "the first is to let go", beat(group, "a", 2))
    kept = reply.assignment.topic_partitions[0].partitions
    await say(talk, "the second waits", beat(group, "b", 3))
    await talk.ask("the group", describe, 0, unordered=True)
    await say(talk, "the first has not yet", beat(group, "a", 2, topic_partitions=held(topic_id, 0, 1, 2, 3)))
    await say(talk, "the first has let go", beat(group, "a", 2, topic_partitions=held(topic_id, *kept)))
    await say(talk, "the second has its share", beat(group, "b", 3))
    await talk.ask("the group", describe, 1, unordered=True)
    listed = await (await talk.begin(ListGroupsRequest([], ["consumer"]), 5))
    kinds = [(each.protocol_type, each.group_state) for each in listed.groups if each.group_id == group]
    talk.lines.append(f"listed: {kinds}")
    await talk.ask("deleted", DeleteGroupsRequest([group]), 2)
    await talk.ask("described as a classic one", DescribeGroupsRequest([group]), 6)
    await talk.ask("described as a classic one, v5", DescribeGroupsRequest([group]), 5)
    await talk.ask("a topic in use", forget(group, **{topic: [0]}), 0)
    await talk.pass_time(TURN_MS)
    await say(talk, "the first leaves", beat(group, "a", -1))
    await talk.ask("the group", describe, 1)
    await say(talk, "the second has all", beat(group, "b", 3))
    await say(talk, "the second leaves", beat(group, "b", -1))
    await talk.ask("the group", describe, 1)
    await talk.ask("deleted", DeleteGroupsRequest([group]), 2)
    await talk.ask("the group", describe, 1)


async def static(talk: Talk, topic_id: bytes) -> None:
    talk.title("Static members")
    group, topic = talk.name("static"), talk.name("topic")
    await say(talk, "joins", first(group, "a", topic, instance_id="i"))
    await say(talk, "another id while it is there", first(group, "b", topic, instance_id="i"))
    await say(talk, "another's heartbeat", beat(group, "b", 2, instance_id="i"))
    await say(talk, "an unknown instance", beat(group, "a", 2, instance_id="j"))
    await say(talk, "without its instance", beat(group, "a", 2))
    await say(talk, "another leaves for it", beat(group, "b", -2, instance_id="i"))
    await say(talk, "leaves for a while", beat(group, "a", -2, instance_id="i"))
    await talk.ask("the group", ConsumerGroupDescribeRequest([group]), 1)
    await say(talk, "an old heartbeat", beat(group, "a", 2, instance_id="i"))
    await say(talk, "comes back under another id", first(group, "b", topic, instance_id="i"))
    await say(talk, "the old id", beat(group, "a", 2, instance_id="i"))
    await talk.ask("the group", ConsumerGroupDescribeRequest([group]), 1)
    await say(talk, "leaves for good", beat(group, "b", -1, instance_id="i"))
    await say(talk, "is unknown", beat(group, "b", 2, instance_id="i"))


async def offsets(talk: Talk, topic_id: bytes) -> None:
    talk.title("Offsets")
    group, topic = talk.name("offsets"), talk.name("topic")
    await talk.ask(
        "into an unknown group, epoch 2", commit(group, topic, {0: 1}, member="a", generation=2), 9
    )
    await say(talk, "joins", first(group, "a", topic))
    for version in (8, 9):
        await talk.ask(
            f"from outside, v{version}", commit(group, topic, {0: 1}, member="", generation=-1), version
        )
        for epoch in (1, 2, 3):
            request = commit(group, topic, {0: 1}, member="a", generation=epoch)
            await talk.ask(f"epoch {epoch}, v{version}", request, version)
    await talk.ask("a stranger", commit(group, topic, {0: 1}, member="x", generation=2), 9)


async def other_kinds(talk: Talk) -> None:
    talk.title("Classic requests to a consumer group, and the other way round")
    group, topic = talk.name("mixed"), talk.name("topic")
    await say(talk, "joins", first(group, "a", topic))
    await talk.ask("a classic heartbeat", heartbeat(group, "a", 2), 4)
    await talk.ask("a classic sync", sync(group, "a", 2), 5)
    await talk.ask("a classic leave", leave(group, "a"), 5)
    await talk.ask("a classic leave of a stranger", leave(group, "x"), 5)
    await talk.ask("joining with another type", join(group, protocol_type="connect"), 3)
    await say(talk, "leaves", beat(group, "a", -1))
    group = talk.name("classic")
    member = await stable(talk, group, protocol_type="connect")
    await say(talk, "joins a classic group of another type", first(group, "a", topic))
    await say(talk, "a heartbeat to a classic group", beat(group, "a", 2))
    await talk.ask("described as a consumer group", ConsumerGroupDescribeRequest([group]), 1)
    await talk.ask("without a group id", ConsumerGroupDescribeRequest([""]), 1)
    await (await talk.begin(leave(group, member), 5))
    await talk.pass_time(200)
    await say(talk, "joins the empty classic group", first(group, "a", topic))
    await say(talk, "leaves it", beat(group, "a", -1))
