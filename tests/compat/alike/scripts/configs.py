"""Settings: described and altered, of topics, brokers, groups, clients' metrics, and what has none."""

from itertools import product
from typing import Any

from headrace.wire.schemas import alter_configs, incremental_alter_configs
from headrace.wire.schemas.alter_configs import AlterConfigsRequest
from headrace.wire.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.schemas.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.schemas.list_config_resources import ListConfigResourcesRequest
from tests.compat.alike.session import Session, versions

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SETTLE_MS = 300


async def script(session: Session) -> None:
    await session.topic("topic", 1, retention_ms="5000")
    await describing(session)
    await altering(session)
    await replacing(session)
    await listing(session)


def ask_for(kind: int, name: str, keys: list[str] | None, **more: bool) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], **more)


async def describing(session: Session) -> None:
    topic = session.name("topic")
    for version in versions("DescribeConfigs"):
        flags = {"include_synonyms": True, "include_documentation": True}
        await session.ask("all of a topic", ask_for(TOPIC, topic, None), version)
        await session.ask("all of a topic, in full", ask_for(TOPIC, topic, None, **flags), version)
        await session.ask("all of a group", ask_for(GROUP, session.name("g"), None, **flags), version)
        await session.ask("all of metrics", ask_for(METRICS, session.name("m"), None, **flags), version)
        some = ["retention.ms", "no.such", "cleanup.policy", "retention.ms"]
        await session.ask("some", ask_for(TOPIC, topic, some, **flags), version)
        await session.ask("none", ask_for(TOPIC, topic, [], **flags), version)
        keys = ["log.retention.ms", "num.io.threads", "node.id", "log.cleaner.threads", "background.threads"]
        for name in ("1", ""):
            await session.ask(f"of broker {name!r}", ask_for(BROKER, name, keys, **flags), version)
        wrong: dict[str, tuple[int, str]] = {
            "an unknown topic": (TOPIC, session.name("none")),
            "no topic": (TOPIC, ""),
            "a bad topic": (TOPIC, "a b"),
            "another broker": (BROKER, "7"),
            "no broker": (BROKER, "x"),
            "no group": (GROUP, ""),
            "no metrics": (METRICS, ""),
            "loggers of another broker": (LOGGER, "7"),
            "loggers of none": (LOGGER, ""),
            "kind 0": (0, "x"),
            "kind 1": (1, "x"),
            "kind 3": (3, "x"),
            "kind 99": (99, "x"),
        }
        for label, (kind, name) in wrong.items():
            await session.ask(label, ask_for(kind, name, ["retention.ms"]), version)
        resources = [DescribeConfigsResource(TOPIC, topic, ["retention.ms"])] * 2
        await session.ask("one twice", DescribeConfigsRequest(resources), version)
        await session.ask("nothing", DescribeConfigsRequest([]), version)


def alter(kind: int, name: str, *rows: tuple[str, int, str | None], only: bool = False) -> Any:
    changes = [incremental_alter_configs.AlterableConfig(*each) for each in rows]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, changes)
    return IncrementalAlterConfigsRequest([resource], only)


def _changes(session: Session) -> dict[str, tuple[int, str, list[tuple[str, int, str | None]]]]:
    topic, group, metrics = session.name("topic"), session.name("g"), session.name("m")
    return {
        "set": (TOPIC, topic, [("retention.ms", SET, "7000")]),
        "set and delete": (TOPIC, topic, [("segment.ms", SET, "9000"), ("retention.ms", DELETE, None)]),
        "delete what is not set": (TOPIC, topic, [("max.message.bytes", DELETE, None)]),
        "one key twice": (TOPIC, topic, [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)]),
        "an unknown key": (TOPIC, topic, [("no.such", SET, "1")]),
        "delete an unknown key": (TOPIC, topic, [("no.such", DELETE, None)]),
        "a bad value": (TOPIC, topic, [("retention.ms", SET, "x")]),
        "a null value": (TOPIC, topic, [("retention.ms", SET, None)]),
        "a null to append": (TOPIC, topic, [("cleanup.policy", APPEND, None)]),
        "append": (TOPIC, topic, [("cleanup.policy", APPEND, "compact")]),
        "append again": (TOPIC, topic, [("cleanup.policy", APPEND, "compact")]),
        "subtract": (TOPIC, topic, [("cleanup.policy", SUBTRACT, "delete")]),
        "subtract the last": (TOPIC, topic, [("cleanup.policy", SUBTRACT, "compact")]),
        "append to a number": (TOPIC, topic, [("retention.ms", APPEND, "1")]),
        "subtract from a number": (TOPIC, topic, [("retention.ms", SUBTRACT, "1")]),
        "operation 9": (TOPIC, topic, [("retention.ms", 9, "1")]),
        "a good and a bad one": (TOPIC, topic, [("flush.ms", SET, "5"), ("segment.bytes", SET, "1")]),
        "nothing": (TOPIC, topic, []),
        "an unknown topic": (TOPIC, session.name("none"), [("retention.ms", SET, "1")]),
        "no topic": (TOPIC, "", [("retention.ms", SET, "1")]),
        "a broker": (BROKER, "1", [("log.cleaner.threads", SET, "2")]),
        "every broker": (BROKER, "", [("log.retention.ms", SET, "8000000")]),
        "every broker again": (BROKER, "", [("log.retention.ms", DELETE, None)]),
        "a broker again": (BROKER, "1", [("log.cleaner.threads", DELETE, None)]),
        "what is read only": (BROKER, "1", [("node.id", SET, "2")]),
        "what is read only for all": (BROKER, "", [("num.partitions", SET, "x")]),
        "a broker's bad value": (BROKER, "1", [("num.io.threads", SET, "x")]),
        "too many threads": (BROKER, "1", [("num.io.threads", SET, "999")]),
        "an unknown key of a broker": (BROKER, "1", [("no.such", SET, "1")]),
        "another broker": (BROKER, "7", [("log.cleaner.threads", SET, "1")]),
        "no broker": (BROKER, "x", [("log.cleaner.threads", SET, "1")]),
        "a group": (GROUP, group, [("consumer.session.timeout.ms", SET, "50000")]),
        "a group's bad value": (GROUP, group, [("consumer.session.timeout.ms", SET, "1")]),
        "a group's text": (GROUP, group, [("consumer.heartbeat.interval.ms", SET, "x")]),
        "an unknown key of a group": (GROUP, group, [("no.such", SET, "1")]),
        "a group without a name": (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]),
        "metrics": (METRICS, metrics, [("interval.ms", SET, "5000"), ("metrics", SET, "a.b,c")]),
        "metrics too often": (METRICS, metrics, [("interval.ms", SET, "1")]),
        "metrics that match badly": (METRICS, metrics, [("match", SET, "x=y")]),
        "metrics that match": (METRICS, metrics, [("match", SET, "client_id=.*")]),
        "an unknown key of metrics": (METRICS, metrics, [("no.such", SET, "1")]),
        "metrics without a name": (METRICS, "", [("interval.ms", SET, "5000")]),
        "kind 3": (3, "x", [("a", SET, "1")]),
        "kind 0": (0, "x", [("a", SET, "1")]),
        "a logger": (LOGGER, "1", [("no.such.logger", SET, "WRONG")]),
        "a logger of another": (LOGGER, "7", [("kafka", SET, "INFO")]),
    }


