"""How the demonstration looks: a live picture on a terminal, a line every other second elsewhere."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headrace.cli.output import note
from headrace.spark.demo.feeds import DERIVED
from headrace.spark.demo.picture import Picture

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_BAR: Final = 24
_LINE_EVERY_MS: Final = 2_000
# What a start of Spark takes on a laptop; the bar is full then, and waits.
_SPARK_START_MS: Final = 20_000
_NUMBERS: Final = frozenset(
    {"RECORDS", "A SECOND", "PARTITIONS", "BATCH", "READ", "LAG", "BATCH TIME", "STATE", "ERRORS"}
)


class PlainView:
    """A line now and then, for pipes and logs."""

    def __init__(self) -> None:
        self._told_ms = -_LINE_EVERY_MS
        self._told_step: str | None = None
        self._told_news = 0

    def update(self, picture: Picture) -> None:
        for each in picture.news[self._told_news :]:
            note(f"{'':6}  {each}")
        self._told_news = len(picture.news)
        is_news = picture.spark_step != self._told_step
        if not is_news and picture.elapsed_ms - self._told_ms < _LINE_EVERY_MS:
            return
        self._told_ms, self._told_step = picture.elapsed_ms, picture.spark_step
        note(f"{picture.elapsed_ms // 1000:4} s  {picture.phase:9}  {self._figures(picture)}")

    def _figures(self, picture: Picture) -> str:
        feeds = ", ".join(
            f"{each.name} {each.records} ({each.rate.per_second:.0f}/s, in sync {each.in_sync})"
            for each in picture.feeds.values()
        )
        if picture.spark_step is not None:
            return f"Spark: {picture.spark_step}; {feeds}"
        queries = ", ".join(
            f"{each.name} batch {each.batch} in {each.batch_ms} ms, lag {_figure(each.lag)}"
            for each in picture.queries.values()
        )
        return f"{feeds}; {queries}"


class LiveView:
    """A picture that is drawn anew in place; used with `with`, so that the terminal is left as it was."""

    def __init__(self) -> None:
        from rich.live import Live

        # Drawn when something has changed and by this thread alone: there is no second one to stop.
        self._live = Live(auto_refresh=False)

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, picture: Picture) -> None:
        self._live.update(draw(picture), refresh=True)


def draw(picture: Picture) -> "RenderableType":
    """The whole picture."""
    from rich.console import Group
    from rich.text import Text

    head = Text.assemble(
        ("headrace ", "bold cyan"),
        (picture.address, "bold"),
        f"   {picture.elapsed_ms // 1000} s, {picture.phase}\n",
    )
    hint = f"Any Kafka client can join in at {picture.address}. Ctrl-C stops, and accounts for every record."
    if picture.phase == "finishing":
        hint = "Spark reads what there is, then comes the account. Ctrl-C again ends at once."
    foot = Text(f"\n{hint}", style="dim")
    news = Text("".join(f"\n{each}" for each in picture.news), style="yellow")
    return Group(head, _feeds(picture), _spark(picture), *_derived(picture), news, foot)


def _feeds(picture: Picture) -> "Table":
    table = _table("FEED", "RECORDS", "A SECOND", "PARTITIONS", "IN SYNC")
    for feed in picture.feeds.values():
        table.add_row(
            feed.name,
            f"{feed.records:,}",
            f"{feed.rate.per_second:,.0f}",
            str(feed.partitions),
            feed.in_sync,
            style="green" if feed.name in DERIVED else "",
        )
    return table


def _spark(picture: Picture) -> "RenderableType":
    if picture.spark_step is not None:
        return _starting(picture)
    table = _table("SPARK", "READ", "A SECOND", "LAG", "BATCH", "BATCH TIME", "STATE")
    for query in picture.queries.values():
        table.add_row(
            query.name,
            f"{query.read:,}",
            f"{query.rate.per_second:,.0f}",
            _figure(query.lag),
            _figure(query.batch),
            f"{query.batch_ms:,} ms",
            f"{query.state_rows:,} rows",
        )
    return table


def _starting(picture: Picture) -> "Text":
    """Spark needs its time; it is shown that something happens, and about how much is left."""
    from rich.text import Text

    done = min(_BAR, picture.elapsed_ms * _BAR // _SPARK_START_MS)
    return Text.assemble(
        ("SPARK  ", "bold cyan"),
        ("█" * done + "░" * (_BAR - done), "cyan"),
        f"  {picture.spark_step}, {picture.elapsed_ms // 1000} s",
        (" (10 to 20 in all; records wait in their feeds)\n", "dim"),
    )


def _derived(picture: Picture) -> "Sequence[RenderableType]":
    """What comes out: the last full minute's errors, and the last sessions."""
    from rich.columns import Columns

    minute_ms, counts = picture.outcome.last_minute()
    when = "" if minute_ms is None else f" AT {datetime.fromtimestamp(minute_ms / 1000, UTC):%H:%M} UTC"
    errors = _table(f"SERVICE{when}", "ERRORS", "")
    most = max(counts.values(), default=1)
    for service, count in sorted(counts.items(), key=lambda each: -each[1]):
        errors.add_row(service, str(count), "█" * max(1, count * _BAR // most))
    if minute_ms is None:
        errors.add_row("its first minute is not over yet", "", "")
    sessions = _table("SESSION", "USER", "PLAN", "FROM", "ON")
    for each in reversed(picture.outcome.latest):
        who = f"{each['name']} ({each['user']})"
        sessions.add_row(str(each["session"]), who, each["plan"], each["country"], each["device"])
    return [Columns([errors, sessions], padding=(0, 4))]


def _figure(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _table(*columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left")
    return table
