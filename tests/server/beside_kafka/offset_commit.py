"""OffsetCommit: from outside, by members, by strangers; topics and metadata that cannot be committed."""

from typing import Any

from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import seat, stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit, fetch_offsets, join, leave, sync

NEWEST, BY_NAME = 10, 9


async def script(talk: Talk) -> None:
    await ready(talk)
    await talk.topic("topic", 3)
    await outside(talk)
    await topics(talk)
    await members(talk)
    await static(talk)


async def outside(talk: Talk) -> None:
    talk.title("Without being a member")
    topic = talk.name("topic")
    for generation in (-1, 0, 5, -2):
        for member in ("", "nobody"):
            await talk.each_version(
                f"generation {generation}, member {member!r}",
                lambda version, g=generation, m=member: commit(
                    talk.name(f"out-{g}-{m}-{version}"), topic, {0: 5}, generation=g, member=m
                ),
            )
    group = talk.name("again")
    for offset in (7, 3, -1, 2**62):
        await talk.ask(f"offset {offset}", commit(group, topic, {0: offset}), BY_NAME)
        await talk.ask("committed", fetch_offsets(BY_NAME, group, topic), BY_NAME)
    await talk.ask("no group id", commit("", topic, {0: 1}), BY_NAME)
    await talk.ask("an instance", commit(group, topic, {0: 1}, instance="i"), BY_NAME)
    await talk.ask("an epoch", commit(group, topic, {0: 1}, epoch=4), BY_NAME)
    await talk.ask("committed with it", fetch_offsets(BY_NAME, group, topic), BY_NAME)


async def topics(talk: Talk) -> None:
    talk.title("Topics and metadata")
    group, topic = talk.name("topics"), talk.name("topic")
    await talk.each_version("unknown topic", lambda version: commit(group, talk.name("none"), {0: 1}))
    await talk.each_version("unknown partition", lambda version: commit(group, topic, {9: 1}))
    await talk.ask("unknown id", commit(group, "", {0: 1}, topic_id=b"none" * 4), NEWEST)
    await talk.ask("several", commit(group, topic, {0: 1, 1: 2, 9: 3}), BY_NAME, unordered=True)
    await talk.ask("no partitions", commit(group, topic, {}), BY_NAME)
    for size in (4096, 4097):
        await talk.ask(f"{size} of metadata", commit(group, topic, {2: 1}, metadata="m" * size), BY_NAME)
    await talk.ask("4096 of umlauts", commit(group, topic, {2: 1}, metadata="ü" * 4096), BY_NAME)
    await talk.ask("null metadata", commit(group, topic, {1: 1}, metadata=None), BY_NAME)
    await talk.ask("committed", fetch_offsets(BY_NAME, group, topic, [0, 1]), BY_NAME)
    await talk.ask(
        "to a group without offsets, unknown topic",
        commit(talk.name("x"), "x", {0: 1}, generation=3),
        BY_NAME,
    )


async def members(talk: Talk) -> None:
    talk.title("Members")
    group, topic = talk.name("members"), talk.name("topic")
    topic_id = await talk.topic("other")

    async def ask(label: str, version: int = BY_NAME, **options: Any) -> None:
        await talk.ask(label, commit(group, topic, {0: 5}, **options), version)

    given = await (await talk.begin(join(group), 9, client="b"))
    await ask("an id was given", member=given.member_id, generation=0)
    await ask("an id was given, no generation", member=given.member_id, generation=-1)
    await ask("an id was given to another")
    member = await seat(talk, group)
    await ask("before the assignment", member=member, generation=1)
    await ask("before the assignment, from outside")
    member = await stable(talk, talk.name("stable"))
    group = talk.name("stable")
    for version in range(2, 11):
        request = commit(group, talk.name("other"), {0: 5}, topic_id=topic_id, member=member, generation=1)
        await talk.ask(f"the member, v{version}", request, version)
    await talk.each_version("from outside", lambda version: commit(group, topic, {0: 5}))
    await talk.each_version(
        "a stranger", lambda version: commit(group, topic, {0: 5}, member="nobody", generation=1)
    )
    await talk.each_version(
        "a generation", lambda version: commit(group, topic, {0: 5}, member=member, generation=7)
    )
    await talk.each_version("no generation", lambda version: commit(group, topic, {0: 5}, member=member))
    await talk.each_version("no member", lambda version: commit(group, topic, {0: 5}, generation=1))
    await ask("an unknown instance", member=member, generation=1, instance="i")
    await ask("only an unknown instance", instance="i")
    joining = await talk.begin(join(group, protocols=["range"]), 3, client="b")
    await talk.pass_time(100)
    await ask("while another joins", member=member, generation=1)
    await (await talk.begin(leave(group, member), 5))
    await joining
    await ask("after it left", member=member, generation=1)
    await (await talk.begin(leave(group, joining.result().member_id), 5))
    await ask("the empty group, a member", member=member, generation=1)
    await ask("the empty group, its generation", generation=2)
    await ask("the empty group, from outside")
    await ask("the empty group, a member without a generation", member=member)


async def static(talk: Talk) -> None:
    talk.title("Static members")
    group, topic = talk.name("static"), talk.name("topic")
    reply = await (await talk.begin(join(group, instance="i"), 9))
    await (await talk.begin(sync(group, reply.member_id, 1, {}), 5))
    for member, generation, instance in (
        (reply.member_id, 1, "i"),
        (reply.member_id, 1, None),
        ("nobody", 1, "i"),
        ("", -1, "i"),
        (reply.member_id, 0, "i"),
        (reply.member_id, 1, "j"),
    ):
        shown = "its id" if member == reply.member_id else repr(member)
        request = commit(group, topic, {0: 1}, member=member, generation=generation, instance=instance)
        await talk.ask(f"{shown}, generation {generation}, instance {instance}", request, BY_NAME)
