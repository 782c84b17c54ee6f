"""`headrace demo`: a node in a process of its own, sample records, and a view of them until Ctrl-C.

The node runs as `headrace start` in a session of its own, so that Ctrl-C reaches only this process, which
then stops the node in order. Its data lies in a temporary folder that goes away with it, unless --data
names another.
"""

import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final

import click

from headrace.base.clock import SystemClock
from headrace.cli.connecting import open_admin, open_consumer, open_producer
from headrace.cli.demo import View, run_demo
from headrace.cli.demo_view import LiveView, PlainView
from headrace.cli.options import examples
from headrace.cli.output import is_terminal, note

READY: Final = "headrace ready: "
_STOP_SECONDS: Final = 15
_TIMEOUT_MS: Final = 30_000


@click.command(
    epilog=examples(
        "headrace demo",
        "headrace demo --port 9095 --data data      # keep the records",
        "headrace demo --bootstrap-server kafka.example:9092",
    )
)
@click.option(
    "--port",
    "-p",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="P",
    help="The node's port.",
)
@click.option("--data", "-d", metavar="DIR", help="Folder of the node's logs; a temporary one otherwise.")
@click.option(
    "--bootstrap-server",
    "-b",
    "bootstrap",
    metavar="HOST:PORT,…",
    help="Use these brokers instead of starting a node.",
)
@click.option("--topic", default="page-views", show_default=True, help="Where the sample records go.")
@click.option(
    "--rate",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Records a second.",
)
@click.option(
    "--records", "records_max", type=click.IntRange(1), metavar="N", help="Stop after so many records."
)
def demo(
    port: int, data: str | None, bootstrap: str | None, topic: str, rate: int, records_max: int | None
) -> None:
    """Run a node on 127.0.0.1, feed it sample records and watch them arrive. Ctrl-C stops it all."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with ExitStack() as stack:
            address = bootstrap or stack.enter_context(running_node(port, data))
            admin = stack.enter_context(open_admin(address, _TIMEOUT_MS))
            producer = stack.enter_context(open_producer(address, _TIMEOUT_MS))
            consumer = stack.enter_context(open_consumer(address, _TIMEOUT_MS))
            view: View = PlainView()
            if is_terminal():
                view = stack.enter_context(LiveView(address, topic))
            else:
                note(f"headrace demo: reading {topic} at {address}; Ctrl-C stops")
            run_demo(
                admin,
                producer,
                consumer,
                view,
                topic=topic,
                per_second=rate,
                rng=random.Random(),
                clock=SystemClock(),
                records_max=records_max,
            )
    except KeyboardInterrupt:
        note("stopped")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the demonstration as Ctrl-C does."""
    raise KeyboardInterrupt


@contextmanager
def running_node(port: int, data: str | None) -> Iterator[str]:
    """A node in a child process, stopped in order at the end; gives the address for clients."""
    folder = data or tempfile.mkdtemp(prefix="headrace-demo-")
    command = [sys.executable, "-m", "headrace.cli.main", "start", "--port", str(port), "--data", folder]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield _wait_until_ready(node)
    finally:
        _stop(node)
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(node: "subprocess.Popen[str]") -> str:
    assert node.stdout is not None, "the node's output was asked for"
    for line in node.stdout:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    # It has said on stderr why.
    raise click.ClickException(f"the node did not start (exit code {node.wait()})")


def _stop(node: "subprocess.Popen[str]") -> None:
    if node.poll() is None:
        node.terminate()
    try:
        node.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()
    assert node.stdout is not None, "the node's output was asked for"
    node.stdout.close()
