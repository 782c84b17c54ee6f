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
# Those of the news that are shown: a node was killed, Spark was killed, and what there was no time for.
_NEWS_MAX: Final = 3
_GAPS: Final = 4
# A line of errors, a heading and a session: less is not worth it.
_DERIVED_MIN: Final = 3
# Errors and sessions fit beside each other.
_WIDE: Final = 110
_NO_MINUTE: Final = "its first minute is not over yet"
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


class LiveDemoView:
    """A picture that is drawn anew in place; used with `with`, so that the terminal is left as it was."""

    def __init__(self) -> None:
        from rich.live import Live

        # Drawn when something has changed and by this thread alone: there is no second one to stop.
        self._live = Live(auto_refresh=False)

    def __enter__(self) -> "LiveDemoView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, picture: Picture) -> None:
        width, height = self._live.console.size
        self._live.update(draw(picture, width=width, height=height), refresh=True)


def draw(picture: Picture, *, width: int = 140, height: int = 50) -> "RenderableType":
    """The whole picture, in so many columns and lines: what came out gets the lines that are left."""
    from rich.console import Group
    from rich.text import Text

    head = Text.assemble(
        ("headrace ", "bold cyan"),
        (picture.address, "bold"),
        f"  {picture.elapsed_ms // 1000} s, {picture.phase}",
        overflow="ellipsis",
        no_wrap=True,
    )
    if picture.console:
        head.append(f"\nsee it in a browser: {picture.console}", "cyan")
    foot = Text(_hint(picture, width), style="dim")
    news = Text("\n".join(picture.news[-_NEWS_MAX:]), style="yellow")
    spark_lines = 1 if picture.spark_step is not None else 1 + len(picture.queries)
    fixed = (
        _lines(head.plain, width)
        + (1 + len(picture.feeds))
        + spark_lines
        + _lines(news.plain, width)
        + _lines(foot.plain, width)
    )
    # One line is the cursor's. Blank lines between the parts are a comfort, not more.
    left = height - 1 - fixed
    gap = [Text("")] if left >= _GAPS else []
    left -= len(gap) * _GAPS
    parts: list[RenderableType] = [head, *gap, _feeds(picture), *gap, _spark(picture), *gap]
    if left >= _DERIVED_MIN:
        parts += [*_derived(picture, width, left), *gap]
    if news.plain:
        parts.append(news)
    return Group(*parts, foot)


def _hint(picture: Picture, width: int) -> str:
    if picture.phase == "finishing":
        return "Spark reads what there is, then comes the account. Ctrl-C again ends at once."
    if picture.phase == "over":
        return "Spark has read everything. The account:"
    hint = "Ctrl-C stops, and accounts for every record."
    roomy = f"Any Kafka client can join in at {picture.address}. {hint}"
    return roomy if len(roomy) <= width else hint


def _lines(text: str, width: int) -> int:
    """How many lines a text takes, about: words that do not fit go to the next one."""
    return sum(-(-max(1, len(line)) // max(1, width - 8)) for line in text.split("\n")) if text else 0


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

    elapsed_ms = picture.elapsed_ms - picture.spark_began_ms
    done = min(_BAR, elapsed_ms * _BAR // _SPARK_START_MS)
    usual = "10 to 20 in all" if elapsed_ms <= _SPARK_START_MS else "10 to 20 is usual: others use the cores"
    return Text.assemble(
        ("SPARK  ", "bold cyan"),
        ("█" * done + "░" * (_BAR - done), "cyan"),
        f"  {picture.spark_step}, {elapsed_ms // 1000} s",
        (f" ({usual})", "dim"),
        overflow="ellipsis",
        no_wrap=True,
    )


def _derived(picture: Picture, width: int, lines: int) -> "Sequence[RenderableType]":
    """What comes out: the last full minute's errors, and the last sessions; beside each other if wide."""
    from rich.columns import Columns
    from rich.text import Text

    minute_ms, counts = picture.outcome.last_minute()
    at = "" if minute_ms is None else f" AT {datetime.fromtimestamp(minute_ms / 1000, UTC):%H:%M} UTC"
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    is_wide = width >= _WIDE
    sessions = _table("SESSION", "USER", "PLAN", "FROM", "ON")
    for each in list(reversed(picture.outcome.latest))[: lines - (1 if is_wide else 2)]:
        who = f"{each['name']} ({each['user']})"
        sessions.add_row(str(each["session"]), who, each["plan"], each["country"], each["device"])
    if not is_wide:
        told = "  ".join(f"{service} {count}" for service, count in ordered) or _NO_MINUTE
        line = Text.assemble((f"ERRORS{at}  ", "bold cyan"), told, overflow="ellipsis", no_wrap=True)
        return [line, sessions] if sessions.row_count else [line]
    errors = _table(f"SERVICE{at}", "ERRORS", "")
    for service, count in ordered[: lines - 1]:
        errors.add_row(service, str(count), "█" * max(1, count * _BAR // ordered[0][1]))
    if minute_ms is None:
        errors.add_row(_NO_MINUTE, "", "")
    return [Columns([errors, sessions], padding=(0, 4))]


def _figure(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=True)
    return table
