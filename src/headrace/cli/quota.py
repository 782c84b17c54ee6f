"""`headrace quota`: how much of the cluster users, clients and addresses may use.

Limits have short names here; Kafka's own stand beside them in --json and in the help.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option
from headrace.cli.output import note, print_json, print_table
from headrace.clients import Admin, ClientQuota

F = TypeVar("F", bound=Callable[..., Any])

LIMITS: Final = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "mutations": "controller_mutation_rate",
    "connections": "connection_creation_rate",
}
"""Kafka's names of limits by those of the options."""

_HELP: Final = {
    "produce": "Bytes a second that may be produced (producer_byte_rate).",
    "fetch": "Bytes a second that may be fetched (consumer_byte_rate).",
    "request": "Percents of a node's time (request_percentage).",
    "mutations": "Partitions a second that may be made and deleted (controller_mutation_rate).",
    "connections": "New connections a second of an address (connection_creation_rate).",
}

_TYPES: Final = {"user": "user", "client": "client-id", "ip": "ip"}
_DEFAULT: Final = "(default)"


def entity_options(command: F) -> F:
    """Whom quotas bind: `--user NAME` or `--user-default`, and so on."""
    for option in reversed(_TYPES):
        command = click.option(f"--{option}-default", is_flag=True, help=f"Every {option} without its own.")(
            command
        )
        command = click.option(f"--{option}", metavar="NAME", help=f"This {option}.")(command)
    return command


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace quota set --user alice --produce 10000000",
        "headrace quota list",
        "headrace quota remove --user alice --all",
    ),
)
def quota() -> None:
    """Limit what users, clients and addresses may use of the cluster."""


@quota.command(
    "set",
    epilog=examples(
        "headrace quota set --user alice --produce 10000000 --fetch 20000000",
        "headrace quota set --user alice --client loader --request 25",
        "headrace quota set --client-default --produce 1000000    # every client without its own",
        "headrace quota set --ip 10.1.2.3 --connections 20",
    ),
)
@entity_options
@click.option("--produce", type=float, metavar="BYTES", help=_HELP["produce"])
@click.option("--fetch", type=float, metavar="BYTES", help=_HELP["fetch"])
@click.option("--request", type=float, metavar="PERCENT", help=_HELP["request"])
@click.option("--mutations", type=float, metavar="RATE", help=_HELP["mutations"])
@click.option("--connections", type=float, metavar="RATE", help=_HELP["connections"])
@cluster_options
@json_option
def set_quota(bootstrap: str, request_timeout_ms: int, as_json: bool, **given: Any) -> None:
    """Set quotas of a user, a client, both, or an address.

    Of several that fit a client the most specific counts: one for its user and client id before one for its
    user, that before one for its client id, and names before defaults.
    """
    entity = _entity(given)
    limits = {LIMITS[name]: given[name] for name in LIMITS if given[name] is not None}
    if not limits:
        raise click.UsageError(f"nothing to set: give {_options(LIMITS)}")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        admin.alter_client_quotas(entity, set_to=limits)
    if as_json:
        print_json({"entity": entity, "set": limits})
    else:
        click.echo(f"set quotas of {_who(entity)}")


@quota.command("list", epilog=examples("headrace quota list", "headrace quota list --user alice --json"))
@entity_options
@cluster_options
@json_option
def list_quotas(bootstrap: str, request_timeout_ms: int, as_json: bool, **given: Any) -> None:
    """List quotas: all, or those of a user, a client or an address."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.describe_client_quotas(_entity(given, required=False))
    found.sort(key=lambda each: sorted((kind, name or "") for kind, name in each.entity.items()))
    if as_json:
        print_json([each._asdict() for each in found])
    elif not found:
        note("no quotas are set: everyone may use all that there is")
    else:
        _print(found)


@quota.command(
    "remove",
    epilog=examples(
        "headrace quota remove --user alice --limit produce",
        "headrace quota remove --client-default --all",
    ),
)
@entity_options
@click.option("--limit", "names", multiple=True, type=click.Choice(list(LIMITS)), help="A limit to remove.")
@click.option("--all", "everything", is_flag=True, help="All limits that it has.")
@cluster_options
@json_option
def remove_quota(
    names: tuple[str, ...],
    everything: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Remove quotas of a user, a client, both, or an address."""
    entity = _entity(given)
    if bool(names) == everything:
        raise click.UsageError("say what to remove: --limit NAME, or --all")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        there = _limits_of(admin, entity)
        limits = sorted(there) if everything else [LIMITS[name] for name in names]
        missing = [limit for limit in limits if limit not in there]
        if not limits or missing:
            what = ", ".join(missing) or "quota"
            raise click.ClickException(
                f"{_who(entity)} has no {what}; `headrace quota list` shows what is set"
            )
        admin.alter_client_quotas(entity, remove=limits)
    if as_json:
        print_json({"entity": entity, "removed": limits})
    else:
        click.echo(f"removed quotas of {_who(entity)}")


def _entity(given: Mapping[str, Any], *, required: bool = True) -> dict[str, str | None]:
    """Whom the options name."""
    entity: dict[str, str | None] = {}
    for option, kind in _TYPES.items():
        name, is_default = given[option], given[f"{option}_default"]
        if name is not None and is_default:
            raise click.UsageError(f"give --{option} or --{option}-default, not both")
        if name is not None or is_default:
            entity[kind] = name
    if required and not entity:
        raise click.UsageError(f"say whose: {_options(_TYPES)}, or one of their defaults")
    if "ip" in entity and len(entity) > 1:
        raise click.UsageError("an address has quotas of its own: give --ip alone")
    return entity


def _limits_of(admin: Admin, entity: dict[str, str | None]) -> dict[str, float]:
    found = admin.describe_client_quotas(entity, strict=True)
    return found[0].limits if found else {}


def _print(found: list[ClientQuota]) -> None:
    who = [option for option, kind in _TYPES.items() if any(kind in each.entity for each in found)]
    used = [name for name, limit in LIMITS.items() if any(limit in each.limits for each in found)]
    rows = [
        (
            *(_named(each.entity, _TYPES[option]) for option in who),
            *(_number(each.limits.get(LIMITS[name])) for name in used),
        )
        for each in found
    ]
    print_table([*map(str.upper, who), *(_HEADINGS[name] for name in used)], rows, absent="-")


_HEADINGS: Final = {
    "produce": "PRODUCE B/s",
    "fetch": "FETCH B/s",
    "request": "REQUEST %",
    "mutations": "MUTATIONS/s",
    "connections": "CONNECTIONS/s",
}


def _named(entity: Mapping[str, str | None], kind: str) -> str | None:
    return (entity[kind] or _DEFAULT) if kind in entity else None


def _number(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value


def _who(entity: Mapping[str, str | None]) -> str:
    options = {kind: option for option, kind in _TYPES.items()}
    return ", ".join(f"{options[kind]} {_DEFAULT if name is None else name}" for kind, name in entity.items())


def _options(names: Mapping[str, str]) -> str:
    return ", ".join(f"--{name}" for name in names)
