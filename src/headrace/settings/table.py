"""Settings written as a text that a person can read, two lines for each, and the reader of that text.

    log.retention.hours  int 168  high
        Hours that a segment is kept after its last record; log.retention.ms and .minutes go before it.

The first line is: name, kind, default, then any of these words in any order.
    null required ""     as default: none, must be given, the empty text or list
    high low             importance (medium where not said)
    cluster-wide per-broker   a running broker takes a new value
    1..  0..1  -1|1..9   bounds of a number; a number before the bar is allowed besides
    {a,b,c}  any-case    the words allowed
    filled               a text or list that may not be empty
    addresses voters throttled offset-reset   forms of values (see checks.py)
    internal             not shown to clients
    < name name*1000     broker settings that stand in for this one, first choice first, with their factor
The second line says what it does and in which unit. A third, "No effect: …", says why it is only taken.
"""

import re
from collections.abc import Iterator
from typing import Final

from headrace.settings.checks import (
    ADDRESSES,
    NOT_EMPTY,
    OFFSET_RESET,
    THROTTLED,
    VOTERS,
    Between,
    Items,
    OneOf,
)
from headrace.settings.definition import (
    NO_DEFAULT,
    Check,
    Importance,
    Kind,
    NoDefault,
    Setting,
    Synonym,
    Update,
    Value,
    parse,
)

_NO_EFFECT: Final = "No effect: "
_BOUNDS: Final = re.compile(r"(?:(-?\d+)\|)?(-?[\d.]*\d)\.\.(-?[\d.]*\d)?")
_FORMS: Final[dict[str, Check]] = {
    "addresses": ADDRESSES,
    "offset-reset": OFFSET_RESET,
    "throttled": THROTTLED,
    "voters": VOTERS,
}
_IMPORTANCE: Final = {"high": Importance.HIGH, "low": Importance.LOW}
_UPDATE: Final = {"cluster-wide": Update.CLUSTER_WIDE, "per-broker": Update.PER_BROKER}


def read_table(text: str) -> dict[str, Setting]:
    """The settings of a table text, by name."""
    settings: dict[str, Setting] = {}
    for facts, doc, effect in _entries(text):
        setting = _setting(facts, doc, effect)
        assert setting.name not in settings, f"{setting.name} is defined twice"
        settings[setting.name] = setting
    return settings


def joined(*tables: dict[str, Setting]) -> dict[str, Setting]:
    """Several tables as one, in the order of names."""
    entries = [entry for table in tables for entry in table.items()]
    whole = dict(sorted(entries))
    assert len(whole) == len(entries), "a setting is in two tables"
    return whole


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    starts = [at for at, line in enumerate(lines) if not line.startswith(" ")]
    for at, following in zip(starts, [*starts[1:], len(lines)], strict=True):
        doc, *effects = (line.strip() for line in lines[at + 1 : following])
        yield lines[at], doc, " ".join(effects).removeprefix(_NO_EFFECT)


def _setting(facts: str, doc: str, effect: str) -> Setting:
    described, _, stand_ins = facts.partition(" < ")
    name, kind_word, default_word, *words = described.split()
    kind = Kind(kind_word)
    importance, update = Importance.MEDIUM, Update.READ_ONLY
    for word in words:
        importance = _IMPORTANCE.get(word, importance)
        update = _UPDATE.get(word, update)
    return Setting(
        name=name,
        kind=kind,
        default=_default(kind, default_word),
        doc=doc,
        importance=importance,
        check=_check(kind, words),
        update=update,
        sensitive=kind is Kind.PASSWORD,
        synonyms=tuple(_synonym(word) for word in stand_ins.split()),
        effect=effect,
        internal="internal" in words,
    )


def _default(kind: Kind, word: str) -> Value | NoDefault:
    if word == "required":
        return NO_DEFAULT
    if word == "null":
        return None
    return parse(Setting("default", kind, None, ""), "" if word == '""' else word)


def _check(kind: Kind, words: list[str]) -> Check | None:
    for word in words:
        if word in _FORMS:
            return _FORMS[word]
        if word.startswith("{"):
            choices = tuple(word.strip("{}").split(","))
            return (
                Items(choices, "filled" not in words)
                if kind is Kind.LIST
                else OneOf(choices, "any-case" in words)
            )
        if bounds := _BOUNDS.fullmatch(word):
            besides, least, most = bounds.groups()
            return Between(_number(least), _number(most) if most else None, int(besides) if besides else None)
    if kind is Kind.LIST:
        return Items(may_be_empty="filled" not in words)
    return NOT_EMPTY if "filled" in words else None


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _synonym(word: str) -> Synonym:
    name, _, factor = word.partition("*")
    return Synonym(name, int(factor or 1))
