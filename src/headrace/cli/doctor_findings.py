"""What `headrace doctor` finds, and how it looks: at most 80 columns, what is worst first."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

import click

WIDTH: Final = 80
_MARGIN: Final = " " * 9
_COLOURS: Final = {"error": "red", "warning": "yellow"}

Level = Literal["error", "warning"]


class Finding(NamedTuple):
    """Something that is wrong: where, what, and what to do about it."""

    level: Level
    where: str
    what: str
    advice: str


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: (each.level != "error", each.where))


def print_findings(findings: list[Finding], looked_at: str) -> None:
    """Each finding with its advice, then one line for all."""
    for each in findings:
        for number, line in enumerate(_lines(each)):
            if number == 0:
                label = click.style(each.level.ljust(len(_MARGIN)), fg=_COLOURS[each.level], bold=True)
                line = f"{label}{line[len(_MARGIN) :]}"
            click.echo(line)
    errors = sum(each.level == "error" for each in findings)
    counts = f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}"
    last = f"{looked_at}: {counts if findings else 'nothing is wrong'}"
    for line in textwrap.wrap(last, WIDTH, break_long_words=False, break_on_hyphens=False):
        click.echo(line)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _lines(finding: Finding) -> Iterator[str]:
    for text in (f"{finding.where}: {finding.what}", f"-> {finding.advice}"):
        # A path is never cut: it is to be copied.
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=_MARGIN,
            subsequent_indent=_MARGIN,
            break_long_words=False,
            break_on_hyphens=False,
        )
