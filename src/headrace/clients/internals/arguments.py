"""What users give to clients, checked before anything is done with it: a wrong argument is said at once."""

from collections.abc import Iterable
from typing import Any

from headrace.base.ids import TopicPartition
from headrace.clients.errors import ClientError
from headrace.metadata.topic_names import name_fault


def names_of(given: str | Iterable[str]) -> list[str]:
    """Names; a text is one name, and not its letters."""
    return [given] if isinstance(given, str) else list(given)


def partitions_of(given: Any) -> list[TopicPartition]:
    """Partitions, also as pairs; TypeError where something is neither."""
    if isinstance(given, str | TopicPartition):
        raise TypeError(f"give a list of partitions, as [TopicPartition('orders', 0)], not {given!r}")
    found = []
    for each in given:
        if not isinstance(each, tuple) or len(each) != 2:
            raise TypeError(f"a partition has to be TopicPartition(topic, number), not {each!r}")
        found.append(TopicPartition(*each))
    return found


def check_topic(name: Any, advice: str = "") -> None:
    """ClientError for a name that no topic can have."""
    if not isinstance(name, str):
        raise TypeError(f"a topic's name has to be a str, not {name!r}")
    if (fault := name_fault(name)) is not None:
        raise ClientError(f"no topic can have this name: {fault}" + (f"; {advice}" if advice else ""))
