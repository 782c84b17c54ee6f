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
    addresses voters throttled offset-reset   forms of values (below)
    internal             not shown to clients
    < name name*1000     broker settings that stand in for this one, first choice first, with their factor
The second line says what it does and in which unit. A third, "No effect: …", says why it is only taken.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.settings.definition import (
    NO_DEFAULT,
    Check,
    ConfigType,
    Importance,
    NoDefault,
    Setting,
    Synonym,
    Update,
    Value,
    parse,
)


class Between(NamedTuple):
    """A number within bounds; `or_value` is one number outside them that has a meaning of its own."""

    least: float
    most: float | None = None
    or_value: int | None = None

    @property
    def allowed(self) -> str:
        span = f"at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        return span if self.or_value is None else f"{span}, or {self.or_value}"

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, int | float), "only a number can be between numbers"
        inside = value >= self.least and (self.most is None or value <= self.most)
        return inside or value == self.or_value

    def fault(self, value: Value) -> str:
        assert isinstance(value, int | float)
        if value < self.least:
            return f"Value must be at least {self.least}"
        return f"Value must be no more than {self.most}"


class OneOf(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]
    any_case: bool = False

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, str), "only a text can be one of some words"
        return (value.lower() if self.any_case else value) in self.words

    def fault(self, value: Value) -> str:
        return f"String must be one of: {', '.join(self.words)}"


class Items(NamedTuple):
    """A list without empty items, of certain words where `words` is given."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    @property
    def allowed(self) -> str:
        what = (
            f"a list of different words out of {', '.join(self.words)}"
            if self.words
            else "a list without repeats"
        )
        return what if self.may_be_empty else f"{what}, with at least one item"

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, tuple), "only a list has items"
        if not value:
            return self.may_be_empty
        known = not self.words or all(item in self.words for item in value)
        return known and all(value)

    def fault(self, value: Value) -> str:
        return f"String must be one of: {', '.join(self.words)}" if self.words and value else ""


class EachLike(NamedTuple):
    """A list whose every item has a certain form, or that is `alone` as its only item."""

    form: re.Pattern[str]
    allowed: str
    alone: str = ""

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, tuple), "only a list has items"
        return value == (self.alone,) or all(self.form.fullmatch(item) for item in value)

    def fault(self, value: Value) -> str:
        return ""


class Like(NamedTuple):
    """A text of a certain form."""

    form: re.Pattern[str]
    allowed: str

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, str), "only a text has a form"
        return self.form.fullmatch(value) is not None

    def fault(self, value: Value) -> str:
        return ""


NOT_EMPTY: Final = Like(re.compile(r"(?s).+"), "a text that is not empty")
ADDRESSES: Final = EachLike(re.compile(r"\S+:[0-9]+"), "a list of HOST:PORT")
VOTERS: Final = EachLike(re.compile(r"[0-9]+@\S+:[0-9]+"), "a list of ID@HOST:PORT")
THROTTLED: Final = EachLike(
    re.compile(r"[0-9]+:[0-9]+"), "* for all replicas, or a list of PARTITION:BROKER, or empty for none", "*"
)
OFFSET_RESET: Final = Like(
    re.compile(r"latest|earliest|by_duration:P(?!$)([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9.]+S)?)?"),
    "latest, earliest or by_duration:PnDTnHnMn.nS",
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
    kind = ConfigType(kind_word)
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
        sensitive=kind is ConfigType.PASSWORD,
        synonyms=tuple(_synonym(word) for word in stand_ins.split()),
        effect=effect,
        internal="internal" in words,
    )


def _default(kind: ConfigType, word: str) -> Value | NoDefault:
    if word == "required":
        return NO_DEFAULT
    if word == "null":
        return None
    return parse(Setting("default", kind, None, ""), "" if word == '""' else word)


def _check(kind: ConfigType, words: list[str]) -> Check | None:
    for word in words:
        if word in _FORMS:
            return _FORMS[word]
        if word.startswith("{"):
            choices = tuple(word.strip("{}").split(","))
            return (
                Items(choices, "filled" not in words)
                if kind is ConfigType.LIST
                else OneOf(choices, "any-case" in words)
            )
        if bounds := _BOUNDS.fullmatch(word):
            besides, least, most = bounds.groups()
            return Between(_number(least), _number(most) if most else None, int(besides) if besides else None)
    if kind is ConfigType.LIST:
        return Items(may_be_empty="filled" not in words)
    return NOT_EMPTY if "filled" in words else None


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _synonym(word: str) -> Synonym:
    name, _, factor = word.partition("*")
    return Synonym(name, int(factor or 1))
