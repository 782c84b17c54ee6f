"""What commands print: tables with colours on a terminal, aligned text elsewhere, JSON for scripts.

rich is imported only when a table is drawn on a terminal: it is the larger half of the command's weight.
NO_COLOR takes the colours away and leaves the table.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

# A style of rich's for a value, as "bold yellow".
Style = Callable[[Any], str]
NO_STYLES: Final[Mapping[str, Style]] = {}


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_rows(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """What would be a table, as a list of objects."""
    print_json([dict(zip(names, row, strict=True)) for row in rows])


def print_json_line(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    absent: str = "",
    styles: Mapping[str, Style] = NO_STYLES,
    optional: Sequence[str] = (),
) -> None:
    """Rows under a heading; columns of numbers, and of nothing in between, are set to the right.

    `absent` stands where there is no value, and `styles` says how a column's values look on a terminal. What
    is too wide for a terminal loses its `optional` columns, one after the other; if it is too wide even so,
    every row becomes a block of lines: no name is ever cut.
    """
    if not is_terminal():
        cells = [[absent if cell is None else str(cell) for cell in row] for row in rows]
        _print_plain(columns, cells, _numeric(columns, rows), title)
        return
    dropped: list[str] = []
    width = shutil.get_terminal_size().columns
    while not (is_fitting := _width(columns, rows, absent) <= width) and len(dropped) < len(optional):
        at = list(columns).index(optional[len(dropped)])
        dropped.append(columns[at])
        columns = [*columns[:at], *columns[at + 1 :]]
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
    cells = [[absent if cell is None else str(cell) for cell in row] for row in rows]
    looks = [
        [styles.get(name, _plain)(cell) for name, cell in zip(columns, row, strict=True)] for row in rows
    ]
    if is_fitting:
        _print_rich(columns, cells, looks, _numeric(columns, rows), title)
    else:
        _print_blocks(columns, cells, title)
    if dropped:
        note(f"left out for want of room: {', '.join(dropped)}; --json has all")


def _numeric(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    return [_is_numeric([row[at] for row in rows]) for at in range(len(columns))]


def _width(columns: Sequence[str], rows: Sequence[Sequence[object]], absent: str) -> int:
    """Of a table on a terminal: two spaces between columns."""
    widths = [
        max(len(name), *(len(absent if row[at] is None else str(row[at])) for row in rows), 0)
        for at, name in enumerate(columns)
    ]
    return sum(widths) + 2 * (len(columns) - 1)


def _print_blocks(columns: Sequence[str], cells: list[list[str]], title: str) -> None:
    if title:
        click.echo(title)
    for number, row in enumerate(cells):
        if number:
            click.echo()
        print_facts(list(zip(columns, row, strict=True)))


def lag_style(lag: object) -> str:
    """How a lag looks on a terminal: what is behind stands out."""
    if lag is None:
        return "dim"
    return "bold yellow" if lag else "green"


def _is_numeric(values: Sequence[object]) -> bool:
    given = [each for each in values if each is not None]
    return bool(given) and all(isinstance(each, int | float) for each in given)


def _plain(_: object) -> str:
    return ""


def _print_plain(columns: Sequence[str], cells: list[list[str]], right: list[bool], title: str) -> None:
    if title:
        click.echo(title)
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in [list(columns), *cells]:
        placed = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(placed).rstrip())


def _print_rich(
    columns: Sequence[str],
    cells: list[list[str]],
    looks: list[list[str]],
    right: list[bool],
    title: str,
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None,
        title=title or None,
        title_justify="left",
        header_style="bold cyan",
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    for name, is_right in zip(columns, right, strict=True):
        table.add_column(name, justify="right" if is_right else "left", no_wrap=True)
    for row, own in zip(cells, looks, strict=True):
        table.add_row(*(Text(text, style=look) for text, look in zip(row, own, strict=True)))
    Console().print(table)


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Names and values, one each line."""
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        label = click.style(name.ljust(width), fg="cyan") if is_terminal() else name.ljust(width)
        click.echo(f"{label}  {'' if value is None else value}".rstrip(), color=_colours())


def note(text: str) -> None:
    """Something for a person beside the result, on stderr so that pipes stay clean."""
    click.echo(text, err=True)


def _colours() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None


def human_bytes(count: int) -> str:
    """1536 as 1.5 KiB."""
    if count < 0:
        return "unknown"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
