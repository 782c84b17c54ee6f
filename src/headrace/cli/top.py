"""`headrace top`: brokers, topics, groups and requests of a cluster, live in the terminal, like htop.

A thread looks at the cluster, so that keys are heard while a broker does not answer. Where nobody sits in
front (`--once`, a pipe), two looks are taken and told: rates need two.
"""

import contextlib
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import click

from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option, parse_duration_ms
from headrace.cli.output import is_terminal, note, print_json, print_table
from headrace.cli.top_figures import Figures, figures
from headrace.cli.top_looking import GroupLook, Looker, MetricsAddress
from headrace.cli.top_view import PAGES, Screen, draw, keys_of
from headrace.clients.errors import ClientError

_READ_BYTES: Final = 1024
# Groups commit every five seconds or so: shorter looks would see nothing, and then much.
_GROUPS_S: Final = 15.0
# The size of a terminal may change without a word to the program.
_LOOK_AT_SIZE_S: Final = 0.5


@click.command(
    epilog=examples(
        "headrace top",
        "headrace top -b kafka.example:9092 --page groups",
        "headrace top --metrics 127.0.0.1:9404 --metrics 127.0.0.1:9405",
        "headrace top --once --json | jq '.groups[] | select(.lag > 1000)'",
    )
)
@click.option(
    "--metrics",
    "addresses",
    multiple=True,
    metavar="[ID=]HOST:PORT",
    help="A broker's /metrics (or a whole URL), for requests, bytes and how busy it is; may be repeated.",
)
@click.option(
    "--metrics-token",
    envvar="HEADRACE_METRICS_TOKEN",
    show_envvar=True,
    default="",
    metavar="TOKEN",
    help="What /metrics asks for, where headrace.metrics.token is set.",
)
@click.option(
    "--metrics-ca",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The authority (PEM) that the certificates of https:// addresses are from.",
)
@click.option(
    "--page", type=click.Choice([each.name for each in PAGES]), default="brokers", show_default=True
)
@click.option("--interval", default="2s", show_default=True, metavar="TIME", help="Time between two looks.")
@click.option(
    "--once", is_flag=True, help="Look twice, an interval apart, print and end; --interval 0s looks once."
)
@cluster_options
@json_option
def top(
    addresses: tuple[str, ...],
    metrics_token: str,
    metrics_ca: str | None,
    page: str,
    interval: str,
    once: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Watch brokers, topics, groups and requests of a cluster, live."""
    interval_ms = parse_duration_ms(interval, "--interval")
    try:
        known = [MetricsAddress.parse(each) for each in addresses]
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="'--metrics'") from None
    is_live = not once and not as_json and is_terminal() and sys.stdin.isatty()
    if is_live and not interval_ms:
        raise click.BadParameter("a live view needs time between two looks.", param_hint="'--interval'")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        looker = Looker(admin, known, token=metrics_token, ca_file=metrics_ca)
        if is_live:
            number = [each.name for each in PAGES].index(page)
            _watch(looker, Screen(page_number=number, interval_s=interval_ms / 1000))
            return
        before = looker.look() if interval_ms else None
        time.sleep(interval_ms / 1000)
        found = figures(looker.look(), before)
    if as_json:
        print_json(found.as_json())
    else:
        _print(found, page)


def _print(found: Figures, page: str) -> None:
    for each in found.look.notes:
        note(each)
    [shown] = [each for each in PAGES if each.name == page]
    rows: list[Any] = getattr(found, page)
    if not rows:
        note(shown.empty)
        return
    cells = [[column.form(getattr(row, column.field)) for column in shown.columns] for row in rows]
    print_table([column.title for column in shown.columns], cells)


class _Watcher:
    """The thread that looks. It wakes the one that draws by a byte in a pipe."""

    def __init__(self, looker: Looker, screen: Screen) -> None:
        self._looker = looker
        self._screen = screen
        self.found: Figures | None = None
        self.problem = ""
        self.wakes, self._wake = os.pipe()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="headrace-top", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        before = None
        groups: deque[tuple[float, list[GroupLook]]] = deque()
        while not self._is_over.is_set():
            if not self._screen.is_paused:
                try:
                    look = self._looker.look()
                    while len(groups) > 1 and groups[1][0] <= look.ends_at_s - _GROUPS_S:
                        groups.popleft()
                    self.found = figures(look, before, groups[0][1] if groups else ())
                    groups.append((look.ends_at_s, look.groups))
                    before, self.problem = look, ""
                except ClientError as error:
                    self.problem = str(error)
                os.write(self._wake, b"\0")
            self._is_over.wait(self._screen.interval_s)

    def close(self) -> None:
        """Not waited for: it may wait for a broker that is gone, and ends with the process."""
        self._is_over.set()


def _watch(looker: Looker, screen: Screen) -> None:
    from rich.console import Group
    from rich.live import Live

    with _unbuffered_keys() as keyboard, Live(screen=True, auto_refresh=False) as live:
        watcher = _Watcher(looker, screen)
        try:
            while not screen.is_over:
                width, height = live.console.size
                lines = draw(screen, watcher.found, width=width, height=height, problem=watcher.problem)
                live.update(Group(*lines), refresh=True)
                ready, _, _ = select.select([keyboard, watcher.wakes], [], [], _LOOK_AT_SIZE_S)
                for source in ready:
                    read = os.read(source, _READ_BYTES)
                    if source == keyboard:
                        if not read:
                            return  # the terminal is gone
                        for key in keys_of(read.decode(errors="replace")):
                            screen.press(key)
        finally:
            watcher.close()


@contextlib.contextmanager
def _unbuffered_keys() -> Iterator[int]:
    """The keyboard, key by key and without echo; as it was afterwards."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    as_it_was = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, as_it_was)
