"""How the demonstration looks: a live picture on a terminal, a line for each record elsewhere."""

import json
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.demo import Seen, page_of
from headrace.clients import ConsumedRecord

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_BAR = 24


class PlainView:
    """One line for each record, for pipes and logs."""

    def record(self, record: ConsumedRecord, delay_ms: int) -> None:
        place = f"{record.topic}-{record.partition}@{record.offset}"
        value = (record.value or b"").decode("utf-8", "replace")
        click.echo(f"{place}  {value}  read {delay_ms} ms after it was written")

    def update(self, seen: Seen) -> None:
        pass


class LiveView:
    """A picture that is drawn anew in place; used with `with`, so that the terminal is left as it was."""

    def __init__(self, address: str, topic: str) -> None:
        from rich.live import Live

        self._address = address
        self._topic = topic
        # Drawn when something has changed and by this thread alone: there is no second one to stop.
        self._live = Live(auto_refresh=False)

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def record(self, record: ConsumedRecord, delay_ms: int) -> None:
        pass

    def update(self, seen: Seen) -> None:
        self._live.update(self.picture(seen), refresh=True)

    def picture(self, seen: Seen) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        seconds = max(seen.elapsed_ms, 1000) / 1000
        head = Text.assemble(
            ("headrace ", "bold cyan"),
            (self._address, "bold"),
            f"   topic {self._topic}   {seen.read} records read, {seen.read / seconds:.0f} a second, ",
            f"{seen.delay_ms} ms after they were written",
        )
        foot = Text(f"Any Kafka client can join in at {self._address}. Ctrl-C stops.", style="dim")
        return Group(head, _pages(seen), _latest(seen), _offsets(seen), foot)


def _pages(seen: Seen) -> "Table":
    table = _table("PAGE", "VIEWS", "")
    most = max(seen.pages.values(), default=1)
    for page, count in seen.pages.most_common(8):
        table.add_row(page, str(count), "█" * max(1, count * _BAR // most))
    return table


def _latest(seen: Seen) -> "Table":
    table = _table("LATEST", "OFFSET", "USER", "PAGE", "MS")
    for record in reversed(seen.latest):
        value = _fields(record)
        place = f"{record.topic}-{record.partition}"
        table.add_row(
            place, str(record.offset), str(value.get("user", "")), page_of(record), str(value.get("ms", ""))
        )
    return table


def _offsets(seen: Seen) -> "RenderableType":
    from rich.text import Text

    ends = "   ".join(f"{partition}: {end}" for partition, end in sorted(seen.ends.items()))
    return Text(f"next offsets   {ends}\n", style="dim")


def _table(*columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in ("VIEWS", "OFFSET", "MS") else "left")
    return table


def _fields(record: ConsumedRecord) -> dict[str, Any]:
    try:
        value = json.loads(record.value or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
