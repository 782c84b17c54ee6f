"""`headrace demo`, which is what `./run` starts: a cluster, service logs, a Spark pipeline, and the account.

The first Ctrl-C (or SIGTERM) ends the records: Spark reads what there is, and the account follows. A
second one ends everything at once. Files lie in a temporary folder that goes away, unless --data names
another.
"""

import importlib.util
import logging
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from headrace.base.clock import SystemClock
from headrace.cli.connecting import open_admin, open_consumer, open_producer
from headrace.cli.options import examples, json_option, parse_duration_ms
from headrace.cli.output import is_terminal, note, print_json, print_table
from headrace.node.temporary_folder import TemporaryFolder

if TYPE_CHECKING:
    from headrace.cli.demo_console import ShownDemo
    from headrace.spark.demo.account import Line
    from headrace.spark.demo.demonstration import DemoCluster, DemoView, Result

_TIMEOUT_MS: Final = 30_000
READY: Final = "headrace ready: "
METRICS_ABOVE: Final = 312
"""How far above the clients' ports metrics are: 9404 for 9092. With any port for clients there are none."""
_METRICS_FROM_MAX: Final = 65_000
_STOP_SECONDS: Final = 15
_QUOTED_LINES: Final = 10


class StopSignal:
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
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="End by itself after this long (60s, 5m), when all that is to be killed was.",
)
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
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    metavar="P",
    help="Where browsers connect; 0 is a free port.  [default: 8080, or a free one where that is taken]",
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
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    duration: str | None,
    rate: int,
    nodes: int,
    calm: bool,
    port: int,
    console_port: int | None,
    data: str | None,
    bootstrap: str | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Run a cluster, feed it service logs, derive two feeds and a table with Spark, and account for all.

    On the way one node and the Spark program are killed, and come back: the account is exact all the same.
    """
    duration_ms = None if duration is None else parse_duration_ms(duration, "--for")
    _need_spark()
    from headrace.cli.demo_console import shown_demo

    stop = StopSignal()
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
        # With any port for clients, the console has any port too.
        wanted = 0 if console_port is None and port == 0 else console_port
        shown = stack.enter_context(shown_demo(address, folder, wanted, node_metrics(own, nodes, port)))
        if shown.url:
            note(f"see it in a browser: {shown.url}")
        result = _show(
            clients,
            folder,
            duration_ms,
            rate,
            random.Random(seed),
            stop,
            kill_node,
            shown,
            kills_spark=not calm,
        )
        _tell(result, as_json)
    if data is not None:
        note(f"logs, table and checkpoints are in {folder}")
    if not result.is_right:
        ctx.exit(1)


def _need_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise click.ClickException("Spark is not installed: pip install 'headrace[spark]'")


@contextmanager
def _folder(data: str | None) -> Iterator[Path]:
    """A folder for this run. A run's table and checkpoints are its own; the cluster's logs may be older."""
    if data is None:
        with TemporaryFolder("demo") as folder:
            yield folder.path.resolve()
        return
    own = Path(data).resolve()
    own.mkdir(parents=True, exist_ok=True)
    yield own


def _show(
    clients: "DemoCluster",
    folder: Path,
    duration_ms: int | None,
    rate: int,
    rng: random.Random,
    stop: StopSignal,
    kill_node: Callable[[], None] | None,
    console: "ShownDemo",
    *,
    kills_spark: bool,
) -> "Result":
    """How it ended."""
    from headrace.spark.demo.demonstration import Demonstration

    with _view(folder / "clients.log") as view:
        shown = Demonstration(
            clients,
            Path(tempfile.mkdtemp(prefix="run-", dir=folder)),
            console.beside(view),
            per_second=rate,
            clock=SystemClock(),
            rng=rng,
            kill_node=kill_node,
            kills_spark=kills_spark,
            console=console.url,
        )
        return shown.run(duration_ms, lambda: stop.is_asked)


def _tell(result: "Result", as_json: bool) -> None:
    if as_json:
        lines = [asdict(line) for line in result.lines]
        print_json({"is_right": result.is_right, "failure": result.failure, "account": lines})
        return
    _print_account(result.lines)
    if result.failure is not None:
        note(f"headrace demo: {result.failure}")
    if result.is_right:
        click.echo("none missing, none wrong, none twice")
    else:
        click.echo("THE ACCOUNT IS WRONG")


def _clients(stack: ExitStack, address: str) -> "DemoCluster":
    from headrace.spark.demo.demonstration import DemoCluster

    return DemoCluster(
        address,
        stack.enter_context(open_admin(address, _TIMEOUT_MS)),
        stack.enter_context(open_producer(address, _TIMEOUT_MS)),
        stack.enter_context(open_consumer(address, _TIMEOUT_MS, isolation_level="read_committed")),
    )


@contextmanager
def _view(log: Path) -> "Iterator[DemoView]":
    from headrace.cli.demo_view import LiveDemoView, PlainView

    if not is_terminal():
        yield PlainView()
        return
    with LiveDemoView() as view, _log_to(log):
        yield view


@contextmanager
def _log_to(file: Path) -> Iterator[None]:
    """What our clients have to say of a node that is gone would run into the picture."""
    ours, handler = logging.getLogger("headrace"), logging.FileHandler(file)
    ours.addHandler(handler)
    ours.propagate = False
    try:
        yield
    finally:
        ours.propagate = True
        ours.removeHandler(handler)
        handler.close()


def _print_account(lines: "Sequence[Line]") -> None:
    rows = [
        (line.name, line.what, line.into, line.out, line.missing, line.wrong, line.again) for line in lines
    ]
    columns = ("FEED OR TABLE", "WHAT", "IN", "OUT", "MISSING", "WRONG", "AGAIN")
    title = "The account: what went in, and what came out"
    print_table(columns, rows, title=title, optional=("WHAT",))


class RunningNodes(NamedTuple):
    """`kill_one` kills a node (kill -9), which is started again."""

    address: str
    kill_one: Callable[[], None]


def node_metrics(own: RunningNodes | None, count: int, port: int) -> list[str]:
    """The addresses of the metrics of nodes that were started here."""
    if own is None or not 0 < port <= _METRICS_FROM_MAX:
        return []
    return [f"http://127.0.0.1:{port + METRICS_ABOVE + number}/metrics" for number in range(count)]


@contextmanager
def running_nodes(count: int, port: int, data: str) -> Iterator[RunningNodes]:
    """A cluster of `count` nodes with its files in `data`, which is stopped in order at the end.

    They run as `headrace start` in a session of their own, so that Ctrl-C reaches only this process.
    """
    command = [sys.executable, "-m", "headrace.cli.main", "start"]
    command += ["--nodes", str(count), "--port", str(port), "--data", data]
    command += ["--set", "transaction.two.phase.commit.enable=true", "--log-level", "warning"]
    if 0 < port <= _METRICS_FROM_MAX:
        address = f"127.0.0.1:{port + METRICS_ABOVE}"
        command += ["--set", f"headrace.metrics.listener=HTTP://{address}"]
        note(f"metrics of the first node will be at http://{address}/metrics")
    log = Path(f"{data}.log")
    # What nodes say would run into the picture; it is quoted where they do not start.
    with log.open("ab") as words:
        nodes = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=words, text=True, start_new_session=True
        )
    try:
        yield RunningNodes(_wait_until_ready(nodes, log), partial(nodes.send_signal, signal.SIGUSR1))
    finally:
        _stop(nodes)


def _wait_until_ready(nodes: "subprocess.Popen[str]", log: Path) -> str:
    assert nodes.stdout is not None, "the output was asked for"
    for line in nodes.stdout:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    raise click.ClickException(f"the cluster did not start: {_why(log, nodes.wait())}")


def _why(log: Path, status: int) -> str:
    """The error that a node ended with; all its last words where it has given none."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    if errors:
        return errors[-1]
    return "\n".join([f"exit code {status}; its last words:", *lines[-_QUOTED_LINES:]])


def _stop(nodes: "subprocess.Popen[str]") -> None:
    if nodes.poll() is None:
        nodes.terminate()
    try:
        nodes.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        nodes.kill()
        nodes.wait()
    assert nodes.stdout is not None, "the output was asked for"
    nodes.stdout.close()
