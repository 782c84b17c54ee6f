"""Offsets of groups: committing and fetching in every version, by right and wrong members of every state."""

import random
from itertools import cycle, product
from typing import Any

from headrace.wire.schemas.delete_groups import DeleteGroupsRequest
from headrace.wire.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.compat.alike.scripts.states import Group, every_state, groups_ready
from tests.compat.alike.session import UNKNOWN_ID, Session, versions

STATIC_SINCE, BY_ID_SINCE, MANY_SINCE = 7, 10, 8


class Topics:
    """The topics of the conversation, by name and id."""

    def __init__(self, session: Session, ids: dict[str, bytes]) -> None:
        self._session = session
        self._ids = ids

    def commit(self, partitions: dict[str, list[tuple[int, int, int, str | None]]]) -> list[Any]:
        """Rows of partition, offset, epoch and metadata."""
        return [
            OffsetCommitRequestTopic(
                name if name.startswith("__") else self._session.name(name),
                self._ids.get(name, UNKNOWN_ID if name else bytes(16)),
                [OffsetCommitRequestPartition(*row) for row in rows],
            )
            for name, rows in partitions.items()
        ]

    def fetch(self, partitions: dict[str, list[int]]) -> list[Any]:
        return [
            OffsetFetchRequestTopics(
                self._session.name(name), self._ids.get(name, UNKNOWN_ID if name else bytes(16)), indexes
            )
            for name, indexes in partitions.items()
        ]


def fetch(version: int, group: str, topics: list[Any] | None, stable: bool = False) -> OffsetFetchRequest:
    """In the form of the version."""
    if version >= MANY_SINCE:
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable
        )
    named = topics and [OffsetFetchRequestTopic(each.name, each.partition_indexes) for each in topics]
    return OffsetFetchRequest(group, named, require_stable=stable)


async def script(session: Session) -> None:
    await groups_ready(session)
    # A commit without a group id makes a group of no name, in Kafka as well.
    await session.get(DeleteGroupsRequest([""]))
    topics = Topics(session, {name: await session.topic(name, 2) for name in ("topic", "second")})
    await commits(session, topics)
    await fetches(session, topics)
    for group in await every_state(session):
        await members(session, topics, group)


async def commits(session: Session, topics: Topics) -> None:
    rows: dict[str, Any] = {
        "one": {"topic": [(0, 5, -1, "")]},
        "with an epoch and words": {
            "topic": [(0, 6, 0, "words"), (1, 7, 3, "")],
            "second": [(1, 8, -1, "x")],
        },
        "null words": {"topic": [(0, 9, -1, None)]},
        "unknown": {"topic": [(0, 10, -1, ""), (2, 1, -1, ""), (-1, 1, -1, "")], "none": [(0, 1, -1, "")]},
        "a bad name": {"a/b": [(0, 1, -1, "")]},
        "no name": {"": [(0, 1, -1, "")]},
        "negative": {"topic": [(0, -1, -1, ""), (1, -5, -7, "")]},
        "too many words": {"second": [(0, 1, -1, "w" * 4097), (1, 11, -1, "w" * 4096)]},
        "an internal topic": {"__consumer_offsets": [(0, 1, -1, "")]},
        "no partitions": {"topic": []},
        "nothing": {},
        "one twice": {"topic": [(0, 12, -1, ""), (0, 13, -1, "")]},
    }
    for version in versions("OffsetCommit"):
        group = session.name(f"commits{version}")
        for label, partitions in rows.items():
            request = OffsetCommitRequest(
                group, -1, "", retention_time_ms=5, topics=topics.commit(partitions)
            )
            await session.ask(label, request, version)
        await session.ask("after all", fetch(9, group, None), 9)
        request = OffsetCommitRequest("", -1, "", topics=topics.commit({"topic": [(0, 1, -1, "")]}))
        await session.ask("no group", request, version)
        request = OffsetCommitRequest(group, 0, "", topics=topics.commit({"topic": [(0, 1, -1, "")]}))
        await session.ask("a generation", request, version)


