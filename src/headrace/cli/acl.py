"""`headrace acl`: who may do what to which topics, groups, transactional ids and to the cluster.

A rule names one principal, operation and resource; `add` makes one for each of those that are given. The
options are those of Kafka's kafka-acls, with its short forms for producers and consumers.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, Final, TypeVar

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import confirm, examples, json_option, yes_option
from headrace.cli.output import note, print_json, print_table
from headrace.clients import AclBinding, AclBindingFilter
from headrace.clients.internals.admin.acls import tell
from headrace.security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, Resource

F = TypeVar("F", bound=Callable[..., Any])

_RESOURCES: Final = {
    "topic": "Topics of this name, * for all; may be repeated.",
    "group": "Groups of this name, * for all; may be repeated.",
    "transactional-id": "Transactional ids of this name, * for all; may be repeated.",
    "delegation-token": "Delegation tokens of this id; may be repeated.",
    "user": "Users for whom tokens are made, as User:alice; may be repeated.",
}
_COLUMNS: Final = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST")
_PRODUCER: Final = (("topic", ("write", "describe", "create")), ("transactional_id", ("describe", "write")))
_CONSUMER: Final = (("topic", ("read", "describe")), ("group", ("read",)))


def resource_options(command: F) -> F:
    """`--topic NAME`, `--group NAME` and so on, and `--prefix` for what they mean."""
    command = click.option("--prefix", "is_prefix", is_flag=True, help="The names are beginnings of names.")(
        command
    )
    command = click.option("--cluster", "on_cluster", is_flag=True, help="The cluster itself.")(command)
    for name in reversed(_RESOURCES):
        command = click.option(f"--{name}", multiple=True, metavar="NAME", help=_RESOURCES[name])(command)
    return command


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace acl add --principal User:alice --producer --topic orders",
        "headrace acl list --topic orders",
        "headrace acl remove --principal User:alice --topic orders",
    ),
)
def acl() -> None:
    """Add, list and remove access rules.

    They count where the brokers run with an authorizer: authorizer.class.name in their settings.
    """


@acl.command(
    epilog=examples(
        "headrace acl add --principal User:alice --operation read --topic orders",
        "headrace acl add --principal User:alice --consumer --topic orders --group billing",
        "headrace acl add --principal User:loader --producer --topic raw. --prefix",
        "headrace acl add --principal User:bob --operation all --topic '*' --deny --host 10.1.2.3",
    )
)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    required=True,
    help="Who, as User:alice or User:*; may be repeated.",
)
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="WORD",
    help="What: read, write, describe, all …; may be repeated.",
)
@click.option(
    "--producer", is_flag=True, help="All that a producer needs of its topics and transactional ids."
)
@click.option("--consumer", is_flag=True, help="All that a consumer needs of its topics and groups.")
@click.option("--deny", is_flag=True, help="Forbid it, whatever other rules allow.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("*",),
    help="From which address, or range as 10.1.0.0/16; * is any. May be repeated.",
)
@resource_options
@cluster_options
@json_option
def add(bootstrap: str, request_timeout_ms: int, as_json: bool, **given: Any) -> None:
    """Add rules, one for each principal, operation, resource and address."""
    wanted = _bindings(given)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        admin.create_acls(wanted)
    if as_json:
        print_json([each._asdict() for each in wanted])
    else:
        for each in wanted:
            click.echo(f"added: {tell(each)}")


@acl.command(
    "list",
    epilog=examples(
        "headrace acl list",
        "headrace acl list --topic orders           # all that applies to it, by whatever pattern",
        "headrace acl list --principal User:alice --json",
    ),
)
@click.option("--principal", help="Only rules about this principal.")
@click.option("--operation", default="any", metavar="WORD", help="Only rules about this operation.")
@resource_options
@cluster_options
@json_option
def list_acls(bootstrap: str, request_timeout_ms: int, as_json: bool, **given: Any) -> None:
    """List rules: all, or those that apply to a resource or a principal."""
    found: dict[AclBinding, None] = {}
    with open_admin(bootstrap, request_timeout_ms) as admin:
        for wanted in _filters(given, "match"):
            found |= dict.fromkeys(admin.describe_acls(wanted))
    if as_json:
        print_json([each._asdict() for each in found])
    elif not found:
        note("no rule is like that" if _is_narrow(given) else "there are no rules")
    else:
        print_table(_COLUMNS, [_row(each) for each in found], optional=("HOST", "PATTERN"))


@acl.command(
    epilog=examples(
        "headrace acl remove --principal User:alice --topic orders",
        "headrace acl remove --topic raw. --prefix --yes",
    )
)
@click.option("--principal", help="Only rules about this principal.")
@click.option("--operation", default="any", metavar="WORD", help="Only rules about this operation.")
@resource_options
@yes_option
@cluster_options
@json_option
def remove(bootstrap: str, request_timeout_ms: int, as_json: bool, yes: bool, **given: Any) -> None:
    """Remove rules of exactly these names and patterns; those of others stay."""
    if not _is_narrow(given):
        raise click.UsageError("say which rules: give a resource, --principal or --operation")
    gone: dict[AclBinding, None] = {}
    with open_admin(bootstrap, request_timeout_ms) as admin:
        wanted = list(_filters(given, "prefixed" if given["is_prefix"] else "literal"))
        doomed = dict.fromkeys(each for one in wanted for each in admin.describe_acls(one))
        if doomed:
            for each in doomed:
                note(tell(each))
            confirm(f"remove {len(doomed)} rules?", yes)
            for one in wanted:
                gone |= dict.fromkeys(admin.delete_acls(one))
    if as_json:
        print_json([each._asdict() for each in gone])
    elif gone:
        click.echo(f"removed {len(gone)} rules")
    else:
        note("no rule is like that: see what there is with `headrace acl list`")


def _bindings(given: dict[str, Any]) -> list[AclBinding]:
    resources = _resources(given)
    if not resources:
        raise click.UsageError("say what the rules are about: give --topic, --group or --cluster")
    pairs = [(kind, name, what) for kind, name in resources for what in given["operations"]]
    for is_asked, needs in ((given["producer"], _PRODUCER), (given["consumer"], _CONSUMER)):
        if is_asked:
            pairs += [
                (kind, name, what)
                for needed, operations in needs
                for kind, name in resources
                for what in operations
                if kind == needed
            ]
    if not pairs:
        raise click.UsageError("say what may be done: give --operation, --producer or --consumer")
    for kind, _, what in pairs:
        _check_operation(kind, what)
    pattern = "prefixed" if given["is_prefix"] else "literal"
    permission = "deny" if given["deny"] else "allow"
    return [
        AclBinding(principal, what, kind, name, _pattern(kind, pattern), permission, host)
        for principal, (kind, name, what), host in product(
            given["principals"], dict.fromkeys(pairs), given["hosts"]
        )
    ]


def _pattern(kind: str, pattern: str) -> str:
    return "literal" if kind == "cluster" else pattern


def _check_operation(kind: str, what: str) -> None:
    allowed = [each.name.lower() for each in (Operation.ALL, *SUPPORTED_OPERATIONS[Resource[kind.upper()]])]
    if what.lower().replace("-", "_") not in allowed:
        raise click.UsageError(
            f"{what!r} is nothing that can be done to a {kind}: it is one of {', '.join(allowed)}"
        )


def _resources(given: dict[str, Any]) -> list[tuple[str, str]]:
    kinds = [name.replace("-", "_") for name in _RESOURCES]
    named = [(kind, name) for kind in kinds for name in given[kind]]
    return named + ([("cluster", CLUSTER_NAME)] if given["on_cluster"] else [])


def _filters(given: dict[str, Any], pattern: str) -> list[AclBindingFilter]:
    principal, operation = given["principal"], given["operation"]
    resources = _resources(given)
    if not resources:
        return [AclBindingFilter(principal, operation)]
    return [
        AclBindingFilter(principal, operation, kind, name, _pattern(kind, pattern))
        for kind, name in resources
    ]


def _is_narrow(given: dict[str, Any]) -> bool:
    return bool(_resources(given) or given["principal"] or given["operation"] != "any")


def _row(acl: AclBinding) -> tuple[str, ...]:
    return (
        *(acl.principal, acl.permission, acl.operation, acl.resource_type),
        *(acl.resource_name, acl.pattern, acl.host),
    )
