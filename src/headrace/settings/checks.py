"""What values may be: the checks that settings carry. Each says in words what it allows."""

import re
from typing import Final, NamedTuple

from headrace.settings.definition import Value


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


class EachLike(NamedTuple):
    """A list whose every item has a certain form, or that is `alone` as its only item."""

    form: re.Pattern[str]
    allowed: str
    alone: str = ""

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, tuple), "only a list has items"
        return value == (self.alone,) or all(self.form.fullmatch(item) for item in value)


class Like(NamedTuple):
    """A text of a certain form."""

    form: re.Pattern[str]
    allowed: str

    def accepts(self, value: Value) -> bool:
        assert isinstance(value, str), "only a text has a form"
        return self.form.fullmatch(value) is not None


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
