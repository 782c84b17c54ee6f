"""How `headrace top` looks: a head, one page as a table, a line of keys; and what keys do.

`Screen` is what a person has chosen (page, order, filter, place) and knows no terminal: keys go in as names,
and `draw` makes lines of exactly the room there is. What does not fit loses columns, the least important
first; 80x24 shows all that matters.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.cli.output import human_bytes
from headrace.cli.top_figures import Figures

if TYPE_CHECKING:
    from rich.text import Text

INTERVALS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
NAME_MAX: Final = 48
NAME_FINE: Final = 24
"""A name has so much before columns of rank 4 and above: what is called alike begins alike, too."""
NAME_MIN: Final = 12
_RANK_BEHIND_NAMES: Final = 4
_HEAD_LINES: Final = 4
_FOOT_LINES: Final = 1
_HELP: Final = (
    "1 2 3 4, Tab   brokers, topics, groups, requests",
    "Left, Right    sort by another column        r    turn the order around",
    "Up, Down       scroll; PgUp, PgDn, Home, End",
    "/              show only names with a text; Enter keeps it, Esc takes it away",
    "i              internal topics too            p    pause",
    "+ -            look more or less often        q    quit",
    "",
    "LOCAL          a broker's own work on a request; 99% is the most for 99 of 100",
    "TOTAL          with all waiting, for records, replicas or the client",
    "BEHIND         how long a group needs for its LAG at its speed of the last 15 s",
)


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def _size(value: float | None) -> str:
    return "-" if value is None else human_bytes(int(value))


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g} ms"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 60:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


def _text(value: object) -> str:
    """Names come from clients: nothing in them may move the cursor."""
    if value is None:
        return "-"
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in str(value))


def _alarm(value: object) -> str:
    return "bold red" if value else ""


def _lag(value: object) -> str:
    return "yellow" if value else "green" if value == 0 else "dim"


def _state(value: object) -> str:
    return {"fenced": "bold red", "controller": "cyan", "Stable": "green", "Empty": "dim", "Dead": "dim"}.get(
        str(value), ""
    )


class Column(NamedTuple):
    """One column. Those of a lower `rank` stay longer where room is short."""

    title: str
    field: str
    form: Callable[[Any], str] = _count
    rank: int = 0
    style: Callable[[object], str] | None = None


class Page(NamedTuple):
    """One kind of rows; the first column is the name."""

    name: str
    columns: tuple[Column, ...]
    sort: str
    empty: str


PAGES: Final = (
    Page(
        "brokers",
        (
            Column("BROKER", "broker", str),
            Column("ADDRESS", "address", _text, 6),
            Column("RACK", "rack", _text, 9),
            Column("STATE", "state", _text, 1, _state),
            Column("LEADS", "leaders", rank=2),
            Column("REPLICAS", "replicas", rank=8),
            Column("LACKING", "under_replicated", rank=3, style=_alarm),
            Column("RECORDS/s", "records_in_per_s", _rate, 1),
            Column("IN/s", "bytes_in_per_s", _size, 3),
            Column("OUT/s", "bytes_out_per_s", _size, 4),
            Column("REQ/s", "requests_per_s", _rate, 4),
            Column("BUSY", "busy", _share, 4),
            Column("MEMORY", "memory_bytes", _size, 7),
            Column("CONNS", "connections", rank=7),
            Column("LOGS", "size_bytes", _size, 5),
            Column("FREE", "free_bytes", _size, 3),
        ),
        "broker",
        "there are no brokers",
    ),
    Page(
        "topics",
        (
            Column("TOPIC", "topic", _text),
            Column("PARTS", "partitions", rank=2),
            Column("REPL", "replicas", rank=6),
            Column("LACKING", "under_replicated", rank=3, style=_alarm),
            Column("OFFLINE", "offline", rank=4, style=_alarm),
            Column("END OFFSETS", "end_offsets", rank=5),
            Column("RECORDS/s", "records_in_per_s", _rate, 1),
            Column("IN/s", "bytes_in_per_s", _size, 7),
            Column("OUT/s", "bytes_out_per_s", _size, 7),
            Column("SIZE", "size_bytes", _size, 1),
        ),
        "records_in_per_s",
        "there are no topics, or none like that; i shows internal ones",
    ),
    Page(
        "groups",
        (
            Column("GROUP", "group", _text),
            Column("TYPE", "type", _text, 6),
            Column("STATE", "state", _text, 2, _state),
            Column("COORD", "coordinator", str, 7),
            Column("MEMBERS", "members", rank=3),
            Column("PARTS", "partitions", rank=5),
            Column("LAG", "lag", rank=1, style=_lag),
            Column("RECORDS/s", "records_per_s", _rate, 1),
            Column("BEHIND", "seconds_behind", _seconds, 4),
        ),
        "lag",
        "there are no groups, or none like that",
    ),
    Page(
        "requests",
        (
            Column("REQUEST", "request", _text),
            Column("COUNT", "total", rank=5),
            Column("PER s", "per_s", _rate, 1),
            Column("LOCAL", "average_ms", _ms, 1),
            Column("99%", "p99_ms", _ms, 3),
            Column("TOTAL", "total_ms", _ms, 2),
            Column("SIZE", "average_bytes", _size, 4),
            Column("ERRORS/s", "errors_per_s", _rate, 2, _alarm),
        ),
        "per_s",
        "requests are told by /metrics alone: give --metrics HOST:PORT for each broker",
    ),
)


@dataclass(slots=True)
class Screen:
    """What the person who looks has chosen."""

    page_number: int = 0
    interval_s: float = 2.0
    sorts: dict[str, str] = field(default_factory=lambda: {each.name: each.sort for each in PAGES})
    turned: set[str] = field(default_factory=set)
    filter: str = ""
    is_typing: bool = False
    shows_internal: bool = False
    shows_help: bool = False
    is_paused: bool = False
    is_over: bool = False
    first: int = 0
    page_lines: int = 10

    @property
    def page(self) -> Page:
        return PAGES[self.page_number]

    def press(self, key: str) -> None:
        """A key by its name: one character, or `left`, `pgup`, `enter`, `esc`, …"""
        if self.is_typing:
            self._type(key)
        elif self.shows_help and key != "q":
            self.shows_help = False
        elif key in ("1", "2", "3", "4"):
            self._turn_to(int(key) - 1)
        elif key == "tab":
            self._turn_to((self.page_number + 1) % len(PAGES))
        elif key in ("left", "right"):
            self._sort_beside(-1 if key == "left" else 1)
        elif key in _STEPS:
            self.first = max(0, self.first + _STEPS[key](self.page_lines))
        elif key in ("+", "-"):
            self._look_oftener(-1 if key == "+" else 1)
        elif key in _SWITCHES:
            _SWITCHES[key](self)

    def _turn_to(self, number: int) -> None:
        self.page_number, self.first = number, 0

    def _sort_beside(self, step: int) -> None:
        fields = [each.field for each in self.page.columns]
        at = fields.index(self.sorts[self.page.name])
        self.sorts[self.page.name] = fields[(at + step) % len(fields)]

    def _look_oftener(self, step: int) -> None:
        nearest = min(INTERVALS_S, key=lambda each: abs(each - self.interval_s))
        at = INTERVALS_S.index(nearest) + step
        self.interval_s = INTERVALS_S[min(max(at, 0), len(INTERVALS_S) - 1)]

    def _type(self, key: str) -> None:
        if key in ("enter", "esc"):
            self.is_typing = False
            self.filter = self.filter if key == "enter" else ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key
        self.first = 0

    def begin_typing(self) -> None:
        self.is_typing, self.filter = True, ""

    def turn_order(self) -> None:
        self.turned ^= {self.page.name}

    @property
    def is_falling(self) -> bool:
        """Numbers have the largest first, names the first of the alphabet; `r` turns that around."""
        page = self.page
        [column] = [each for each in page.columns if each.field == self.sorts[page.name]]
        is_number = column is not page.columns[0] and column.form is not _text
        return is_number is not (page.name in self.turned)

    def rows(self, figures: Figures) -> list[Any]:
        """The rows of the page, in their order; those without the value that orders them are last."""
        page = self.page
        rows: list[Any] = list(getattr(figures, page.name))
        name = page.columns[0].field
        if page.name == "topics" and not self.shows_internal:
            rows = [each for each in rows if not each.internal]
        if self.filter:
            rows = [each for each in rows if self.filter.lower() in str(getattr(each, name)).lower()]
        by = self.sorts[page.name]
        known = [each for each in rows if getattr(each, by) is not None]
        known.sort(key=lambda each: getattr(each, name))
        known.sort(key=lambda each: getattr(each, by), reverse=self.is_falling)
        return known + [each for each in rows if getattr(each, by) is None]


_STEPS: Final[Mapping[str, Callable[[int], int]]] = {
    "up": lambda _: -1,
    "down": lambda _: 1,
    "pgup": lambda lines: -lines,
    "pgdn": lambda lines: lines,
    "home": lambda _: -(1 << 30),
    "end": lambda _: 1 << 30,
}


def _flip(name: str) -> Callable[[Screen], None]:
    return lambda screen: setattr(screen, name, not getattr(screen, name))


_SWITCHES: Final[Mapping[str, Callable[[Screen], None]]] = {
    "q": _flip("is_over"),
    "p": _flip("is_paused"),
    " ": _flip("is_paused"),
    "i": _flip("shows_internal"),
    "h": _flip("shows_help"),
    "?": _flip("shows_help"),
    "r": Screen.turn_order,
    "/": Screen.begin_typing,
}

_KEYS: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "pgup",
    "\x1b[6~": "pgdn",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b": "esc",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "q",
}


def keys_of(typed: str) -> list[str]:
    """What a terminal sent, as names of keys; sequences that are not known are passed over."""
    keys = []
    while typed:
        for length in (4, 3, 1):
            if typed[:length] in _KEYS and (length > 1 or typed == "\x1b" or typed[0] != "\x1b"):
                keys.append(_KEYS[typed[:length]])
                typed = typed[length:]
                break
        else:
            if typed[0] == "\x1b":
                return keys  # a key that has no meaning here
            if typed[0].isprintable():
                keys.append(typed[0])
            typed = typed[1:]
    return keys


def draw(
    screen: Screen, figures: Figures | None, *, width: int, height: int, problem: str = ""
) -> "list[Text]":
    """The whole screen, in so many columns and lines at most."""
    from rich.text import Text

    lines = [*_head(screen, figures, problem)]
    room = max(1, height - _HEAD_LINES - _FOOT_LINES - 1)
    screen.page_lines = room
    if screen.shows_help:
        lines += [Text(""), *(Text(each) for each in _HELP[:room])]
    elif figures is not None:
        rows = screen.rows(figures)
        screen.first = min(screen.first, max(0, len(rows) - room))
        lines += _table(screen, rows, rows[screen.first : screen.first + room], width)
    lines = lines[: height - _FOOT_LINES]
    lines += [Text("")] * (height - _FOOT_LINES - len(lines))
    lines.append(_foot(screen, figures))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.no_wrap = True
    return lines


def _head(screen: Screen, figures: Figures | None, problem: str) -> "list[Text]":
    from rich.text import Text

    tabs = Text()
    for number, page in enumerate(PAGES):
        style = "bold reverse" if number == screen.page_number else ""
        tabs.append(f" {number + 1} {page.name} ", style)
        tabs.append(" ")
    if figures is None:
        return [
            Text("headrace top", "bold cyan"),
            Text(problem or "asking the cluster …", "yellow"),
            tabs,
            Text(""),
        ]
    look = figures.look
    clock = time.strftime("%H:%M:%S", time.gmtime(look.time_ms / 1000))
    partitions = sum(each.partitions for each in figures.topics)
    first = Text.assemble(
        ("headrace top ", "bold cyan"),
        f" {clock} UTC  {_many(len(figures.brokers), 'broker')}  {_many(len(figures.topics), 'topic')}",
        f"  {_many(partitions, 'partition')}  {_many(len(figures.groups), 'group')}",
        ("  paused" if screen.is_paused else "", "bold yellow"),
        (f"  {_text(look.cluster.cluster_id)}", "dim"),
    )
    return [first, _health(figures, problem), tabs, Text("")]


def _health(figures: Figures, problem: str) -> "Text":
    """What is wrong, else how much there is to do."""
    from rich.text import Text

    lacking, offline = (
        sum(getattr(each, name) for each in figures.topics) for name in ("under_replicated", "offline")
    )
    fenced = sum(each.state == "fenced" for each in figures.brokers)
    wrong = [
        f"{count:,} {what}"
        for count, what in (
            (offline, "partition offline" if offline == 1 else "partitions offline"),
            (lacking, "under-replicated"),
            (fenced, "broker fenced" if fenced == 1 else "brokers fenced"),
        )
        if count
    ]
    rates = [each.records_in_per_s for each in figures.brokers if each.records_in_per_s is not None]
    told = f"{_rate(sum(rates))} records/s" if rates else "rates come with the next look"
    line = Text.assemble((", ".join(wrong), "bold red") if wrong else ("all in sync", "green"), f"  {told}")
    said = problem or (figures.look.notes[0] if figures.look.notes else "")
    if said:
        line.append(f"  {_text(said)}", "yellow")
    return line


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _foot(screen: Screen, figures: Figures | None) -> "Text":
    from rich.text import Text

    if screen.is_typing:
        return Text(f"only names with: {screen.filter}▏", "bold")
    kept = f"  only {screen.filter!r}" if screen.filter else ""
    below = 0 if figures is None else len(screen.rows(figures)) - screen.first - screen.page_lines
    more = f"  {below} below" if below > 0 else ""
    return Text.assemble(
        ("q quit  1-4 page  ←→ sort  r turn  / find  p pause  ? help", "dim"),
        (f"  every {screen.interval_s:g} s{kept}{more}", "dim"),
    )


def _table(screen: Screen, all_rows: Sequence[Any], rows: Sequence[Any], width: int) -> "list[Text]":
    from rich.cells import cell_len
    from rich.text import Text

    page = screen.page
    if not all_rows:
        return [Text(page.empty, "dim")]
    sort = screen.sorts[page.name]
    arrow = "▼" if screen.is_falling else "▲"
    columns = [
        each
        for each in page.columns
        if each.field == sort or any(getattr(row, each.field) is not None for row in all_rows)
    ]
    titles = {each.field: each.title + (arrow if each.field == sort else "") for each in columns}
    widths = {
        each.field: max(
            cell_len(titles[each.field]), *(cell_len(each.form(getattr(row, each.field))) for row in all_rows)
        )
        for each in columns
    }
    name = columns[0].field
    widths[name] = min(widths[name], NAME_MAX)
    columns = _fitting(columns, widths, width, sort)
    lines = [Text()]
    for column in columns:
        _append(lines[0], column, titles[column.field], widths[column.field], "bold cyan", columns[0])
    for row in rows:
        line = Text()
        for column in columns:
            value = getattr(row, column.field)
            shown = column.form(value)
            if cell_len(shown) > widths[column.field]:
                shown = _shortened(shown, widths[column.field])
            style = column.style(value) if column.style else "bold" if column is columns[0] else ""
            _append(line, column, shown, widths[column.field], style, columns[0])
        lines.append(line)
    return lines


def _shortened(name: str, width: int) -> str:
    """Beginning and end of it: what is called alike often differs in one of them."""
    from rich.cells import cell_len, set_cell_size

    end = ""
    for each in reversed(name):
        if cell_len(each + end) > width // 3:
            break
        end = each + end
    return set_cell_size(name, width - 1 - cell_len(end)) + "…" + end


def _fitting(columns: list[Column], widths: dict[str, int], width: int, sort: str) -> list[Column]:
    """Those that there is room for; before a column goes, the name gives way."""
    kept = list(columns)

    def needed() -> int:
        return sum(widths[each.field] for each in kept) + 2 * (len(kept) - 1)

    name = kept[0].field
    while needed() > width and len(kept) > 1:
        leaves = max(
            (each for each in kept[1:] if each.field != sort), key=lambda each: each.rank, default=kept[-1]
        )
        spare = widths[name] - (NAME_FINE if leaves.rank >= _RANK_BEHIND_NAMES else NAME_MIN)
        if spare > 0 and needed() - width <= spare:
            widths[name] -= needed() - width
            break
        kept.remove(leaves)
    return kept


def _append(line: "Text", column: Column, shown: str, width: int, style: str, first: Column) -> None:
    from rich.cells import cell_len

    pad = " " * (width - cell_len(shown))
    if column is not first:
        line.append("  ")
    is_words = column.form is _text or column is first
    line.append(shown + pad if is_words else pad + shown, style)
