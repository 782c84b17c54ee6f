"""Options that several commands share, and what their values mean."""

import re
from collections.abc import Iterable
from typing import Final

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def examples(*lines: str) -> str:
    """An epilog of examples, kept as it is written."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def parse_pairs(option: str, items: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE items as a mapping; a wrong use of the option where one is none."""
    pairs = {}
    for item in items:
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{item!r} is not NAME=VALUE.", param_hint=f"'{option}'")
        pairs[name.strip()] = value
    return pairs


_SEPARATORS: Final = {"\\t": "\t", "\\n": "\n", "\\0": "\0", "\\\\": "\\"}


def unescaped(text: str) -> str:
    """`\\t` and the like as the character they stand for, since shells make it hard to type them."""
    return re.sub(r"\\[tn0\\]", lambda match: _SEPARATORS[match[0]], text)
