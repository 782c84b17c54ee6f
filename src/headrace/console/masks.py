"""Hides values in records from people: by topic, field of the document, header, or whole keys.

    mask.cards.topics=payments\\..*
    mask.cards.fields=card.number, **.iban
    mask.cards.headers=authorization
    mask.cards.keys=true
    mask.cards.unless=alice, bob

A path has names and numbers; `*` is any one step, `**` any number of them. What a rule hides cannot be
found by searching either: filters see what people see. A value that cannot be read as a document is hidden
whole where a rule has fields of it, because nobody could say where they are.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.settings.definition import SettingError

HIDDEN: Final = "•••"
PREFIX: Final = "mask."
_PARTS: Final = ("topics", "fields", "headers", "keys", "unless")
_STEP: Final = re.compile(r"\[(\d+|\*)\]|\.?([^.\[\]]+)")
_ONE, _ANY = "*", "**"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MaskRule:
    """One rule; see above."""

    topics: re.Pattern[str]
    fields: tuple[Path, ...] = ()
    headers: frozenset[str] = frozenset()
    keys: bool = False
    unless: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TopicMask:
    """What one person does not see in one topic's records."""

    fields: tuple[Path, ...]
    headers: frozenset[str]
    keys: bool

    def of_document(self, document: Any) -> Any:
        """The document without what is hidden; what it was made of is left as it is."""
        return _masked(document, self.fields)


def mask_for(rules: Iterable[MaskRule], topic: str, user: str) -> TopicMask | None:
    """None where this person sees all of this topic."""
    own = [each for each in rules if each.topics.fullmatch(topic) and user not in each.unless]
    if not own:
        return None
    fields = tuple(path for each in own for path in each.fields)
    headers = frozenset(name for each in own for name in each.headers)
    return TopicMask(fields, headers, any(each.keys for each in own))


def read_rules(settings: Mapping[str, str]) -> tuple[MaskRule, ...]:
    """The rules of the settings that begin with `mask.`; SettingError where one is wrong."""
    named: dict[str, dict[str, str]] = {}
    for setting, value in settings.items():
        name, _, part = setting.removeprefix(PREFIX).rpartition(".")
        if not name or part not in _PARTS:
            raise SettingError(setting, f"a rule is mask.NAME.{', mask.NAME.'.join(_PARTS)}")
        named.setdefault(name, {})[part] = value
    return tuple(_rule(name, parts) for name, parts in named.items())


def _rule(name: str, parts: Mapping[str, str]) -> MaskRule:
    setting = f"{PREFIX}{name}.topics"
    if not parts.get("topics"):
        raise SettingError(setting, "a rule needs the topics that it is for, as a regular expression")
    try:
        topics = re.compile(parts["topics"])
    except re.error as error:
        raise SettingError(setting, f"{parts['topics']!r} is no regular expression: {error}") from None
    keys = parts.get("keys", "false").strip().lower()
    if keys not in ("true", "false"):
        raise SettingError(f"{PREFIX}{name}.keys", f"{keys!r} is neither true nor false")
    fields = tuple(_path(name, each) for each in _listed(parts.get("fields", "")))
    headers = frozenset(_listed(parts.get("headers", "")))
    if not (fields or headers or keys == "true"):
        raise SettingError(setting, f"mask.{name} hides nothing: give fields, headers or keys=true")
    return MaskRule(topics, fields, headers, keys == "true", frozenset(_listed(parts.get("unless", ""))))


def _listed(text: str) -> list[str]:
    return [each for part in text.split(",") if (each := part.strip())]


def _path(name: str, text: str) -> Path:
    steps: list[str] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise SettingError(f"{PREFIX}{name}.fields", f"{text!r} is no path: give one as in card.number")
        steps.append(found[1] or found[2])
        at = found.end()
    return tuple(steps)


def _masked(value: Any, paths: tuple[Path, ...]) -> Any:
    """Paths that go on below each step; an empty one is at its end."""
    paths = tuple({each for path in paths for each in _with_none_taken(path)})
    if () in paths:
        return None if value is None else HIDDEN
    if not paths:
        return value
    if isinstance(value, dict):
        return {name: _masked(each, _below(paths, str(name))) for name, each in value.items()}
    if isinstance(value, list):
        # A path may leave out that there is a list on the way.
        return [_masked(each, (*paths, *_below(paths, str(at)))) for at, each in enumerate(value)]
    return value


def _with_none_taken(path: Path) -> list[Path]:
    """`**` may be no step at all."""
    found = [path]
    while path and path[0] == _ANY:
        path = path[1:]
        found.append(path)
    return found


def _below(paths: tuple[Path, ...], step: str) -> tuple[Path, ...]:
    return tuple(
        each if each[0] == _ANY else each[1:] for each in paths if each and each[0] in (_ANY, _ONE, step)
    )