async def fetches(session: Session, topics: Topics) -> None:
    group, none = session.name("fetches"), session.name("none")
    rows = {"topic": [(0, 5, 0, "a"), (1, 6, -1, "")], "second": [(1, 7, 2, "b")]}
    await session.get(OffsetCommitRequest(group, -1, "", topics=topics.commit(rows)))
    wanted: dict[str, Any] = {
        "one": {"topic": [0]},
        "several": {"second": [1, 0, 9], "topic": [1, 0]},
        "unknown": {"none": [0, 1], "topic": [0, 7, -1]},
        "no name": {"": [0]},
        "no partitions": {"topic": []},
        "one twice": {"topic": [0, 0]},
        "nothing": {},
        "all": None,
    }
    for version, stable in product(versions("OffsetFetch"), (False, True)):
        for label, partitions in wanted.items():
            if (partitions is None and version < 2) or (stable and version < STATIC_SINCE):
                continue
            named = None if partitions is None else topics.fetch(partitions)
            for who, name in (("", group), (" of an unknown group", none), (" of no group", "")):
                await session.ask(f"{label}{who}, {stable}", fetch(version, name, named, stable), version)
    for version in versions("OffsetFetch")[MANY_SINCE - 1 :]:
        groups = [
            OffsetFetchRequestGroup(name, topics=each)
            for name, each in ((group, None), (none, topics.fetch({"topic": [0]})), ("", None), (group, []))
        ]
        await session.ask("many groups", OffsetFetchRequest(groups=groups), version)
        await session.ask("no groups", OffsetFetchRequest(groups=[]), version)


async def members(session: Session, topics: Topics, group: Group) -> None:
    """Who is right and wrong in each way, to a group in one state."""
    numbers = cycle(versions("OffsetCommit"))
    ids = {"no member": "", "nobody": "nobody", "itself": group.member or "somebody"}
    generations = dict.fromkeys((group.generation + 1, group.generation - 1, -1, group.generation))
    for (who, member), generation, instance in product(ids.items(), generations, (None, "other", "i")):
        for _ in range(3):
            version = next(numbers)
            if instance is not None and version < STATIC_SINCE:
                continue
            rows = topics.commit({"topic": [(0, 20, -1, "")], "none": [(0, 1, -1, "")]})
            request = OffsetCommitRequest(group.id, generation, member, instance, topics=rows)
            await session.ask(f"{group.state}: {who}, {generation}, {instance}", request, version)
    for (who, asking), epoch in product({**ids, "null": None}.items(), generations):
        for version in (9, 10):
            wish = OffsetFetchRequestGroup(group.id, asking, epoch, topics.fetch({"topic": [0]}))
            request = OffsetFetchRequest(groups=[wish])
            await session.ask(f"{group.state}: {who}, {epoch}", request, version)


async def walk(session: Session, rng: random.Random) -> None:
    """Commits and fetches of two groups at random."""
    await groups_ready(session)
    topics = Topics(session, {name: await session.topic(name, 2) for name in ("topic", "second")})
    names = ("topic", "second", "none", "")
    for number in range(150):
        group = session.name(rng.choice(("a", "b")))
        chosen = rng.sample(names, rng.choice((1, 1, 2, 3)))
        if rng.random() < 0.5:
            rows = {
                name: [
                    (
                        rng.choice((0, 1, 2, -1)),
                        rng.choice((number, 0, -1)),
                        rng.choice((-1, 0, 5)),
                        "w" * rng.choice((0, 3)),
                    )
                    for _ in range(rng.choice((1, 1, 2)))
                ]
                for name in chosen
            }
            request: Any = OffsetCommitRequest(
                group,
                rng.choice((-1, -1, -1, 0, 1)),
                rng.choice(("", "", "", "x")),
                topics=topics.commit(rows),
            )
            await session.ask(f"{number}", request, rng.choice(versions("OffsetCommit")))
        else:
            version = rng.choice(versions("OffsetFetch")[1:])
            wish = {name: rng.sample((0, 1, 2), rng.choice((0, 1, 3))) for name in chosen}
            named = None if rng.random() < 0.3 else topics.fetch(wish)
            await session.ask(f"{number}", fetch(version, group, named, rng.random() < 0.2), version)
