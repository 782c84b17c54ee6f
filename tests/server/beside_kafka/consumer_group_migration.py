"""Both protocols in one group: a classic group that a new member joins, what its classic members are told,
and the way back. What a classic member is assigned is shown decoded, since names differ.
"""

from typing import Any

from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.server.beside_kafka.consumer_group_heartbeat import TURN_MS, beat, first, say
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import seat
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit, heartbeat, join, leave, sync


def _subscription(topic: str, *owned: int) -> dict[str, bytes]:
    wanted = ConsumerProtocolSubscription(
        topics=[topic], owned_partitions=[TopicPartition(topic, list(owned))] if owned else []
    )
    return {"range": encode_versioned(wanted, 1)}


def _assignment(topic: str, *partitions: int) -> bytes:
    share = ConsumerProtocolAssignment([TopicPartition(topic, list(partitions))])
    return encode_versioned(share, 1)


async def _sync(talk: Talk, label: str, group: str, member: str, generation: int, **options: Any) -> None:
    reply = await (await talk.begin(sync(group, member, generation, **options), 5))
    share = b""
    if reply.assignment:
        share, reply.assignment = reply.assignment, b""
    topics = decode_versioned(ConsumerProtocolAssignment, share).assigned_partitions if share else []
    partitions = [sorted(each.partitions) for each in topics]
    talk.lines.append(f"{label}: {talk._show(reply, False)} version {share[:2].hex()} {partitions}")


async def script(talk: Talk) -> None:
    await ready(talk)
    await talk.topic("topic", 4)
    await upgrade(talk)
    await strangers(talk)
    await fetches(talk)


async def upgrade(talk: Talk) -> None:
    talk.title("A classic group")
    group, topic = talk.name("changing"), talk.name("topic")
    describe = ConsumerGroupDescribeRequest([group])
    old = await seat(talk, group, "old", protocols=_subscription(topic))
    share = {old: _assignment(topic, 0, 1, 2, 3)}
    await (await talk.begin(sync(group, old, 1, share), 5, client="old"))
    talk.title("A new member joins")
    await say(talk, "a request that is wrong", first(group, "new", topic, server_assignor="none"))
    described = await (await talk.begin(DescribeGroupsRequest([group]), 6))
    talk.lines.append(f"it is a classic group: {described.groups[0].group_state}")
    await say(talk, "the new member joins", first(group, "new", topic))
    await talk.ask("it is a consumer group", describe, 1, unordered=True)
    await talk.ask("the old one is told", heartbeat(group, old, 1), 4)
    await talk.ask("told again", heartbeat(group, old, 1), 4)
    await talk.ask("commits", commit(group, topic, {0: 1}, member=old, generation=1), 8)
    await talk.ask(
        "commits with another generation", commit(group, topic, {0: 1}, member=old, generation=2), 8
    )
    again = join(group, old, protocols=_subscription(topic, 0, 1, 2, 3))
    await talk.ask("joins again", again, 9, client="old")
    await talk.ask("the group", describe, 1, unordered=True)
    await _sync(talk, "asks for its share", group, old, 1)
    await talk.ask("is told to join once more", heartbeat(group, old, 1), 4)
    await say(talk, "the new one waits", beat(group, "new", 2))
    await talk.ask("has let go", join(group, old, protocols=_subscription(topic, 0, 1)), 9, client="old")
    await _sync(talk, "asks for its share", group, old, 2)
    await talk.ask("is alive", heartbeat(group, old, 2), 4)
    await say(talk, "the new one has its own", beat(group, "new", 2))
    await talk.ask("the group", describe, 1, unordered=True)
    await _sync(talk, "asks with an old generation", group, old, 1)
    await _sync(talk, "asks with another protocol", group, old, 2, protocol="sticky")
    talk.title("The way back")
    await talk.pass_time(TURN_MS)
    await say(talk, "the new one leaves", beat(group, "new", -1))
    await talk.ask("it is a classic group", ConsumerGroupDescribeRequest([group]), 1)
    await talk.ask("the old one is told", heartbeat(group, old, 2), 4)
    await talk.ask("with a generation that was not", heartbeat(group, old, 3), 4)
    reply = await (await talk.begin(join(group, old, protocols=_subscription(topic)), 9, client="old"))
    talk.lines.append(f"joins, and leads: {reply.leader == old}, generation {reply.generation_id}")


async def strangers(talk: Talk) -> None:
    talk.title("Classic requests to a consumer group with a member of the new protocol")
    group, topic = talk.name("strangers"), talk.name("topic")
    await say(talk, "joins", first(group, "new", topic, instance_id="i"))
    await talk.ask("another type", join(group, protocol_type="connect"), 3)
    await talk.ask("no protocols", join(group, protocols=()), 3)
    await talk.ask("bytes of its own", join(group, protocols={"range": b"?"}), 3)
    await talk.ask("a session too short", join(group, session_ms=99), 3)
    await talk.ask("a member id is needed", join(group, protocols=_subscription(topic)), 9)
    await talk.ask("its instance", heartbeat(group, "new", 2, "i"), 4)
    await talk.ask("another id with its instance", heartbeat(group, "x", 2, "i"), 4)
    await talk.ask("leaves by another id", leave(group, ("x", "i")), 5)
    await talk.ask("leaves by an unknown instance", leave(group, ("", "j")), 5)
    await talk.ask("an administrator takes it out", leave(group, ("", "i")), 5)
    await talk.ask("the group", ConsumerGroupDescribeRequest([group]), 1)


async def fetches(talk: Talk) -> None:
    talk.title("Reading offsets")
    group, topic = talk.name("reading"), talk.name("topic")
    await say(talk, "joins", first(group, "a", topic))
    await talk.ask("commits", commit(group, topic, {0: 5}, member="a", generation=2), 9)
    for member, epoch in ((None, -1), ("a", 2), ("a", 1), ("a", 3), ("x", 2), ("", -1), (None, 2), ("a", -1)):
        wish = OffsetFetchRequestGroup(
            group, member, epoch, [OffsetFetchRequestTopics(topic, bytes(16), [0])]
        )
        await talk.ask(f"{member!r} with epoch {epoch}", OffsetFetchRequest(groups=[wish]), 9)
