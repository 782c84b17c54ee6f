"""OffsetFetch: some, all, none, of groups known and unknown, at every version."""

from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.server.beside_kafka.find_coordinator import ready
from tests.server.beside_kafka.join_group import stable
from tests.server.beside_kafka.talk import Talk
from tests.server.group_requests import commit, fetch_offsets

NEWEST, BY_NAME, NULL_SINCE = 10, 9, 2


async def script(talk: Talk) -> None:
    await ready(talk)
    topic, group = talk.name("topic"), talk.name("group")
    topic_id = await talk.topic("topic", 3)
    await talk.topic("other")
    await (await talk.begin(commit(group, topic, {0: 5, 1: 6}, metadata="note", epoch=3), BY_NAME))
    await (await talk.begin(commit(group, talk.name("other"), {0: 7}), BY_NAME))

    talk.title("Some")
    await talk.each_version(
        "one and one without", lambda version: fetch_offsets(version, group, topic, (0, 2), topic_id=topic_id)
    )
    await talk.each_version(
        "no partitions", lambda version: fetch_offsets(version, group, topic, (), topic_id=topic_id)
    )
    await talk.each_version(
        "unknown topic",
        lambda version: fetch_offsets(version, group, talk.name("none"), topic_id=b"none" * 4),
    )
    await talk.each_version(
        "unknown partition", lambda version: fetch_offsets(version, group, topic, (9,), topic_id=topic_id)
    )
    await talk.each_version(
        "unknown group", lambda version: fetch_offsets(version, talk.name("none"), topic, topic_id=topic_id)
    )
    await talk.each_version(
        "no group id", lambda version: fetch_offsets(version, "", topic, topic_id=topic_id)
    )
    await talk.ask("a partition twice", fetch_offsets(BY_NAME, group, topic, (0, 0)), BY_NAME)
    await talk.ask("stable ones", fetch_offsets(BY_NAME, group, topic, (0, 2), stable=True), BY_NAME)
    await talk.ask("by id zero", fetch_offsets(NEWEST, group, topic), NEWEST)

    talk.title("All")
    for version in range(NULL_SINCE, NEWEST + 1):
        await talk.ask(f"v{version}", fetch_offsets(version, group, None), version, unordered=True)
    for version in (NULL_SINCE, 7, 8, NEWEST):
        await talk.ask(
            f"of an unknown group, v{version}", fetch_offsets(version, talk.name("none"), None), version
        )
    await many(talk, group, topic, topic_id)
    await deleted(talk, group)


async def many(talk: Talk, group: str, topic: str, topic_id: bytes) -> None:
    talk.title("Several groups")
    some = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, topic_id, [0])])
    every = OffsetFetchRequestGroup(group, topics=None)
    none = OffsetFetchRequestGroup(talk.name("none"), topics=None)
    for version in (8, NEWEST):
        await talk.ask(f"v{version}", OffsetFetchRequest(groups=[some, none]), version, unordered=True)
    await talk.ask("one twice", OffsetFetchRequest(groups=[some, every]), NEWEST, unordered=True)
    await talk.ask("no groups", OffsetFetchRequest(groups=[]), NEWEST)
    group = talk.name("members")
    member = await stable(talk, group)
    for name, epoch in ((None, -1), (member, 1), ("nobody", 3), (member, 9)):
        asked = OffsetFetchRequestGroup(group, name, epoch, [OffsetFetchRequestTopics(topic, topic_id, [0])])
        shown = "its id" if name == member else name
        await talk.ask(
            f"of a classic group, as {shown} of epoch {epoch}", OffsetFetchRequest(groups=[asked]), NEWEST
        )


async def deleted(talk: Talk, group: str) -> None:
    talk.title("A topic that is gone")
    await talk.delete_topic("other")
    await talk.pass_time(500)
    for version in (7, 8, BY_NAME, NEWEST):
        await talk.ask(f"v{version}", fetch_offsets(version, group, None), version, unordered=True)
    await talk.ask("by name", fetch_offsets(BY_NAME, group, talk.name("other")), BY_NAME)
