"""Writes docs/reference/api.md from docstrings: `python tools/api_docs.py [--check]`.

Everything that `headrace` exports is there, with signatures and docstrings. A sync client and its async one
share a section: what has to be awaited in the async one says so. `--check` writes nothing and fails where the
file is not what the code says.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

import headrace

PATH: Final = Path(__file__).resolve().parents[1] / "docs/reference/api.md"
WIDTH: Final = 100
HEAD: Final = """\
# The Python API

<!-- Written by tools/api_docs.py from the docstrings under src/headrace/clients. -->

Everything here is imported from `headrace`: `from headrace import Producer, Consumer, Admin, TopicPartition`.
[Our clients](../clients.md) shows how they are used, [Configuration](../configuration.md) has their settings.
"""
CLIENTS: Final = (
    ("Producer", "AsyncProducer"),
    ("Consumer", "AsyncConsumer"),
    ("ShareConsumer", "AsyncShareConsumer"),
    ("Admin", "AsyncAdmin"),
)
# The sections after the clients, each with the modules of what belongs there.
SECTIONS: Final = (
    ("Beside the clients", ("headrace.clients.producer", "headrace.clients.processor")),
    ("Producing", ("headrace.clients.internals.producer",)),
    (
        "Consuming and offsets",
        ("headrace.base.ids", "headrace.clients.offsets", "headrace.clients.internals.consumer"),
    ),
    ("Share groups", ("headrace.clients.internals.share", "headrace.wire.schemas.share_fetch")),
    ("What Admin takes and returns", ("headrace.clients.internals.admin",)),
    ("Errors", ("headrace.clients.errors", "headrace.settings", "headrace.base.error_codes")),
)
# Classes beside the clients that users make objects of.
CONSTRUCTED: Final = ("Processor",)
_AWAITED: Final = "*Awaited in `{}`.*"
_ONLY: Final = "*Only in `{}`.*"


def page() -> str:
    """The whole page."""
    clients = {name for pair in CLIENTS for name in pair}
    others = [name for name in headrace.__all__ if name not in clients and not name.startswith("_")]
    parts = [HEAD, *(_clients(*pair) for pair in CLIENTS)]
    for title, modules in SECTIONS:
        belonging = [name for name in others if getattr(headrace, name).__module__.startswith(modules)]
        others = [name for name in others if name not in belonging]
        parts += [f"## {title}\n", *(_class(name) for name in belonging)]
    assert not others, f"no section for {others}"
    return "\n".join(parts)


def _clients(sync_name: str, async_name: str) -> str:
    """A sync client and its async one."""
    sync, other = getattr(headrace, sync_name), getattr(headrace, async_name)
    parts = [f"## {sync_name}, {async_name}\n", f"{_doc(sys.modules[sync.__module__])}\n"]
    for kind in (sync, other):
        parts += [f"### class {kind.__name__}\n", _code(_signature(kind.__name__, kind.__init__, "class"))]
        parts += [f"{_doc(kind)}\n"]
    parts.append(f"### Methods of {sync_name} and {async_name}\n")
    names = [*_members(sync), *(name for name in _members(other) if name not in vars(sync))]
    for name in names:
        mine, its = vars(sync).get(name), vars(other).get(name)
        notes = []
        if mine is None or its is None:
            notes = [_ONLY.format(async_name if mine is None else sync_name)]
        elif inspect.iscoroutinefunction(its):
            notes = [_AWAITED.format(async_name)]
        parts.append(_member(name, its if mine is None else mine, *notes))
    return "\n".join(parts)


def _class(name: str) -> str:
    kind = getattr(headrace, name)
    parts = [f"### {name}\n", f"{_doc(kind)}\n"]
    if name in CONSTRUCTED:
        parts.insert(1, _code(_signature(name, kind.__init__, "class")))
    if issubclass(kind, Enum):
        if len(kind) < 20:
            parts.append(_code("\n".join(f"{each.name} = {each.value}" for each in kind)))
    elif issubclass(kind, tuple):
        fields = {each: inspect.get_annotations(kind)[each] for each in kind._fields}
        defaults = kind._field_defaults
        parts.append(
            _code(
                "\n".join(
                    f"{each}: {_type(of)}" + (f" = {_value(defaults[each])}" if each in defaults else "")
                    for each, of in fields.items()
                )
            )
        )
    elif issubclass(kind, Exception):
        parts.insert(1, f"A `{kind.__bases__[0].__name__}`.\n")
        return "\n".join(parts)
    return "\n".join([*parts, *(_member(each, vars(kind)[each]) for each in _members(kind))])


def _members(kind: type) -> Iterator[str]:
    """Public methods and properties that a class itself defines, in the order in which it does."""
    hidden = set(getattr(kind, "_fields", ()))
    for name, each in vars(kind).items():
        is_shown = inspect.isfunction(each) or isinstance(each, property | classmethod)
        if is_shown and not name.startswith("_") and name not in hidden and not issubclass(kind, Enum):
            yield name


def _member(name: str, member: Any, *notes: str) -> str:
    if isinstance(member, property):
        shown = f"{name}: {_type(inspect.signature(member.fget).return_annotation)}"
        notes = ("*A property.*", *notes)
        member = member.fget
    else:
        member = getattr(member, "__func__", member)
        shown = _signature(name, member, "def")
    return "\n".join([f"#### {name}\n", _code(shown), f"{' '.join([*notes, _doc(member)])}\n"])


def _signature(name: str, function: Any, keyword: str) -> str:
    """How it is called, on one line where that fits, without `self` and what only tests hand in."""
    signature = inspect.signature(function)
    shown = [
        each for each in signature.parameters.values() if each.name not in ("self", "cls", "environment")
    ]
    texts = []
    for index, each in enumerate(shown):
        is_first_keyword = each.kind is inspect.Parameter.KEYWORD_ONLY and not any(
            before.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
            for before in shown[:index]
        )
        texts += (["*"] if is_first_keyword else []) + [_parameter(each)]
    returns = "" if keyword == "class" else f" -> {_type(signature.return_annotation)}"
    line = f"{keyword} {name}({', '.join(texts)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{keyword} {name}(\n" + "".join(f"    {each},\n" for each in texts) + f"){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = f"{stars.get(parameter.kind, '')}{parameter.name}: {_type(parameter.annotation)}"
    return text if parameter.default is inspect.Parameter.empty else f"{text} = {_value(parameter.default)}"


def _value(value: object) -> str:
    """A default as the house writes it: texts in double quotes."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _type(annotation: Any) -> str:
    """A type as a user would write it: without the modules that it comes from."""
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        return "None" if annotation is type(None) else annotation.__name__
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(annotation)).replace("NoneType", "None").replace("'", "")


def _doc(thing: Any) -> str:
    """A docstring, with its indented examples as code."""
    text = inspect.getdoc(thing) or ""
    return re.sub(r"(?:^|\n\n)((?: {4}.*(?:\n|$)|\n(?= {4}))+)", _example, text).strip()


def _example(found: re.Match[str]) -> str:
    return "\n\n" + _code(inspect.cleandoc("\n" + found.group(1)))


def _code(text: str) -> str:
    return f"```python\n{text.rstrip()}\n```\n"


def main() -> int:
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(wanted)
        return 0
    if PATH.exists() and PATH.read_text() == wanted:
        return 0
    print(f"{PATH.name} is not what the code says: run python tools/api_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
