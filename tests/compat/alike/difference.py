"""Two conversations compared: where two trees differ, by the path of each field."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.compat.alike.session import Answer

STUMBLES = "UNKNOWN_SERVER_ERROR"
"""Kafka's answer where a request made it throw what nobody expected: nothing more of it is compared."""


class Difference(NamedTuple):
    """One field of one answer: what Kafka said and what headrace says."""

    label: str
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.label}: {self.path or '(all)'}: Kafka {_brief(self.kafka)}, ours {_brief(self.ours)}"


def compare(kafka: Sequence[Answer], ours: Sequence[Answer]) -> Iterator[Difference]:
    """All fields that differ, answer by answer. A label that only one of both has is a difference too."""
    stumbled = False
    for there, here in zip(kafka, ours, strict=False):
        if there.label != here.label:  # conversations part after an answer that was not the same
            if not stumbled:
                yield Difference(there.label, "label", there.label, here.label)
            return
        if STUMBLES in json.dumps(there.content) and there.content != here.content:
            stumbled = True
            yield Difference(there.label, "(stumbles)", there.content, here.content)
            continue
        for path, theirs, mine in _walk("", there.content, here.content):
            yield Difference(there.label, path, theirs, mine)
    if len(kafka) != len(ours) and not stumbled:
        yield Difference("the end", "answers", len(kafka), len(ours))


def _walk(path: str, kafka: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if kafka == ours:
        return
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for name in kafka | ours:
            yield from _walk(f"{path}.{name}", kafka.get(name, "<default>"), ours.get(name, "<default>"))
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        there, here = [_key(each) for each in kafka], [_key(each) for each in ours]
        if there != here and sorted(there) == sorted(here):
            yield f"{path}(order)", there, here
            kafka, ours = sorted(kafka, key=_key), sorted(ours, key=_key)
        for number, (theirs, mine) in enumerate(zip(kafka, ours, strict=True)):
            yield from _walk(f"{path}[{number}]", theirs, mine)
    else:
        yield path, kafka, ours


def _key(item: Any) -> str:
    """What an item of a list is known by: the fields that name it."""
    if not isinstance(item, dict):
        return json.dumps(item)
    return " ".join(f"{item[field]}" for field in _NAMING if field in item)


_NAMING = (
    *("group_id", "name", "topic_name", "topic_id", "topic", "partition_index", "index", "partition"),
    *("key", "member_id", "transactional_id", "resource_type", "resource_name", "producer_id"),
)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else text[:300] + "…"
