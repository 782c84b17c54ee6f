"""Topics: making, enlarging, deleting and describing them, with every field right and wrong."""

import random
from typing import Any

from headrace.wire.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schemas.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headrace.wire.schemas.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.alike.session import UNKNOWN_ID, Session, versions

SETTLE_MS = 400
BY_ID_SINCE = 6


async def script(session: Session) -> None:
    await creating(session)
    await enlarging(session)
    await metadata(session)
    await described(session)
    await deleting(session)


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> CreatableTopic:
    """`assigned` lists the brokers of each partition; `configs` is a dict."""
    assigned = [CreatableReplicaAssignment(*each) for each in more.get("assigned", ())]
    configs = [CreatableTopicConfig(*each) for each in more.get("configs", {}).items()]
    return CreatableTopic(name, partitions, replicas, assigned, configs)


def _wrong_topics(session: Session, version: int) -> dict[str, list[CreatableTopic]]:
    name = session.name(f"c{version}")
    return {
        "no topics": [],
        "a plain one": [topic(name)],
        "it exists": [topic(name), topic(name + "-more")],
        "default numbers": [topic(name + "-d", -1, -1)],
        "no partitions": [topic(name + "x", 0)],
        "negative partitions": [topic(name + "x", -2)],
        "no replicas": [topic(name + "x", 1, 0)],
        "negative replicas": [topic(name + "x", 1, -2)],
        "too many replicas": [topic(name + "x", 1, 2)],
        "no name": [topic("")],
        "a dot": [topic(".")],
        "two dots": [topic("..")],
        "a bad name": [topic("a b"), topic("a/b"), topic("é")],
        "a long name": [topic("n" * 250)],
        "the same twice": [topic(name + "x"), topic(name + "x", 2), topic(name + "y")],
        "names that collide": [topic(name + "-.a_b"), topic(name + "-_a.b")],
        "an internal name": [topic("__cluster_metadata")],
        "assigned": [topic(name + "-a", -1, -1, assigned=[(0, [1]), (1, [1])])],
        "assigned and counted": [topic(name + "x", 1, -1, assigned=[(0, [1])])],
        "assigned and replicated": [topic(name + "x", -1, 1, assigned=[(0, [1])])],
        "assigned to a stranger": [topic(name + "x", -1, -1, assigned=[(0, [7])])],
        "assigned twice": [topic(name + "x", -1, -1, assigned=[(0, [1, 1])])],
        "assigned with a gap": [topic(name + "x", -1, -1, assigned=[(0, [1]), (2, [1])])],
        "assigned without the first": [topic(name + "x", -1, -1, assigned=[(1, [1])])],
        "one partition assigned twice": [topic(name + "x", -1, -1, assigned=[(0, [1]), (0, [1])])],
        "assigned to nobody": [topic(name + "x", -1, -1, assigned=[(0, [])])],
        "assigned to -1": [topic(name + "x", -1, -1, assigned=[(0, [-1])])],
        "assigned unevenly": [topic(name + "x", -1, -1, assigned=[(0, [1]), (1, [1, 7])])],
        "configured": [topic(name + "-c", configs={"retention.ms": "1000", "cleanup.policy": "compact"})],
        "an unknown setting": [topic(name + "x", configs={"no.such": "1"})],
        "a bad value": [topic(name + "x", configs={"retention.ms": "soon"})],
        "a value out of range": [topic(name + "x", configs={"segment.bytes": "3"})],
        "a bad choice": [topic(name + "x", configs={"cleanup.policy": "burn"})],
        "a null value": [topic(name + "x", configs={"retention.ms": None})],
        "values that do not fit": [
            topic(name + "x", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
        ],
        "an empty value": [topic(name + "x", configs={"cleanup.policy": ""})],
        "a broker's setting": [topic(name + "x", configs={"num.io.threads": "5"})],
        "spaces": [topic(name + "-s", configs={"retention.ms": " 1000 "})],
        "tiered": [topic(name + "x", configs={"remote.storage.enable": "true"})],
        "throttled": [topic(name + "-t", configs={"leader.replication.throttled.replicas": "*"})],
        "throttled badly": [topic(name + "x", configs={"leader.replication.throttled.replicas": "a"})],
    }


async def creating(session: Session) -> None:
    for version in versions("CreateTopics"):
        for label, topics in _wrong_topics(session, version).items():
            for only in (True, False):
                said = f"{label}{', to validate' if only else ''}"
                await session.ask(said, CreateTopicsRequest(topics, 5_000, only), version)
    await session.ask("no time", CreateTopicsRequest([topic(session.name("untimed"))], 0))
    await session.ask("negative time", CreateTopicsRequest([topic(session.name("untimed2"))], -1))
    await session.pass_time(SETTLE_MS)


async def enlarging(session: Session) -> None:
    for version in versions("CreatePartitions"):
        name = session.name(f"e{version}")
        await session.topic(f"e{version}", 2)

        async def ask(label: str, *topics: tuple[str, int, Any], version: int = version) -> None:
            rows = [
                CreatePartitionsTopic(
                    name, count, None if brokers is None else [CreatePartitionsAssignment(b) for b in brokers]
                )
                for name, count, brokers in topics
            ]
            for only in (True, False):
                said = f"{label}{', to validate' if only else ''}"
                await session.ask(said, CreatePartitionsRequest(rows, 5_000, only), version)

        await ask("none")
        await ask("an unknown one", (session.name("none"), 3, None))
        await ask("no name", ("", 3, None))
        for count in (0, -1, 1, 2):
            await ask(f"{count}", (name, count, None))
        await ask("twice", (name, 3, None), (name, 4, None))
        await ask("assigned too few", (name, 4, [[1]]))
        await ask("assigned too many", (name, 3, [[1], [1]]))
        await ask("assigned none", (name, 3, []))
        await ask("assigned to a stranger", (name, 3, [[7]]))
        await ask("assigned twice", (name, 3, [[1, 1]]))
        await ask("assigned to nobody", (name, 3, [[]]))
        await ask("assigned", (name, 3, [[1]]))
        await ask("an internal one", ("__cluster_metadata", 3, None))
        await ask("more, and an unknown one", (name, 5, None), (session.name("none"), 2, None))
    await session.pass_time(SETTLE_MS)


async def metadata(session: Session) -> None:
    ids = {name: await session.topic(name, 2) for name in ("m1", "m2")}
    for version in versions("Metadata"):
        wanted: dict[str, list[MetadataRequestTopic] | None] = {
            "some": [MetadataRequestTopic(name=session.name(each)) for each in ("m1", "none", "m2")],
            "one twice": [MetadataRequestTopic(name=session.name("m1"))] * 2,
            "bad names": [MetadataRequestTopic(name=each) for each in ("", "a b", ".", "n" * 250)],
            "an internal one": [MetadataRequestTopic(name="__cluster_metadata")],
        }
        if version:
            wanted["none"] = []
        if version >= 10:
            wanted["by id"] = [MetadataRequestTopic(each, None) for each in (ids["m1"], UNKNOWN_ID)]
            wanted["no id"] = [MetadataRequestTopic(bytes(16), None)]
            wanted["an id and a name"] = [MetadataRequestTopic(ids["m1"], session.name("m1"))]
            wanted["another's id"] = [MetadataRequestTopic(ids["m2"], session.name("m1"))]
        for label, topics in wanted.items():
            for operations in (False, True) if version >= 8 else (False,):
                request = MetadataRequest(topics, False, operations, operations)
                await session.ask(f"{label}, {operations}", request, version)
        names = {session.name("m1"), session.name("m2")}
        reply = await session.get(MetadataRequest(None if version else [], False), version)
        reply.topics = sorted(
            (each for each in reply.topics if each.name in names), key=lambda each: each.name
        )
        session.write(f"all, Metadata v{version}", session.names.plain(reply, version))


async def described(session: Session) -> None:
    for name, partitions in (("d1", 3), ("d2", 1), ("d3", 2)):
        await session.topic(name, partitions)
    every = ("d1", "d2", "d3", "none")

    async def ask(label: str, names: Any, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        topics = [TopicRequest(session.name(each) if each else "") for each in names]
        at = None if cursor is None else Cursor(session.name(cursor[0]), cursor[1])
        await session.ask(label, DescribeTopicPartitionsRequest(topics, limit, at))

    await ask("all", every)
    await ask("in another order", reversed(every))
    await ask("twice", ("d1", "d1"))
    await ask("no name", ("",))
    for limit in (-1, 0, 1, 3, 4, 2001):
        await ask(f"limit {limit}", every, limit)
    for cursor in (
        ("d1", 0),
        ("d1", 2),
        ("d1", 3),
        ("d1", 9),
        ("d1", -1),
        ("d2", 0),
        ("d0", 0),
        ("none", 1),
        ("z", 0),
    ):
        await ask(f"from {cursor}", every, 2, cursor)


async def deleting(session: Session) -> None:
    for version in versions("DeleteTopics"):
        name = f"x{version}"
        topic_id = await session.topic(name, 1)
        await session.topic(f"{name}-b", 1)
        real, none = session.name(name), session.name("none")
        if version < BY_ID_SINCE:
            for names in ([], [none], [""], [none, none], [real, none], [real], ["__cluster_metadata"]):
                await session.ask(f"{len(names)}", DeleteTopicsRequest([], names, 5_000), version)
                await session.pass_time(SETTLE_MS)
            continue
        rows: dict[str, list[tuple[str | None, bytes]]] = {
            "nothing": [],
            "unknown": [(none, bytes(16)), (None, UNKNOWN_ID)],
            "neither": [(None, bytes(16))],
            "no name": [("", bytes(16))],
            "both": [(real, topic_id)],
            "twice": [(real, bytes(16)), (real, bytes(16))],
            "by id and by name": [(real, bytes(16)), (None, topic_id)],
            "an internal one": [("__cluster_metadata", bytes(16))],
            "by id": [(None, topic_id), (None, UNKNOWN_ID)],
            "again by id": [(None, topic_id)],
            "by name": [(session.name(f"{name}-b"), bytes(16))],
        }
        for label, states in rows.items():
            request = DeleteTopicsRequest([DeleteTopicState(*each) for each in states], [], 5_000)
            await session.ask(label, request, version)
            await session.pass_time(SETTLE_MS)


async def walk(session: Session, rng: random.Random) -> None:
    """Four names that are made, enlarged, described and deleted."""
    for number in range(60):
        name = session.name(rng.choice("abcd"))
        kind = rng.choice(("create", "create", "enlarge", "delete", "metadata", "describe"))
        if kind == "create":
            settings = {"retention.ms": rng.choice(("1000", "-1", "-2", "x"))} if rng.random() < 0.4 else {}
            wish = topic(name, rng.choice((1, 2, 0)), rng.choice((1, 1, -1, 2)), configs=settings)
            request: Any = CreateTopicsRequest([wish], 5_000, rng.random() < 0.2)
            await session.ask(f"{number}", request, rng.choice(versions("CreateTopics")))
        elif kind == "enlarge":
            request = CreatePartitionsRequest(
                [CreatePartitionsTopic(name, rng.choice((1, 2, 3)), None)], 5_000
            )
            await session.ask(f"{number}", request, rng.choice(versions("CreatePartitions")))
        elif kind == "delete":
            await session.ask(f"{number}", DeleteTopicsRequest([], [name], 5_000), rng.choice(range(1, 6)))
        elif kind == "metadata":
            wanted = [MetadataRequestTopic(name=name)]
            await session.ask(f"{number}", MetadataRequest(wanted, False), rng.choice(versions("Metadata")))
        else:
            await session.ask(f"{number}", DescribeTopicPartitionsRequest([TopicRequest(name)]))
        await session.pass_time(SETTLE_MS // 2)
