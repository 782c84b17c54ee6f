"""Building the text of a generated function: its indented lines and the names they use.

Both generators write through `Source`; `compile_function` turns the text into a function whose globals are
only what it names. Tracebacks show the generated lines.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final

_STRUCTS: Final[dict[str, Struct]] = {}


def struct_of(codes: str) -> Struct:
    """The one `Struct` of a big-endian format: runs repeat across messages and versions."""
    found = _STRUCTS.get(codes)
    if found is None:
        found = _STRUCTS[codes] = Struct(">" + codes)
    return found


class Source:
    """Lines of Python under construction, and the globals they will run with."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.names = dict(names)
        self._depth = 0
        self._serial = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """An indented block; one that stays empty becomes `pass`."""
        self.add(opening)
        self._depth += 1
        size = len(self.lines)
        yield
        if len(self.lines) == size:
            self.add("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A local name that nothing else in this function has."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def constant(self, stem: str, value: Any) -> str:
        """A global name for a value."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def packer(self, codes: str) -> str:
        return self._shared(f"pack_{codes.replace('?', 'o')}", struct_of(codes).pack)

    def unpacker(self, codes: str) -> str:
        return self._shared(f"unpack_{codes.replace('?', 'o')}", struct_of(codes).unpack_from)

    def _shared(self, name: str, value: Any) -> str:
        self.names[name] = value
        return name


def compile_function(source: Source, name: str, title: str) -> Callable[..., Any]:
    """The function `name` of a finished source; `title` is its file in tracebacks."""
    text = "\n".join(source.lines) + "\n"
    file = f"<headrace codec: {title}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = source.names
    exec(compile(text, file, "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function
