"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete, in every state of a group."""

from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.describe_groups import DescribeGroupsRequest
from headrace.wire.schemas.list_groups import ListGroupsRequest
from headrace.wire.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import seat, stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit, fetch_offsets, join, leave, subscription, sync

BY_NAME = 9


def forget(group: str, **topics: list[int]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group,
        [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(each) for each in partitions])
            for name, partitions in topics.items()
        ],
    )


async def groups_of(talk: Talk) -> list[str]:
    """A group in every state there is."""
    names = {
        state: talk.name(state)
        for state in ("offsets", "given", "completing", "stable", "preparing", "empty")
    }
    await (await talk.begin(commit(names["offsets"], talk.name("topic"), {0: 5}), BY_NAME))
    await (await talk.begin(join(names["given"]), 9, client="given"))
    await seat(talk, names["completing"], "completing")
    await stable(talk, names["stable"], "stable", protocols={"range": subscription(talk.name("topic"))})
    await stable(talk, names["preparing"], "preparing")
    await talk.begin(join(names["preparing"]), 3, client="other")
    member = await stable(talk, names["empty"], "empty")
    await (await talk.begin(leave(names["empty"], member), 5))
    await talk.pass_time(200)
    return list(names.values())


async def script(talk: Talk) -> None:
    await ready(talk)
    # A commit without a group id makes a group of no name, in Kafka as well: another recording may have.
    await (await talk.begin(DeleteGroupsRequest([""]), 2))
    await talk.topic("topic", 3)
    await talk.topic("unread")
    groups = await groups_of(talk)
    await describe(talk, groups)
    await list_them(talk, groups)
    await forget_offsets(talk, groups)
    await delete(talk, groups)


async def describe(talk: Talk, groups: list[str]) -> None:
    talk.title("DescribeGroups")
    for group in groups:
        await talk.each_version(
            talk._show(group, False),
            lambda version, name=group: DescribeGroupsRequest([name]),
            unordered=True,
        )
    await talk.each_version("unknown", lambda version: DescribeGroupsRequest([talk.name("none")]))
    await talk.each_version("no group id", lambda version: DescribeGroupsRequest([""]))
    await talk.ask("no groups", DescribeGroupsRequest([]), 6)
    for version in (3, 6):
        request = DescribeGroupsRequest([groups[0], talk.name("none")], include_authorized_operations=True)
        await talk.ask(f"what may be done, v{version}", request, version)
    await talk.ask("one twice", DescribeGroupsRequest([groups[0], groups[0]]), 6)
    group = talk.name("static")
    reply = await (await talk.begin(join(group, instance="i"), 9))
    talk.know(reply.member_id, "<static>")
    await (await talk.begin(sync(group, reply.member_id, 1, {reply.member_id: b"all"}), 5))
    await talk.each_version("static", lambda version: DescribeGroupsRequest([group]))


async def list_them(talk: Talk, groups: list[str]) -> None:
    talk.title("ListGroups")

    async def ask(label: str, request: ListGroupsRequest, version: int) -> None:
        reply = await (await talk.begin(request, version))
        reply.groups = [each for each in reply.groups if each.group_id in groups]
        talk.lines.append(f"{label}: {talk._show(reply, True)}")

    for version in range(6):
        await ask(f"v{version}", ListGroupsRequest(), version)
    for state in ("Empty", "stable", "PREPARINGREBALANCE", "CompletingRebalance", "Dead", "none", ""):
        await ask(f"state {state}", ListGroupsRequest([state]), 5)
    await ask("two states", ListGroupsRequest(["Empty", "Stable"]), 5)
    for kind in ("classic", "Classic", "consumer", "share", "none"):
        await ask(f"type {kind}", ListGroupsRequest([], [kind]), 5)
    await ask("state and type", ListGroupsRequest(["Empty"], ["classic"]), 5)


async def forget_offsets(talk: Talk, groups: list[str]) -> None:
    talk.title("OffsetDelete")
    topic, unread = talk.name("topic"), talk.name("unread")
    for group in groups:
        await talk.ask(
            talk._show(group, False), forget(group, **{topic: [0, 1], unread: [0]}), 0, unordered=True
        )
    group = talk.name("offsets")
    await talk.ask("committed", fetch_offsets(BY_NAME, group, topic), BY_NAME)
    await (await talk.begin(commit(group, topic, {0: 5}), BY_NAME))
    await talk.ask("unknown group", forget(talk.name("none"), **{topic: [0]}), 0)
    await talk.ask("no group id", forget("", **{topic: [0]}), 0)
    await talk.ask("unknown topic", forget(group, none=[0]), 0)
    await talk.ask("unknown group and topic", forget(talk.name("none"), none=[0]), 0)
    await talk.ask("a topic and an unknown one", forget(group, none=[0], **{topic: [1]}), 0, unordered=True)
    await talk.ask("unknown partition", forget(group, **{topic: [9]}), 0)
    await talk.ask("no topics", forget(group), 0)
    connect = talk.name("connect")
    await talk.ask("a group of another kind joins", join(connect, protocol_type="connect"), 3)
    await talk.ask("a group of another kind", forget(connect, **{topic: [0]}), 0)


async def delete(talk: Talk, groups: list[str]) -> None:
    talk.title("DeleteGroups")
    await talk.ask("none", DeleteGroupsRequest([]), 2)
    for version in range(3):
        await talk.ask(f"unknown, v{version}", DeleteGroupsRequest([talk.name("none")]), version)
    await talk.ask("no group id", DeleteGroupsRequest([""]), 2)
    await talk.ask("one twice", DeleteGroupsRequest([talk.name("none"), talk.name("none")]), 2)
    await talk.ask("in every state", DeleteGroupsRequest(groups), 2, unordered=True)
    await talk.ask("again", DeleteGroupsRequest(groups), 2, unordered=True)
    await talk.ask("committed", fetch_offsets(BY_NAME, groups[0], talk.name("topic")), BY_NAME)
    await talk.ask("the group", DescribeGroupsRequest([talk.name("empty")]), 6)
    await talk.ask("it begins again", join(talk.name("empty")), 3)
