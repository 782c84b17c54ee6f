"""Options that several commands share, and what their values mean."""

import re
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def confirm(question: str, yes: bool) -> None:
    """Ask before something is gone for good; without a terminal to ask at, only --yes lets it be done."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question.rstrip('?')}: there is nobody to ask, so give --yes to do it.")
    click.confirm(question, abort=True, err=True)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


class _Kinds(click.Choice[str]):
    """Names them as they are written; click does so in small letters."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(self.choices)}."


def choices_option(name: str, choices: Iterable[str], help: str) -> Callable[[F], F]:  # noqa: A002
    """An option like `--state` that takes some of what Kafka knows, however its letters are written."""
    kinds = _Kinds(tuple(choices), case_sensitive=False)
    metavar = name.removeprefix("--").upper()
    parameter = f"{name.removeprefix('--')}s"
    return click.option(name, parameter, multiple=True, type=kinds, metavar=metavar, help=help)


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


def parse_uuid(text: str, option: str) -> str:
    """The text as it is; a wrong use of the option where it is no id."""
    from headrace.base.ids import uuid_bytes

    try:
        uuid_bytes(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint=f"'{option}'") from None
    return text


_SEPARATORS: Final = {"\\t": "\t", "\\n": "\n", "\\0": "\0", "\\\\": "\\"}


def unescaped(text: str) -> str:
    """`\\t` and the like as the character they stand for, since shells make it hard to type them."""
    return re.sub(r"\\[tn0\\]", lambda match: _SEPARATORS[match[0]], text)


def parse_time(text: str, option: str = "--timestamp") -> int:
    """Milliseconds since the epoch, from such a number or from ISO 8601."""
    if text.isdecimal():
        return int(text)
    try:
        # Requests name places by times below 0, and no record is older than the epoch.
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError:
        message = (
            "it is neither milliseconds nor ISO 8601, as 2026-01-31T12:00:00 or 2026-01-31T12:00:00+01:00."
        )
        raise click.BadParameter(message, param_hint=f"'{option}'") from None


_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def parse_duration_ms(text: str, option: str) -> int:
    """Milliseconds, from 500ms, 60s, 2m, 1h or 7d; a number alone is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|)", text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no duration, as 90s, 2m or 1h.", param_hint=f"'{option}'")
    return int(float(found[1]) * _UNITS_MS[found[2]])
