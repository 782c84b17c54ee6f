"""Patterns for topics' names in Java's syntax, as `subscribePattern` has it in Spark's Kafka connector.

A pattern that is valid in both languages and means different topics would be a wrong answer that nobody
sees. So it is read here: what Python writes in another way is written so, and what only one of the two knows,
or both with different meanings, is refused by name. Names of topics have only letters, digits, `.`, `_` and
`-`, so what differs in other characters alone does not matter.
"""

import re
from typing import Final

from headrace.spark.option_values import OptionError

# POSIX classes in Java's words, as they are in ASCII: no other letters are in a topic's name.
_CLASSES: Final = {
    "lower": "a-z",
    "upper": "A-Z",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "l": "a-zA-Z",
    "ll": "a-z",
    "lu": "A-Z",
    "n": "0-9",
    "nd": "0-9",
    "isalphabetic": "a-zA-Z",
    "isdigit": "0-9",
    "isletter": "a-zA-Z",
    "islowercase": "a-z",
    "isuppercase": "A-Z",
    "ascii": r"\x00-\x7f",
    "punct": r"!-/:-@\[-`{-~",
}
# Escapes that mean the same in both for the characters of a name.
_SAME: Final = frozenset("dDwWsSbBAtnrfa")
_GROUPS: Final = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>")


def java_pattern(pattern: str) -> "re.Pattern[str]":
    """A pattern for `fullmatch`; OptionError for what is no pattern, or none that both languages share."""
    text = _Translation(pattern).run()
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError) as error:
        raise OptionError(f"option subscribePattern: {pattern!r} is no pattern: {error}") from None


def _is_same(sign: str, in_class: bool) -> bool:
    """Whether an escape means the same in both: a kind of character, or an earlier group by its number."""
    if in_class:
        return sign in _SAME and sign not in "bBA"
    return sign in _SAME or sign in "123456789"


class _Translation:
    """Goes through a pattern once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []

    def run(self) -> str:
        while self._at < len(self._pattern):
            rest = self._pattern[self._at :]
            if rest.startswith("\\"):
                self._escape(in_class=False)
            elif rest.startswith("["):
                self._class()
            elif rest.startswith("(?"):
                self._group(rest)
            elif rest[0] == "{" and not re.match(r"\{\d+(,\d*)?\}", rest):
                raise self._refuse(
                    "a { that begins no count", "write {2}, {2,} or {2,5}, or \\{ for the sign"
                )
            else:
                self._take(rest[0])
        return "".join(self._out)

    def _take(self, written: str, read: int | None = None) -> None:
        self._out.append(written)
        self._at += len(written) if read is None else read

    def _refuse(self, what: str, instead: str) -> OptionError:
        return OptionError(
            f"option subscribePattern: {self._pattern!r} has {what}, which is not taken here: {instead}"
        )

    def _group(self, rest: str) -> None:
        if named := re.match(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", rest):
            self._take(f"(?P<{named[1]}>", named.end())
        elif rest.startswith("(?i)") and self._at == 0:
            self._take("(?i)")
        elif opening := next((each for each in _GROUPS if rest.startswith(each)), None):
            self._take(opening)
        else:
            raise self._refuse(repr(rest[:3]), "use plain groups, and (?i) only at the start")

    def _escape(self, *, in_class: bool) -> None:
        rest = self._pattern[self._at :]
        sign = rest[1:2]
        if not sign:
            raise self._refuse("a backslash at its end", "write \\\\ for a backslash")
        if sign == "Q":
            end = rest.find("\\E")
            quoted = rest[2:] if end < 0 else rest[2:end]
            self._take(re.escape(quoted), len(rest) if end < 0 else end + 2)
        elif sign in "pP":
            self._property(rest, in_class)
        elif sign in "zZ" and not in_class:
            self._take(r"\Z", 2)
        elif (back := re.match(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>", rest)) and not in_class:
            self._take(f"(?P={back[1]})", back.end())
        elif sign.isalnum() and not _is_same(sign, in_class):
            raise self._refuse(f"\\{sign}", "write out what is meant")
        else:
            self._take(rest[:2])

    def _property(self, rest: str, in_class: bool) -> None:
        found = re.match(r"\\([pP])(?:\{(\w+)\}|([A-Z]))", rest)
        members = None if found is None else _CLASSES.get((found[2] or found[3]).lower())
        if found is None or members is None or (in_class and found[1] == "P"):
            raise self._refuse(rest.partition("}")[0] + "}", "write a class such as [a-z]")
        if in_class:
            self._take(members, found.end())
        else:
            self._take(f"[{'^' if found[1] == 'P' else ''}{members}]", found.end())

    def _class(self) -> None:
        opening = "[^" if self._pattern.startswith("[^", self._at) else "["
        self._take(opening)
        if self._pattern.startswith("]", self._at):
            raise self._refuse(f"{opening}]", "write \\] for a bracket")
        while self._at < len(self._pattern):
            rest = self._pattern[self._at :]
            if rest[0] == "]":
                self._take("]")
                return
            if rest[0] == "[" or rest.startswith(("&&", "--")):
                raise self._refuse(f"{rest[:2]!r} in a class", "unions and intersections: write one class")
            if rest[0] == "\\":
                self._escape(in_class=True)
            elif rest[0] in "|~":  # doubled, they may mean something to a later Python
                self._take("\\" + rest[0], 1)
            else:
                self._take(rest[0])
        raise self._refuse("a class without its end", "write ] behind it")
