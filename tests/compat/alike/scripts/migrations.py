"""Groups between the two protocols, and what administrators hear of groups that they can't be told of.

Classic groups that a member of the KIP-848 protocol joins, in every state and with bytes that are and are not
those of consumers; the way back; offsets of groups whose members nobody understands. Bytes of assignments are
shown decoded, since they have topics' names in them.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

from headrace.base.errors import InvalidBytesError
from headrace.wire.record_frames import decode_versioned, encode_versioned
from headrace.wire.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.compat.alike.scripts.consumer_groups import joining
from tests.compat.alike.scripts.states import BY_NAME, Group, every_state, groups_ready, seated
from tests.compat.alike.session import Session, versions
from tests.server.beside_kafka.group_admin import forget
from tests.server.group_requests import commit, heartbeat, join, leave, sync

PARTITIONS = 4


async def script(session: Session) -> None:
    await groups_ready(session)
    topic_id = await session.topic("topic", PARTITIONS)
    await session.topic("other", 1)
    await upgrades(session)
    await crowded(session)
    await downgrades(session)
    await unread_offsets(session)
    await missing(session)
    await several_groups(session, topic_id)


# --- from classic to consumer ---


@dataclass(frozen=True)
class Old:
    """What a classic member says and is given."""

    subscription: bytes | None = None
    assignment: bytes | None = None
    protocol_type: str = "consumer"
    syncs: bool = True


def wants(session: Session, version: int = 1, *owned: int, **fields: Any) -> bytes:
    topic = session.name("topic")
    partitions = [TopicPartition(topic, list(owned))] if owned else []
    return encode_versioned(
        ConsumerProtocolSubscription([topic], owned_partitions=partitions, **fields), version
    )


def has(session: Session, version: int = 1, *, topic: str = "topic", user_data: bytes | None = None) -> bytes:
    share = [TopicPartition(session.name(topic), list(range(PARTITIONS)))]
    return encode_versioned(ConsumerProtocolAssignment(share, user_data), version)


async def old_member(session: Session, name: str, old: Old) -> Group:
    said = wants(session) if old.subscription is None else old.subscription
    group = await seated(session, name, protocols={"range": said}, protocol_type=old.protocol_type)
    if old.syncs:
        share = {group.member: has(session) if old.assignment is None else old.assignment}
        request = sync(group.id, group.member, group.generation, share, protocol_type=old.protocol_type)
        await session.get(request)
    return group


async def upgrades(session: Session) -> None:
    kinds = {
        "usual": Old(),
        "newest": Old(wants(session, 3, rack_id="r", generation_id=1), has(session, 3)),
        "oldest": Old(wants(session, 0), has(session, 0)),
        "of a later version": Old(b"\x00\x63" + wants(session)[2:]),
        "with user data in the subscription": Old(wants(session, user_data=b"mine")),
        "with user data in the assignment": Old(assignment=has(session, user_data=b"mine")),
        "with empty user data in the assignment": Old(assignment=has(session, user_data=b"")),
        "with an assignment of no bytes": Old(assignment=b""),
        "with an assignment of other bytes": Old(assignment=b"?"),
        "with an assignment of a topic that is gone": Old(assignment=has(session, topic="none")),
        "with a subscription of no bytes": Old(b""),
        "with a subscription of other bytes": Old(b"?"),
        "that was assigned nothing yet": Old(syncs=False),
        "of connect": Old(protocol_type="connect"),
    }
    for number, (label, old) in enumerate(kinds.items()):
        group = await old_member(session, f"upgrade{number}", old)
        await session.ask(f"one {label}: joins", joining(session, f"upgrade{number}", "new"))
        await tell(session, f"one {label}", group)
        await session.ask(f"one {label}: it", heartbeat(group.id, group.member, group.generation))
        await session.ask(f"one {label}: leaves", ConsumerGroupHeartbeatRequest(group.id, "new", -1))
        await tell(session, f"one {label}, alone", group)


async def crowded(session: Session) -> None:
    """A group may have three members, here as there."""
    for count in (2, 3):
        name = f"crowd{count}"
        for number in range(count):
            options = {"protocols": {"range": wants(session)}, "instance": f"i{number}"}
            await session.begin(join(session.name(name), **options), 9, client=f"c#{name}{number}")
            await session.pass_time(100)
        await session.ask(f"a crowd of {count}: joins", joining(session, name, "new"))
        reply = await session.get(ConsumerGroupDescribeRequest([session.name(name)]))
        session.write(f"a crowd of {count}: members", len(reply.groups[0].members))


async def tell(session: Session, label: str, group: Group) -> None:
    """What administrators see."""
    await session.ask(f"{label}: consumer", ConsumerGroupDescribeRequest([group.id]))
    reply = await session.get(DescribeGroupsRequest([group.id]))
    members = reply.groups[0].members
    session.write(f"{label}: has", [partitions(each.member_assignment) for each in members])
    for member in members:
        member.member_assignment = member.member_metadata = b""
    session.write(f"{label}: classic", session.names.plain(reply, versions("DescribeGroups")[-1]))


def partitions(assignment: bytes) -> Any:
    if not assignment:
        return "nothing"
    try:
        decoded = decode_versioned(ConsumerProtocolAssignment, assignment)
    except InvalidBytesError:
        return assignment.hex()
    return [assignment[:2].hex(), *(sorted(each.partitions) for each in decoded.assigned_partitions)]


# --- and back ---


async def downgraded(session: Session, name: str, *, moved: bool) -> Group:
    """A group of one classic member that the last of the new ones has left."""
    group = await old_member(session, name, Old())
    await session.get(joining(session, name, "new"))
    if moved:
        for owned in ((0, 1, 2, 3), (0, 1)):
            again = join(group.id, group.member, protocols={"range": wants(session, 1, *owned)})
            reply = await session.get(again)
            group.generation = reply.generation_id
            await session.get(sync(group.id, group.member, group.generation))
        await session.get(ConsumerGroupHeartbeatRequest(group.id, "new", 2, topic_partitions=[]))
    await session.get(ConsumerGroupHeartbeatRequest(group.id, "new", -1))
    return group


async def downgrades(session: Session) -> None:
    for moved in (False, True):
        group = await downgraded(session, f"down{moved:d}", moved=moved)
        label = f"back, {'moved' if moved else 'not moved'}"
        await tell(session, label, group)
        for generation, member in product(range(-1, 5), (group.member, "nobody", "")):
            who = f"{label}: {member == group.member}, {generation}"
            for version in (0, 5):
                beat = heartbeat(group.id, member, generation)
                await session.ask(f"{who}", beat, min(version, versions("Heartbeat")[-1]))
                await say_sync(session, who, sync(group.id, member, generation), version)
            await session.ask(
                who, commit(group.id, session.name("topic"), {0: 1}, member=member, generation=generation), 8
            )
        for protocol_type, protocol in product(("consumer", "connect", None), ("range", "other", None)):
            request = sync(
                group.id, group.member, group.generation, protocol_type=protocol_type, protocol=protocol
            )
            await say_sync(session, f"{label}: {protocol_type} by {protocol}", request, 5)
        reply = await session.ask(
            f"{label}: joins again", join(group.id, group.member, protocols={"range": b"x"})
        )
        share = {group.member: b"all"}
        await session.ask(f"{label}: syncs again", sync(group.id, group.member, reply.generation_id, share))
        await session.ask(f"{label}: another joins", join(group.id, instance="i", protocols=["other"]))
        await session.ask(f"{label}: leaves", leave(group.id, group.member))
        await tell(session, f"{label}, empty", group)


async def say_sync(session: Session, label: str, request: Any, version: int) -> None:
    reply = await session.get(request, version)
    share, reply.assignment = reply.assignment, b""
    session.write(f"{label}, SyncGroup v{version}", [session.names.plain(reply, version), partitions(share)])


# --- offsets of members whom nobody understands ---


async def unread_offsets(session: Session) -> None:
    topic = session.name("topic")
    kinds = {"other bytes": b"?", "no bytes": b"", "half a subscription": b"\x00\x01\x00\x00"}
    for number, (label, said) in enumerate(kinds.items()):
        group = await seated(session, f"unread{number}", protocols={"range": said})
        names = {topic: [0, 1, 7], session.name("none"): [0]}
        await session.get(commit(group.id, topic, {0: 5}, member=group.member, generation=1), 8)
        await session.ask(f"{label}, completing", forget(group.id, **names))
        await session.get(sync(group.id, group.member, 1, {group.member: b"all"}))
        await session.get(commit(group.id, topic, {0: 5}, member=group.member, generation=1), 8)
        await session.ask(f"{label}, stable", forget(group.id, **names))
        await session.get(leave(group.id, group.member))
        await session.ask(f"{label}, empty", forget(group.id, **names))
    await seated(session, "half", protocols={"range": wants(session), "other": b"?"})
    await session.ask("a protocol that is not in use", forget(session.name("half"), **{topic: [0]}))


# --- what is not there ---


async def missing(session: Session) -> None:
    """Tools print these words as they are."""
    groups = await every_state(session, "-words")
    for group in groups:
        for version in versions("DescribeGroups"):
            reply = await session.get(DescribeGroupsRequest([group.id]), version)
            words(session, f"{group.state}, DescribeGroups v{version}", reply.groups[0])
        for version in versions("ConsumerGroupDescribe"):
            reply = await session.get(ConsumerGroupDescribeRequest([group.id]), version)
            words(session, f"{group.state}, ConsumerGroupDescribe v{version}", reply.groups[0])
    for group in groups:
        await session.ask(f"{group.state}: deleted", DeleteGroupsRequest([group.id]))


def words(session: Session, label: str, reply: Any) -> None:
    session.write(label, [reply.error_code, session.names.plain(reply.error_message, 0)])


async def several_groups(session: Session, topic_id: bytes) -> None:
    topic = session.name("topic")
    groups = await every_state(session, "-several")
    for group in groups:
        await session.get(commit(group.id, topic, {0: 5}), BY_NAME)

    def asked(
        name: str, member: str | None, epoch: int, indexes: list[int] | None
    ) -> OffsetFetchRequestGroup:
        wanted = None if indexes is None else [OffsetFetchRequestTopics(topic, topic_id, indexes)]
        return OffsetFetchRequestGroup(name, member, epoch, wanted)

    ids = [group.id for group in groups]
    for version, stable in product(range(8, versions("OffsetFetch")[-1] + 1), (False, True)):
        for label, several in {
            "all of all": [asked(each, None, -1, None) for each in ids],
            "two of all": [asked(each, None, -1, [0, 9]) for each in ids],
            "none of all": [asked(each, None, -1, []) for each in ids],
            "one twice": [asked(ids[1], None, -1, [0]), asked(ids[1], None, -1, [1])],
            "no name": [asked("", None, -1, [0]), asked(ids[1], None, -1, [0])],
            "members of some": [asked(each, "nobody", 1, [0]) for each in ids],
            "no groups": [],
        }.items():
            await session.ask(
                f"{label}, {stable}", OffsetFetchRequest(groups=several, require_stable=stable), version
            )
