"""`headrace start`: settings from a file and the command line, then a node until a signal ends it.

Settings are checked before anything heavy is imported, so that a slip is told at once.
"""

import errno
import logging
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headrace.cli.console_process import DEFAULT_LISTEN, BesideConsole
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import print_json_line
from headrace.node.config import DEFAULT_DATA, DEFAULT_PORT, is_secured, load
from headrace.node.secret_files import ExposedFiles, files_with_secrets, forbid_core_dumps
from headrace.telemetry.log_output import LogFormat, set_up

if TYPE_CHECKING:
    from headrace.node.secure_fleet import SecureFleet
    from headrace.settings.broker_config import BrokerConfig

logger = logging.getLogger(__name__)


class NumberOfNodes(click.ParamType[int | None]):
    """A number, or `auto`, which is None until the machine was looked at."""

    name = "nodes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "auto":
            return None
        number: int = click.IntRange(1, 100).convert(value, param, ctx)
        return number


@click.command(
    epilog=examples(
        "headrace start",
        "headrace start --port 9095 --data /var/lib/headrace",
        "headrace start --config server.properties --set log.retention.hours=24",
        "headrace start --port 0        # any free port; the line `headrace ready` tells it",
        "headrace start --nodes 3       # a cluster on ports 9092, 9093 and 9094",
        "headrace start --nodes auto    # as many nodes as this machine has cores for",
        "headrace start --secure --nodes 3   # TLS, logins and access rules from the first minute on",
        "headrace start --console       # and a web console at http://127.0.0.1:8080/",
        "headrace start --log-file headrace.log --log-format json",
    )
)
@click.option(
    "--nodes",
    type=NumberOfNodes(),
    default="1",
    show_default=True,
    metavar="N|auto",
    help="How many nodes to run; auto is one for every two cores.",
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
    "--secure",
    is_flag=True,
    help="Make certificates, users and access rules in DIR/security, and let in who logs in.",
)
@click.option(
    "--console",
    "console_at",
    is_flag=False,
    flag_value=DEFAULT_LISTEN,
    metavar="[HOST:PORT]",
    help=f"Start a web console too, for browsers at HOST:PORT.  [default: {DEFAULT_LISTEN}]",
)
@click.option(
    "--cluster-id",
    envvar="HEADRACE_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    help="Of a cluster of several machines, the same on each; for a folder that is new.",
)
@click.option("--strict", is_flag=True, help="Refuse a FILE with settings that have no effect.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much the node tells of itself.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or JSON objects.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the lines to FILE, which is opened again on SIGHUP.  [default: stderr]",
)
@json_option
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when stdin closes.")
def start(
    nodes: int | None,
    port: int | None,
    data: str | None,
    file: str | None,
    settings: tuple[str, ...],
    secure: bool,
    console_at: str | None,
    cluster_id: str | None,
    strict: bool,
    log_level: str,
    log_format: LogFormat,
    log_file: str | None,
    as_json: bool,
    supervised: bool,
) -> None:
    """Run a node, or several as a cluster, until Ctrl-C or SIGTERM.

    Settings have Kafka's names. When clients can be served, `headrace ready: HOST:PORT` is printed, or with
    --json {"ready": ["HOST:PORT"]}; of a cluster all addresses. Its nodes are processes of their own, with
    their files in DIR/node1, DIR/node2… and ports that follow each other; one that dies is started again.
    Where FILE names controllers (controller.quorum.voters), they are those of one machine of several.
    SIGHUP stops what was started from a terminal, for that has gone, and has a service open its log files
    anew.
    """
    from headrace.node.machine import note_of_unused, usable_cores

    forbid_core_dumps()
    if nodes != 1 or secure:
        voice = Voice(log_level, log_format, log_file)
        plan = FleetPlan(nodes, port, data, file, parse_pairs("--set", settings), secure, cluster_id, strict)
        with BesideConsole(console_at, as_json) as console:
            status = _run_fleet(plan, voice, as_json, console)
        sys.exit(status)
    warnings: list[str] = []
    config = load(file, parse_pairs("--set", settings), port, data, strict=strict, warn=warnings.append)
    for folder in config.log_dirs:
        _refuse_what_is_secured(folder)
    set_up(level=log_level, form=log_format, file=log_file, node_id=config.node_id)
    for text in (*warnings, *map(str, ExposedFiles().among(config.secret_files))):
        logger.warning("%s", text)
    unused = None if supervised else note_of_unused(1, usable_cores())
    if unused is not None:
        logger.info("%s", unused)
    from headrace.base.errors import ApiError
    from headrace.node.lifecycle import run

    try:
        with BesideConsole(console_at, as_json) as console:
            say_ready = partial(_say_ready, config, as_json, supervised, console)
            status = run(config, say_ready, on_progress=_say_progress, supervised=supervised)
    except OSError as error:
        raise click.ClickException(_start_failure(error)) from error
    except ApiError as error:
        raise click.ClickException(f"cannot start: {error}") from error
    sys.exit(status)


