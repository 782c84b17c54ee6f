"""`headrace console`: the web console of clusters, headrace's or Apache Kafka's, until a signal ends it."""

import asyncio
import ipaddress
import logging
import os
import signal
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import click

from headrace.cli.command_config import command_config, read_command_config, read_settings
from headrace.cli.connecting import bootstrap_option
from headrace.cli.console_process import DEFAULT_LISTEN, READY
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import note, print_json_line
from headrace.clients.config import parse_addresses
from headrace.telemetry.log_output import set_up

if TYPE_CHECKING:
    from headrace.console.cluster_extras import ClusterExtras
    from headrace.console.server import Console

DEFAULT_NAME: Final = "cluster"
_STDIN: Final = 0
_FILE: Final = ".properties"


@click.command(
    epilog=examples(
        "headrace console                                       # of the broker on this machine",
        "headrace console -b kafka-1:9092,kafka-2:9092 --listen 127.0.0.1:9000",
        "headrace console -b kafka-1:9092 --metrics http://kafka-1:9404/metrics --read-only",
        "headrace console --metrics http://127.0.0.1:9500/metrics   # of `pipeline run --metrics`",
        "headrace console -b prod-1:9092 --name prod --cluster staging=staging-1:9092",
        "headrace console --schema-registry http://registry:8081   # Avro, Protobuf, JSON Schema",
        "headrace console -b prod-1:9093 --command-config client.properties   # people log in by SASL",
        "headrace console -b prod-1:9092 --cluster staging=staging.properties --metrics staging=http://s-1:9404",
    )
)
@bootstrap_option
@click.option(
    "--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT", help="Where browsers connect."
)
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="What the first cluster is called.")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME=HOST:PORT,…|FILE",
    help="Another cluster, reached with the same settings, or with those of a .properties file, which names "
    "bootstrap.servers; may be repeated.",
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="[NAME=]URL",
    help="The /metrics of a broker, or of a `pipeline run`, of the first cluster or the one of this name; "
    "may be repeated.",
)
@click.option(
    "--schema-registry",
    "registries",
    multiple=True,
    metavar="[NAME=]URL|FOLDER",
    help="Where the schemas of Avro, Protobuf and JSON are, of the first cluster or the one of this name: a "
    "registry, or a folder of SUBJECT/ID.avsc, .proto or .json; may be repeated.",
)
@click.option(
    "--settings",
    "files",
    multiple=True,
    metavar="[NAME=]FILE",
    help="More of what there is beside a cluster, in .properties form: schema.registry.* with credentials, "
    "oidc.* for logins by a provider, mask.* for what is hidden; may be repeated.",
)
@click.option("--read-only", is_flag=True, help="Change nothing, whoever asks.")
@click.option(
    "--anonymous-changes",
    is_flag=True,
    help="Without a login, let everybody who reaches the console from other machines change the cluster.",
)
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name by which browsers know the console."
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Where each change is written as a line of JSON.  [default: stderr]",
)
@json_option
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when stdin closes.")
def console(
    bootstrap: str,
    listen: str,
    name: str,
    clusters: tuple[str, ...],
    metrics: tuple[str, ...],
    registries: tuple[str, ...],
    files: tuple[str, ...],
    read_only: bool,
    anonymous_changes: bool,
    hosts: tuple[str, ...],
    audit_log: str | None,
    as_json: bool,
    supervised: bool,
) -> None:
    """Show clusters in a browser: topics, messages, groups, brokers, access rules.

    It speaks Kafka's protocol and works with any Kafka. Where the settings of --command-config say SASL and
    name nobody, people log in with their own credentials, and the cluster decides what each may do.
    Otherwise everybody has the rights of the console; seen from other machines it is read-only then.

    When browsers can connect, `headrace console ready: URL` is printed, or with --json {"ready": "URL"}.
    """
    from headrace.console.cluster_connection import ClusterSpec
    from headrace.console.server import Console

    [(host, port)] = parse_addresses(listen)
    settings = _settings_of({name: bootstrap, **parse_pairs("--cluster", clusters)})
    urls = _metrics_of(metrics, name, settings)
    beside = _beside(settings, name, registries, files)
    specs = [
        ClusterSpec(each, found, tuple(urls[each]), _extras(beside[each])) for each, found in settings.items()
    ]
    for spec in specs:
        if spec.why_no_login:
            raise click.UsageError(f"cluster {spec.name}: {spec.why_no_login}")
    is_open = not _is_loopback(host) and any(not spec.needs_login for spec in specs)
    if is_open and not (read_only or anonymous_changes):
        note("everybody who reaches this address has the console's rights, so it is read-only;")
        note("let people log in (SASL in --command-config), or give --anonymous-changes")
        read_only = True
    known = frozenset(each.lower() for each in hosts)
    made = Console(specs, hosts=known, is_read_only=read_only)
    set_up(level="info")
    _set_up_audit(audit_log)
    asyncio.run(_run(made, host, port, as_json, supervised))


