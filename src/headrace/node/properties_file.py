"""A file in Java's .properties form, as server.properties is: names and values, and where they stand.

Of a file that was written for some Kafka, a name which no broker setting has is left out with a warning, and
so is said of a name that has no effect any more: other releases and vendors have settings of their own, and
Kafka does not stop for them either. The warning names the line and the setting that was probably meant.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headrace.settings.broker import BROKER
from headrace.settings.broker_config import PLUGIN_PREFIXES, broker_setting
from headrace.settings.definition import SettingError
from headrace.settings.names import is_leftover, is_plugin_setting, why_left_over

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# A name ends at the first separator that no backslash protects: blanks, or one = or : among blanks.
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)

# Names of other vendors resemble ours in part; a slip of the pen resembles one nearly whole.
_ALIKE: Final = 0.8


class Entry(NamedTuple):
    """A value, and the number of the line that it begins on."""

    value: str
    line: int


class Strange(NamedTuple):
    """A name that has no effect, and why."""

    name: str
    reason: str


class PropertiesFile:
    """What a file says. `path` is empty, and so is the rest, where there is no file."""

    def __init__(self, path: str = "", text: str = "") -> None:
        self.path = path
        self.entries = parse_properties(text)

    def place(self, name: str) -> str:
        """FILE:LINE of a name; only FILE where the name is not in it."""
        entry = self.entries.get(name)
        return self.path if entry is None else f"{self.path}:{entry.line}"

    def strange(self) -> list[Strange]:
        """What has no effect, in the order of the file."""
        return [Strange(name, reason) for name in self.entries if (reason := self._why_strange(name))]

    def broker_settings(self) -> dict[str, str]:
        """Without the names that no broker setting has."""
        return {name: entry.value for name, entry in self.entries.items() if self._is_taken(name)}

    def _is_taken(self, name: str) -> bool:
        own_prefixes = tuple(self.entries[each].value for each in PLUGIN_PREFIXES if each in self.entries)
        return (
            broker_setting(name) is not None
            or is_leftover(name)
            or is_plugin_setting(name)
            or name.startswith(tuple(filter(None, own_prefixes)))
        )

    def _why_strange(self, name: str) -> str:
        if is_leftover(name):
            return f"it has no effect: {why_left_over(name)}"
        return "" if self._is_taken(name) else f"it has no effect: {_unknown(name, BROKER)}"


def open_properties(path: str) -> PropertiesFile:
    """OSError where it cannot be read."""
    with open(path, encoding="utf-8") as file:
        return PropertiesFile(path, file.read())


def warnings(file: PropertiesFile, *, strict: bool = False) -> list[str]:
    """What to tell of a file before its settings are used; SettingError where that is not allowed."""
    found = [f"{file.place(name)}: {name}: {reason}" for name, reason in file.strange()]
    if strict and found:
        raise SettingError("--strict", "\n  ".join(["there are settings without effect", *found]))
    return found


def _unknown(name: str, known: Iterable[str]) -> str:
    import difflib  # only needed once something is wrong, and not cheap to import

    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=_ALIKE)
    hint = f"; did you mean {nearest[0]}?" if nearest else "."
    return f"there is no broker setting of this name{hint}"


def parse_properties(text: str) -> dict[str, Entry]:
    """Names and values: escapes, continued lines, three separators; the last of several values of one name
    counts."""
    entries = {}
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, "every line has a name, if an empty one"
        entries[_unescaped(entry[1])] = Entry(_unescaped(entry[2]), number)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, each joined with those that continue it, by their numbers."""
    held = ""
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not first and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        first = first or number
        # An odd number of backslashes at the end escapes the line's end.
        if slashes % 2:
            held += line[:-1]
            continue
        yield first, held + line
        held, first = "", 0
    if held:
        yield first, held


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text) if "\\" in text else text


def _escaped_character(match: re.Match[str]) -> str:
    code, letter = match.groups()
    if code:
        return chr(int(code, 16))
    return _NAMED.get(letter, letter) if letter else ""
