"""Settings of topics, brokers and groups, each with what it means, and changing them."""

from typing import Any, Final

from headrace.clients import ConfigEntry
from headrace.console.visit import Visit, names_in, texts_of
from headrace.settings.topic import TOPIC

_SOURCES: Final = {
    1: "this topic",
    2: "this broker",
    3: "all brokers",
    4: "the broker's file",
    5: "default",
    8: "this group",
}
_OF_TOPIC: Final = (1,)
_OF_BROKER: Final = (2, 3)
_OF_GROUP: Final = (8,)


async def topic_configs(visit: Visit) -> Any:
    entries = await visit.admin.describe_configs("topic", visit.arguments["topic"], docs=True)
    return {"configs": [config_json(each, _OF_TOPIC) for each in entries]}


async def broker_configs(visit: Visit) -> Any:
    entries = await visit.admin.describe_configs("broker", visit.arguments["broker"], docs=True)
    return {"configs": [config_json(each, _OF_BROKER) for each in entries]}


async def group_configs(visit: Visit) -> Any:
    entries = await visit.admin.describe_configs("group", visit.arguments["group"], docs=True)
    return {"configs": [config_json(each, _OF_GROUP) for each in entries]}


async def alter_topic_configs(visit: Visit) -> Any:
    await _alter(visit, "topic", visit.arguments["topic"])
    visit.watch.changed()
    return await topic_configs(visit)


async def alter_broker_configs(visit: Visit) -> Any:
    """What a broker can change while it runs; with `for_all`, of all that have no value of their own."""
    for_all = visit.request.json().get("for_all") is True
    visit.details["for_all"] = for_all
    # Kafka's name for all brokers is the empty one.
    await _alter(visit, "broker", "" if for_all else visit.arguments["broker"])
    return await broker_configs(visit)


async def alter_group_configs(visit: Visit) -> Any:
    """Of a group, whether or not it has members yet."""
    await _alter(visit, "group", visit.arguments["group"])
    return await group_configs(visit)


async def _alter(visit: Visit, kind: str, name: str) -> None:
    body = visit.request.json()
    set_to, delete = texts_of(body, "set"), names_in(body, "delete")
    visit.details |= {"set": sorted(set_to), "delete": delete}
    await visit.admin.alter_configs(kind, name, set_to=set_to, delete=delete)


def config_json(entry: ConfigEntry, own: tuple[int, ...]) -> dict[str, Any]:
    """A setting as a row of a table, with what it means. Values that are secret never come here."""
    known = TOPIC.get(entry.name)
    return {
        "name": entry.name,
        "value": None if entry.sensitive else entry.value,
        "source": _SOURCES.get(entry.source, "elsewhere"),
        "is_own": entry.source in own,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "doc": entry.doc or (known.doc if known is not None else ""),
    }
