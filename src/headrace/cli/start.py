"""`headrace start`: settings from a file and the command line, then a node until a signal ends it.

Settings are checked before anything heavy is imported, so that a slip is told at once.
"""

import errno
import logging
import sys

import click

from headrace.cli.options import examples, parse_pairs
from headrace.node.config import DEFAULT_DATA, DEFAULT_PORT, load


@click.command(
    epilog=examples(
        "headrace start",
        "headrace start --port 9095 --data /var/lib/headrace",
        "headrace start --config server.properties --set log.retention.hours=24",
        "headrace start --port 0        # any free port; the line `headrace ready` tells it",
    )
)
@click.option("--nodes", type=int, default=1, show_default=True, metavar="N", help="How many nodes to run.")
@click.option(
    "--port",
    "-p",
    type=click.IntRange(0, 65535),
    metavar="P",
    help=f"Where clients connect; 0 is a free port.  [default: {DEFAULT_PORT}]",
)
@click.option("--data", "-d", metavar="DIR", help=f"Folder of the logs.  [default: {DEFAULT_DATA}]")
@click.option(
    "--config",
    "-c",
    "file",
    type=click.Path(),
    metavar="FILE",
    help="Kafka's server.properties, or one like it.",
)
@click.option(
    "--set",
    "-s",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="One of Kafka's broker settings; wins over FILE.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="How much the node says on stderr.",
)
def start(
    nodes: int,
    port: int | None,
    data: str | None,
    file: str | None,
    settings: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a node until Ctrl-C or SIGTERM.

    Settings have Kafka's names. When clients can be served, `headrace ready: HOST:PORT` is printed.
    """
    if nodes != 1:
        raise click.BadParameter(
            f"{nodes} nodes cannot be run yet, only 1: nodes do not replicate to each other.",
            param_hint="'--nodes'",
        )
    config = load(file, parse_pairs("--set", settings), port, data)
    logging.basicConfig(
        level=log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    from headrace.node.lifecycle import run

    try:
        status = run(config, _say_ready, on_progress=_say_progress)
    except OSError as error:
        raise click.ClickException(_start_failure(error)) from error
    sys.exit(status)


def _say_ready(addresses: list[tuple[str, int]]) -> None:
    places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
    click.echo(f"headrace ready: {places}")


def _say_progress(text: str) -> None:
    click.echo(f"headrace: {text}", err=True)


def _start_failure(error: OSError) -> str:
    text = f"cannot start: {error.filename or ''}{': ' if error.filename else ''}{error.strerror or error}"
    if error.errno == errno.EADDRINUSE:
        return f"{text}; another program listens there, choose another port with --port"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{text}; choose another folder with --data"
    return text
