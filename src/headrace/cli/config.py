"""`headrace config`: settings of topics, brokers and groups."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import note, print_json, print_table
from headrace.clients import Admin, ConfigEntry, ResourceKind
from headrace.settings.definition import ConfigSource

_SOURCES: Final = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker",
    ConfigSource.DYNAMIC_DEFAULT: "all brokers",
    ConfigSource.STATIC: "file",
    ConfigSource.DEFAULT: "default",
    ConfigSource.GROUP: "group",
    ConfigSource.BROKER_LOGGER: "logger",
}

kind_argument = click.argument(
    "kind", type=click.Choice(["topic", "broker", "group", "broker-logger", "client-metrics"])
)
name_argument = click.argument("name", required=False, default="")


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace config describe topic orders", "headrace config alter broker 1 --set log.retention.ms=60000"
    ),
)
def config() -> None:
    """Read and change settings of topics, brokers and groups."""


@config.command(
    epilog=examples(
        "headrace config describe topic orders --all",
        "headrace config describe broker 1",
        "headrace config describe broker            # what is set for all brokers",
        "headrace config describe group billing",
    )
)
@kind_argument
@name_argument
@click.option("--all", "-a", "everything", is_flag=True, help="Also what is at its default.")
@click.option("--docs", is_flag=True, help="Also what each setting does.")
@cluster_options
@json_option
def describe(
    kind: str, name: str, everything: bool, docs: bool, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Show settings: those that differ from the default, or --all.

    A broker is named by its number; without one, the settings that all brokers share are meant. The settings
    of a broker-logger are the levels of a broker's loggers.
    """
    resource = _resource(kind, name)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        values = admin.describe_configs(resource, name, docs=docs)
    shown = [each for each in values if everything or each.source != ConfigSource.DEFAULT]
    if as_json:
        print_json([_as_json(each, docs) for each in shown])
    elif not shown:
        note("all settings are at their default; --all shows them")
    else:
        columns = ("SETTING", "VALUE", "FROM", *(("WHAT IT DOES",) if docs else ()))
        rows = [(each.name, _value(each), _source(each), *((each.doc,) if docs else ())) for each in shown]
        print_table(columns, rows)


@config.command(
    epilog=examples(
        "headrace config alter topic orders --set retention.ms=3600000",
        "headrace config alter topic orders --delete retention.ms",
        "headrace config alter broker --set log.cleaner.threads=2     # on all brokers",
        "headrace config alter broker-logger 1 --set headrace.raft=DEBUG    # until node 1 restarts",
    )
)
@kind_argument
@name_argument
@click.option(
    "--set", "-s", "settings", multiple=True, metavar="NAME=VALUE", help="A setting and its new value."
)
@click.option(
    "--delete", "deleted", multiple=True, metavar="NAME", help="A setting to take back to its default."
)
@cluster_options
@json_option
def alter(
    kind: str,
    name: str,
    settings: tuple[str, ...],
    deleted: tuple[str, ...],
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Change settings while the cluster runs."""
    resource = _resource(kind, name)
    set_to = parse_pairs("--set", settings)
    if not set_to and not deleted:
        raise click.UsageError("nothing to alter: give --set or --delete")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        require_settings(admin, resource, name, deleted)
        admin.alter_configs(resource, name, set_to=set_to, delete=deleted)
    if as_json:
        print_json({"kind": kind, "name": name, "set": set_to, "deleted": list(deleted)})
    else:
        click.echo(f"altered {kind} {name}" if name else f"altered all {kind}s")


def require_settings(admin: Admin, kind: ResourceKind, name: str, deleted: Iterable[str]) -> None:
    """A cluster takes back what was never set without a word; here an unknown name is an error."""
    if not deleted:
        return
    known = {each.name for each in admin.describe_configs(kind, name)}
    if kind is ResourceKind.BROKER and not name:
        # What all brokers share is told only where it is set.
        (broker, *_) = admin.describe_cluster().brokers
        known |= {each.name for each in admin.describe_configs(kind, str(broker.node_id))}
    for each in deleted:
        if each not in known:
            near = get_close_matches(each, known, 1)
            hint = f"did you mean {near[0]}?" if near else "`headrace config describe … --all` lists them"
            raise click.ClickException(f"{each} is no setting of a {kind.name.lower()}; {hint}")


def _resource(kind: str, name: str) -> ResourceKind:
    if kind != "broker" and not name:
        raise click.UsageError(f"give the {kind}'s name: headrace config … {kind} NAME")
    return ResourceKind[kind.upper().replace("-", "_")]


def _value(each: ConfigEntry) -> str:
    return "(hidden)" if each.sensitive else (each.value or "")


def _source(each: ConfigEntry) -> str:
    return (
        _SOURCES.get(ConfigSource(each.source), "unknown") if each.source in list(ConfigSource) else "unknown"
    )


def _as_json(each: ConfigEntry, docs: bool) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": each.name,
        "value": each.value,
        "source": _source(each),
        "read_only": each.read_only,
        "sensitive": each.sensitive,
    }
    return {**entry, "doc": each.doc} if docs else entry