async def altering(session: Session) -> None:
    topic, group, metrics = session.name("topic"), session.name("g"), session.name("m")
    for version in versions("IncrementalAlterConfigs"):
        for (label, (kind, name, rows)), only in product(_changes(session).items(), (True, False)):
            request = alter(kind, name, *rows, only=only)
            await session.ask(f"{label}{', to validate' if only else ''}", request, version)
        row = alter(TOPIC, topic, ("retention.ms", SET, "1")).resources
        await session.ask("a resource twice", IncrementalAlterConfigsRequest(row * 2), version)
        await session.ask("no resources", IncrementalAlterConfigsRequest([]), version)
        await session.pass_time(SETTLE_MS)
        for kind, name in ((TOPIC, topic), (GROUP, group), (METRICS, metrics)):
            await session.ask("what it is now", ask_for(kind, name, None, include_synonyms=True))


async def replacing(session: Session) -> None:
    """AlterConfigs, which puts a resource's settings in place of all it has."""
    topic = session.name("topic")
    wrong: dict[str, tuple[int, str, dict[str, str | None]]] = {
        "set": (TOPIC, topic, {"retention.ms": "7000"}),
        "replace": (TOPIC, topic, {"flush.ms": "70"}),
        "a bad value": (TOPIC, topic, {"retention.ms": "x"}),
        "a null value": (TOPIC, topic, {"retention.ms": None}),
        "an unknown key": (TOPIC, topic, {"no.such": "1"}),
        "an unknown topic": (TOPIC, session.name("none"), {"retention.ms": "1"}),
        "a group": (GROUP, session.name("g"), {"consumer.session.timeout.ms": "51000"}),
        "metrics": (METRICS, session.name("m"), {"interval.ms": "6000"}),
        "another broker": (BROKER, "7", {"log.cleaner.threads": "1"}),
        "a logger": (LOGGER, "1", {"kafka": "INFO"}),
        "kind 3": (3, "x", {"a": "1"}),
        "nothing": (TOPIC, topic, {}),
    }
    for version in versions("AlterConfigs"):
        for (label, (kind, name, settings)), only in product(wrong.items(), (True, False)):
            rows = [alter_configs.AlterableConfig(*each) for each in settings.items()]
            request = AlterConfigsRequest([alter_configs.AlterConfigsResource(kind, name, rows)], only)
            await session.ask(f"{label}{', to validate' if only else ''}", request, version)
        await session.ask("no resources", AlterConfigsRequest([]), version)
    await session.pass_time(SETTLE_MS)
    await session.ask("what it is now", ask_for(TOPIC, topic, None, include_synonyms=True))


async def listing(session: Session) -> None:
    own = {session.name(name) for name in ("topic", "g", "m")} | {"1", ""}
    for version in versions("ListConfigResources"):
        for kinds in ([], [METRICS], [GROUP], [TOPIC, BROKER], [LOGGER], [3], [0], [99]):
            if kinds and not version:
                continue
            try:
                reply = await session.get(ListConfigResourcesRequest(kinds), version)
            except ConnectionError:
                session.write(f"{kinds}, ListConfigResources v{version}", "closed")
                continue
            rows = [each for each in reply.config_resources if each.resource_name in own]
            reply.config_resources = sorted(rows, key=lambda each: (each.resource_type, each.resource_name))
            session.write(f"{kinds}, ListConfigResources v{version}", session.names.plain(reply, version))
