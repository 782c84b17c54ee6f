"""Java's .properties, the form of Kafka's configuration: escapes, continued lines, three separators."""

import re
from collections.abc import Iterator
from typing import Final

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# A name ends at the first separator that no backslash protects: blanks, or one = or : among blanks.
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of a .properties text; the last of several values of one name counts."""
    entries = {}
    for line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, "every line has a name, if an empty one"
        entries[_unescaped(entry[1])] = _unescaped(entry[2])
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, each joined with those that continue it."""
    held = ""
    continued = False
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        # An odd number of backslashes at the end escapes the line's end.
        continued = slashes % 2 == 1
        held += line[:-1] if continued else line
        if not continued:
            yield held
            held = ""
    if held:
        yield held


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text) if "\\" in text else text


def _escaped_character(match: re.Match[str]) -> str:
    code, letter = match.groups()
    if code:
        return chr(int(code, 16))
    return _NAMED.get(letter, letter) if letter else ""