class Voice(NamedTuple):
    """What the nodes of a cluster are to log, and where."""

    level: str
    form: str
    file: str | None

    def of_node(self, node_id: int) -> list[str]:
        """The options of one of them; each has a file of its own."""
        words = ["--log-level", self.level, "--log-format", self.form]
        if self.file is not None:
            stem, ending = os.path.splitext(self.file)
            words += ["--log-file", f"{stem}-{node_id}{ending}"]
        return words


class FleetPlan(NamedTuple):
    """What the words ask for; `nodes` is None for as many as the machine has cores for."""

    nodes: int | None
    port: int | None
    data: str | None
    file: str | None
    settings: dict[str, str]
    secure: bool
    cluster_id: str | None
    strict: bool

    def __repr__(self) -> str:
        return (
            f"FleetPlan(nodes={self.nodes}, data={self.data!r}, file={self.file!r})"  # no settings: secrets
        )

    @property
    def folder(self) -> str:
        return DEFAULT_DATA if self.data is None else self.data

    @property
    def first_port(self) -> int:
        return DEFAULT_PORT if self.port is None else self.port

    def given(self) -> dict[str, str]:
        """The settings of the file and of the command line."""
        from headrace.node.properties_file import PropertiesFile, open_properties, warnings

        found = PropertiesFile() if self.file is None else open_properties(self.file)
        for warning in warnings(found, strict=self.strict):
            _say_progress(warning)
        settings = found.broker_settings()
        for exposed in ExposedFiles().among(files_with_secrets(self.file, settings, {})):
            _say_progress(str(exposed))
        return settings | self.settings

    def node_count(self) -> int:
        """How many nodes run; what the folder has goes first, since their data is there."""
        from headrace.node.machine import nodes_for, nodes_in, note_of_unused, usable_cores

        cores = usable_cores()
        count = self.nodes or nodes_in(self.folder) or nodes_for(cores)
        if self.nodes is None:
            what = "node" if count == 1 else "nodes"
            _say_progress(f"{count} {what} for {cores} cores")
        unused = note_of_unused(count, cores)
        if unused is not None:
            _say_progress(unused)
        return count


def _run_fleet(plan: FleetPlan, voice: Voice, as_json: bool, console: BesideConsole) -> int:
    """Format where needed, then keep all nodes running."""
    import asyncio

    from headrace.cli.fleet_ready import until_all_know_all
    from headrace.node.supervisor import Supervisor, node_command

    configs, secured = _fleet(plan)
    commands = [node_command(config.log_dirs[0], voice.of_node(config.node_id)) for config in configs]

    async def on_ready(told: list[str]) -> None:
        addresses = [each.partition(",")[0] for each in told]  # the clients' listener is a node's first
        # Who asks nodes of another kind of listener has no login, and no need to: each of them is ready.
        if configs[0].broker_listeners[0].protocol == "PLAINTEXT" or secured is not None:
            await until_all_know_all(addresses, {} if secured is None else secured.client_settings())
        _tell_ready(addresses, as_json)
        if secured is not None:
            _tell_how_to_connect(secured)
        console.start(addresses, configs, secured)

    return asyncio.run(Supervisor(commands, on_ready=on_ready, say=_say_progress).run())


