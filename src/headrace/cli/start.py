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
        "headrace start --nodes 3       # a cluster on ports 9092, 9093 and 9094",
    )
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="How many nodes to run.",
)
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
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when stdin closes.")
def start(
    nodes: int,
    port: int | None,
    data: str | None,
    file: str | None,
    settings: tuple[str, ...],
    log_level: str,
    supervised: bool,
) -> None:
    """Run a node, or several as a cluster, until Ctrl-C or SIGTERM.

    Settings have Kafka's names. When clients can be served, `headrace ready: HOST:PORT` is printed; of a
    cluster all addresses. Its nodes are processes of their own, with their files in DIR/node1, DIR/node2…
    and ports that follow each other; one that dies is started again.
    """
    if nodes > 1:
        sys.exit(_run_fleet(nodes, port, data, file, parse_pairs("--set", settings), log_level))
    config = load(file, parse_pairs("--set", settings), port, data)
    logging.basicConfig(
        level=log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    from headrace.base.errors import ApiError
    from headrace.node.lifecycle import run

    try:
        status = run(config, _say_ready, on_progress=_say_progress, supervised=supervised)
    except OSError as error:
        raise click.ClickException(_start_failure(error)) from error
    except ApiError as error:
        raise click.ClickException(f"cannot start: {error}") from error
    sys.exit(status)


def _run_fleet(
    nodes: int,
    port: int | None,
    data: str | None,
    file: str | None,
    settings: dict[str, str],
    log_level: str,
) -> int:
    """Format where needed, then keep all nodes running."""
    import asyncio
    import random

    from headrace.cli.fleet_ready import until_all_know_all
    from headrace.node.config import read_properties_file
    from headrace.node.fleet import fleet_configs, format_fleet
    from headrace.node.supervisor import Supervisor, node_command

    given = ({} if file is None else read_properties_file(file)) | settings
    first_port = DEFAULT_PORT if port is None else port
    configs = fleet_configs(nodes, first_port, DEFAULT_DATA if data is None else data, given)
    format_fleet(configs, random.SystemRandom())
    commands = [node_command(config.log_dirs[0], log_level) for config in configs]

    async def on_ready(addresses: list[str]) -> None:
        await until_all_know_all(addresses)
        click.echo(f"headrace ready: {','.join(addresses)}")

    return asyncio.run(Supervisor(commands, on_ready=on_ready, say=_say_progress).run())


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
