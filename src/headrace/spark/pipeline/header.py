"""The head of a pipeline's file: comment lines before the query.

A line is `name: value` or `name argument: value`, in lower case; lines that are indented by two more belong
to the one above. A comment that begins with a capital letter is for people. A value may have ${NAME}, which
is replaced by what the command was given for it, or by the environment. Nothing here knows what names mean.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.spark.pipeline.errors import PipelineError

_MARKS: Final = {".sql": "--", ".py": "#"}
_LINE: Final = re.compile(
    r"(?P<indent>\s*)(?P<name>[a-z]+(?: [a-z]+)?)(?: (?P<argument>[^\s:]+))?\s*:\s*(?P<value>.*)"
)
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_INDENTED: Final = 2  # from how many blanks on a line belongs to the one above


@dataclass(slots=True)
class HeaderEntry:
    """A line of the head, with those that belong to it."""

    line: int
    name: str
    argument: str | None
    value: str
    details: "list[HeaderEntry]" = field(default_factory=list)

    @property
    def label(self) -> str:
        return self.name if self.argument is None else f"{self.name} {self.argument}"


@dataclass(frozen=True, slots=True)
class Header:
    """All entries, and what follows them."""

    path: str
    entries: tuple[HeaderEntry, ...]
    text: str
    """The whole file: what follows the head keeps its line numbers."""
    body_line: int
    """The first line behind the head."""

    def error(self, line: int | None, what: str) -> PipelineError:
        return PipelineError(self.path, line, what)


def read_header(path: str, text: str, names: Sequence[str], variables: Mapping[str, str]) -> Header:
    """The head of a file; `names` are those that an entry can have, to tell arguments from names."""
    suffix = path[path.rfind(".") :]
    if suffix not in _MARKS:
        raise PipelineError(
            path, None, "a pipeline's file is SQL or Python: its name must end with .sql or .py"
        )
    mark = _MARKS[suffix]
    entries: list[HeaderEntry] = []
    number = 0
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped:
            continue
        if not stripped.startswith(mark):
            break
        _take(path, number, stripped.removeprefix(mark), entries, names, variables)
    else:
        number = len(lines) + 1
    return Header(path, tuple(entries), text, number)


def _take(
    path: str,
    number: int,
    comment: str,
    entries: list[HeaderEntry],
    names: Sequence[str],
    variables: Mapping[str, str],
) -> None:
    match = _LINE.fullmatch(comment)
    if match is None:
        if comment.strip()[:1].islower() and ":" in comment.split(" ")[-1]:
            raise PipelineError(path, number, f"{comment.strip()!r} has no value behind its colon")
        return
    name, argument = _split(match["name"], match["argument"], names)
    value = _filled(path, number, match["value"].strip(), variables)
    entry = HeaderEntry(number, name, argument, value)
    if len(match["indent"]) < _INDENTED:
        entries.append(entry)
    elif entries:
        entries[-1].details.append(entry)
    else:
        raise PipelineError(
            path, number, f"{entry.label!r} is indented but there is no line that it belongs to"
        )


def _split(name: str, argument: str | None, names: Sequence[str]) -> tuple[str, str | None]:
    """`in logs` is a name and an argument, `dead letters` one name."""
    if name in names or argument is not None or " " not in name:
        return name, argument
    first, _, second = name.partition(" ")
    return first, second


def _filled(path: str, number: int, value: str, variables: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise PipelineError(
                path,
                number,
                f"${{{match[1]}}} is not given: set it with --set {match[1]}=… or in the environment",
            )
        return variables[match[1]]

    return _VARIABLE.sub(fill, value)