def _fleet(plan: FleetPlan) -> "tuple[list[BrokerConfig], SecureFleet | None]":
    """The settings of the nodes, whose folders are formatted."""
    import random

    from headrace.node.fleet import fleet_configs, format_fleet, format_machine
    from headrace.node.machine import is_one_of_several, machine_configs, machine_name

    given, count, rng = plan.given(), plan.node_count(), random.SystemRandom()
    rack = machine_name() if plan.nodes is None else None
    if plan.secure:
        from headrace.node.secure_fleet import SecureFleet

        secured = SecureFleet(plan.folder, count, rack)
        configs = _secure_configs(secured, plan.first_port, plan.folder, given)
        format_fleet(configs, rng, secured.bootstrap(rng))
        return configs, secured
    _refuse_what_is_secured(plan.folder)
    if is_one_of_several(given):
        configs = machine_configs(count, plan.folder, given, machine_name())
        format_machine(configs, rng, plan.cluster_id)
        return configs, None
    configs = fleet_configs(count, plan.first_port, plan.folder, given, rack=rack)
    format_fleet(configs, rng)
    return configs, None


def _secure_configs(
    secured: "SecureFleet", port: int, folder: str, settings: dict[str, str]
) -> "list[BrokerConfig]":
    """The settings of the nodes, and all files that they and their clients need."""
    from headrace.node.fleet import cluster_of

    configs = secured.configs(port, folder, settings)
    if any(map(cluster_of, configs)) and not secured.is_there:
        raise click.ClickException(
            f"{folder} has a cluster that was made without --secure, which has no users: choose another "
            "folder with --data, or start it without --secure"
        )
    secured.prepare(_say_progress)
    secured.write_client_files(configs)
    return configs


def _refuse_what_is_secured(folder: str) -> None:
    """Nobody opens a cluster to everyone by leaving a word out."""
    if is_secured(folder):
        raise click.ClickException(
            f"{folder} has a cluster that was made with --secure: start it with --secure, or choose another "
            "folder with --data"
        )


def _tell_how_to_connect(secured: "SecureFleet") -> None:
    admin, app = (secured.folder / f"{user}.properties" for user in ("admin", "app"))
    _say_progress(f"logins, certificates and client settings are in {secured.folder}")
    _say_progress(f"  headrace topic list --command-config {admin}")
    _say_progress(f"  kafka-topics.sh --bootstrap-server ADDRESS --list --command-config {admin}")
    _say_progress(f"  kcat -F {app.with_suffix('')}.librdkafka.properties -L")
    _say_progress(f"  Producer(json.load(open({str(app.with_suffix('.json'))!r})))  # Python")


def _say_ready(
    config: "BrokerConfig",
    as_json: bool,
    supervised: bool,
    console: BesideConsole,
    addresses: list[tuple[str, int]],
) -> None:
    places = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses]
    if supervised:
        _print_ready(places, as_json)
    else:
        _tell_ready(places, as_json)
        console.start(places[:1], [config])


def _tell_ready(addresses: list[str], as_json: bool) -> None:
    """To whoever reads, and to systemd where it started this."""
    from headrace.transport.system_network import tell_service_manager

    _print_ready(addresses, as_json)
    tell_service_manager("READY=1")


def _print_ready(addresses: list[str], as_json: bool) -> None:
    if as_json:
        print_json_line({"ready": addresses})
    else:
        click.echo(f"headrace ready: {','.join(addresses)}")


def _say_progress(text: str) -> None:
    click.echo(f"headrace: {text}", err=True)


def _start_failure(error: OSError) -> str:
    text = f"cannot start: {error.filename or ''}{': ' if error.filename else ''}{error.strerror or error}"
    if error.errno == errno.EADDRINUSE:
        return f"{text}; another program listens there, choose another port with --port"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{text}; choose another folder with --data"
    return text