def _settings_of(named: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """How each cluster is reached: by a file of its own, or at addresses with the settings of all."""
    found = {}
    for name, where in named.items():
        if where.endswith(_FILE):
            found[name] = read_command_config(where)
            if not found[name].get("bootstrap.servers"):
                raise click.UsageError(f"cluster {name}: {where} does not say bootstrap.servers")
        else:
            found[name] = {**command_config(), "bootstrap.servers": where}
    return found


def _metrics_of(given: Iterable[str], first: str, known: Iterable[str]) -> dict[str, list[str]]:
    """The URLs of each cluster; those without a name are the first one's."""
    found: dict[str, list[str]] = {name: [] for name in known}
    for each in given:
        before, is_url, _ = each.partition("://")
        name, is_named, _ = before.partition("=")
        if not is_url:
            raise click.UsageError(f"--metrics {each}: is not URL or NAME=URL")
        if is_named and name not in found:
            raise click.UsageError(f"--metrics {each}: there is no cluster {name}")
        found[name if is_named else first].append(each.removeprefix(f"{name}=") if is_named else each)
    return found


def _beside(
    known: Iterable[str], first: str, registries: Iterable[str], files: Iterable[str]
) -> dict[str, dict[str, str]]:
    """The settings of what is beside each cluster; one that has no NAME= is the first one's."""
    from headrace.console.cluster_extras import NAMES, URL
    from headrace.console.masks import PREFIX

    found: dict[str, dict[str, str]] = {name: {} for name in known}
    for option, given in (("--settings", files), ("--schema-registry", registries)):
        for each in given:
            before, is_named, rest = each.partition("=")
            if not is_named:
                before, rest = first, each
            if before not in found:
                raise click.UsageError(f"{option} {each}: there is no cluster {before}")
            more = (
                read_settings(rest, "console", set(NAMES), prefix=PREFIX)
                if option == "--settings"
                else {URL: rest}
            )
            found[before] |= more
    return found


def _extras(settings: Mapping[str, str]) -> "ClusterExtras":
    from headrace.console.cluster_extras import read_extras
    from headrace.settings.definition import SettingError

    try:
        return read_extras(settings)
    except SettingError as error:
        raise click.UsageError(str(error)) from None


async def _run(made: "Console", host: str, port: int, as_json: bool, supervised: bool) -> None:
    """Until SIGINT or SIGTERM; one that is supervised, also until stdin is closed."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, ended.set)
    if supervised:
        loop.add_reader(_STDIN, _on_stdin, loop, ended)
    try:
        address = await made.open(host, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address with --listen"
        ) from error
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"http://{shown}:{address[1]}/"
    if as_json:
        print_json_line({"ready": url})
    else:
        click.echo(f"{READY}{url}")
    try:
        await ended.wait()
    finally:
        await made.close()


def _on_stdin(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Nobody writes there: it is readable when the process at its other end has ended."""
    if not os.read(_STDIN, 1):
        loop.remove_reader(_STDIN)
        ended.set()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _set_up_audit(file: str | None) -> None:
    """A handler of its own: log lines that repeat are left out, and of changes none may be."""
    handler: logging.Handler = (
        logging.StreamHandler() if file is None else logging.FileHandler(file, "a", "utf-8")
    )
    handler.setFormatter(logging.Formatter('{"at":"%(asctime)s","console":%(message)s}'))
    trail = logging.getLogger("headrace.console.audit")
    trail.addHandler(handler)
    trail.propagate = False
