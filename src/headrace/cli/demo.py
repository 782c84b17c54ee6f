"""`headrace demo`, which is what `./run` starts: a cluster, service logs, a Spark pipeline, and the account.

The first Ctrl-C (or SIGTERM) ends the records: Spark reads what there is, and the account follows. A
second one ends everything at once. Files lie in a temporary folder that goes away, unless --data names
another.
"""

import importlib.util
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from headrace.base.clock import SystemClock
from headrace.cli.connecting import open_admin, open_consumer, open_producer
from headrace.cli.demo_nodes import running_nodes
from headrace.cli.options import examples, parse_duration_ms
from headrace.cli.output import is_terminal, note, print_table

if TYPE_CHECKING:
    from headrace.spark.demo.account import Line
    from headrace.spark.demo.running import Cluster, View

_TIMEOUT_MS: Final = 30_000


class Stop:
    """The first signal asks for an end in order, the second one for an end."""

    def __init__(self) -> None:
        self.is_asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        if not is_terminal():  # the live picture says it
            note("stopping: Spark reads what there is, then comes the account; Ctrl-C again ends at once")


@click.command(
    epilog=examples(
        "headrace demo",
        "headrace demo --for 60s                    # exit code 1 where a record is missing",
        "headrace demo --port 9095 --data data      # keep logs, table and checkpoints",
        "headrace demo --bootstrap-server kafka.example:9092 --rate 5000",
    )
)
@click.option("--for", "duration", metavar="TIME", help="End by itself after this long: 60s, 5m.")
@click.option(
    "--rate",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="Log lines a second.",
)
@click.option(
    "--nodes", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Size of the cluster."
)
@click.option("--calm", is_flag=True, help="Kill nothing on the way.")
@click.option(
    "--port",
    "-p",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="P",
    help="Where clients connect; 0 is a free port.",
)
@click.option("--data", "-d", metavar="DIR", help="Folder for all files; a temporary one otherwise.")
@click.option(
    "--bootstrap-server",
    "-b",
    "bootstrap",
    metavar="HOST:PORT,…",
    help="Use these brokers instead of starting nodes.",
)
@click.option("--seed", type=int, metavar="N", help="The same records again.")
@click.pass_context
def demo(
    ctx: click.Context,
    duration: str | None,
    rate: int,
    nodes: int,
    calm: bool,
    port: int,
    data: str | None,
    bootstrap: str | None,
    seed: int | None,
) -> None:
    """Run a cluster, feed it service logs, derive two feeds and a table with Spark, and account for all.

    On the way one node and the Spark program are killed, and come back: the account is exact all the same.
    """
    duration_ms = None if duration is None else parse_duration_ms(duration, "--for")
    _need_spark()
    stop = Stop()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(data))
        own = None
        if bootstrap is None:
            own = stack.enter_context(running_nodes(nodes, port, str(folder / "cluster")))
        address = own.address if own else str(bootstrap)
        # One node alone has nobody who would go on without it.
        kill_node = own.kill_one if own and nodes > 1 and not calm else None
        clients = _clients(stack, address)
        is_right = _show(
            clients, folder, duration_ms, rate, random.Random(seed), stop, kill_node, kills_spark=not calm
        )
    if data is not None:
        note(f"logs, table and checkpoints are in {folder}")
    if not is_right:
        ctx.exit(1)


def _need_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise click.ClickException("Spark is not installed: pip install 'headrace[spark]'")


@contextmanager
def _folder(data: str | None) -> Iterator[Path]:
    """A folder for this run. A run's table and checkpoints are its own; the cluster's logs may be older."""
    folder = Path(data or tempfile.mkdtemp(prefix="headrace-demo-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _show(
    clients: "Cluster",
    folder: Path,
    duration_ms: int | None,
    rate: int,
    rng: random.Random,
    stop: Stop,
    kill_node: Callable[[], None] | None,
    *,
    kills_spark: bool,
) -> bool:
    """Whether the account is right."""
    from headrace.spark.demo.running import Demonstration

    with _view() as view:
        shown = Demonstration(
            clients,
            Path(tempfile.mkdtemp(prefix="run-", dir=folder)),
            view,
            per_second=rate,
            clock=SystemClock(),
            rng=rng,
            kill_node=kill_node,
            kills_spark=kills_spark,
        )
        result = shown.run(duration_ms, lambda: stop.is_asked)
    _print_account(result.lines)
    if result.failure is not None:
        note(f"headrace demo: {result.failure}")
    if result.is_right:
        click.echo("none missing, none wrong, none twice")
    else:
        click.echo("THE ACCOUNT IS WRONG")
    return result.is_right


def _clients(stack: ExitStack, address: str) -> "Cluster":
    from headrace.spark.demo.running import Cluster

    return Cluster(
        address,
        stack.enter_context(open_admin(address, _TIMEOUT_MS)),
        stack.enter_context(open_producer(address, _TIMEOUT_MS)),
        stack.enter_context(open_consumer(address, _TIMEOUT_MS, isolation_level="read_committed")),
    )


@contextmanager
def _view() -> "Iterator[View]":
    from headrace.cli.demo_view import LiveView, PlainView

    if is_terminal():
        with LiveView() as view:
            yield view
    else:
        yield PlainView()


def _print_account(lines: "Sequence[Line]") -> None:
    rows = [
        (line.name, line.what, line.into, line.out, line.missing, line.wrong, line.again) for line in lines
    ]
    columns = ("FEED OR TABLE", "WHAT", "IN", "OUT", "MISSING", "WRONG", "AGAIN")
    print_table(columns, rows, title="The account: what went in, and what came out")
