"""`headrace config`: settings of topics, brokers and groups."""

from typing import Final

import click

from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import note, print_json, print_table
from headrace.clients.administering.configs import ConfigValue, ResourceKind
from headrace.settings.sources import Source

_SOURCES: Final = {
    Source.TOPIC: "topic",
    Source.DYNAMIC_BROKER: "broker",
    Source.DYNAMIC_DEFAULT: "all brokers",
    Source.STATIC: "file",
    Source.DEFAULT: "default",
    Source.GROUP: "group",
}

kind_argument = click.argument("kind", type=click.Choice(["topic", "broker", "group"]))
name_argument = click.argument("name", required=False, default="")


@click.group(
    epilog=examples(
        "headrace config describe topic orders", "headrace config alter broker 1 --set log.retention.ms=60000"
    )
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

    A broker is named by its number; without one, the settings that all brokers share are meant.
    """
    resource = _resource(kind, name)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        values = admin.describe_configs(resource, name, docs=docs)
    shown = [each for each in values if everything or each.source != Source.DEFAULT]
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
        admin.alter_configs(resource, name, set_to=set_to, delete=deleted)
    if as_json:
        print_json({"kind": kind, "name": name, "set": set_to, "deleted": list(deleted)})
    else:
        click.echo(f"altered {kind} {name}" if name else f"altered all {kind}s")


def _resource(kind: str, name: str) -> ResourceKind:
    if kind != "broker" and not name:
        raise click.UsageError(f"give the {kind}'s name: headrace config … {kind} NAME")
    return ResourceKind[kind.upper()]


def _value(each: ConfigValue) -> str:
    return "(hidden)" if each.sensitive else (each.value or "")


def _source(each: ConfigValue) -> str:
    return _SOURCES.get(Source(each.source), "unknown") if each.source in list(Source) else "unknown"


def _as_json(each: ConfigValue, docs: bool) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": each.name,
        "value": each.value,
        "source": _source(each),
        "read_only": each.read_only,
        "sensitive": each.sensitive,
    }
    return {**entry, "doc": each.doc} if docs else entry
