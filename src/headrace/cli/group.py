"""`headrace group`: list, describe and delete groups; `group_offsets.py` moves what they have committed.

What a group has committed and what its members read are two lists that overlap: a partition may be read and
not committed yet, or committed by members that have left. `describe` shows both, joined by partition.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import click

from headrace.base.ids import TopicPartition
from headrace.cli.command_group import CommandGroup
from headrace.cli.completion import complete_groups
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.group_offsets import delete_offsets, reset_offsets
from headrace.cli.options import choices_option, confirm, examples, json_option, yes_option
from headrace.cli.output import lag_style, note, print_facts, print_json, print_json_rows, print_table
from headrace.clients import Admin, GroupDescription, MemberDescription
from headrace.clients.errors import ClientError, NoSuchGroupError, RefusedError
from headrace.clients.internals.admin.groups import CLASSIC, CONSUMER, SHARE, STREAMS

# Kafka's GroupState and GroupType, of all kinds of groups that a cluster may have.
_STATES: Final = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling", "NotReady"),
)
_TYPES: Final = ("classic", "consumer", "share", "streams")


class PartitionProgress(NamedTuple):
    """How far a group is in a partition; None for what nobody knows."""

    topic: str
    partition: int
    current: int | None
    end: int | None
    lag: int | None
    member: str | None
    instance: str | None
    host: str | None
    client_id: str | None


@click.group(
    cls=CommandGroup,
    epilog=examples(
        "headrace group list",
        "headrace group describe billing",
        "headrace group reset-offsets --group billing --topic orders --to-earliest",
    ),
)
def group() -> None:
    """List, describe, move and delete consumer groups."""


group.add_command(reset_offsets)
group.add_command(delete_offsets)


@group.command(
    "list",
    epilog=examples(
        "headrace group list",
        "headrace group list --state empty --type classic",
        "headrace group list --json | jq -r '.[].group'",
    ),
)
@choices_option("--state", _STATES, "Only groups in this state, as Stable or Empty; may be repeated.")
@choices_option(
    "--type", _TYPES, "Only groups of this type, classic, consumer, share or streams; may be repeated."
)
@cluster_options
@json_option
def list_(
    states: tuple[str, ...], types: tuple[str, ...], bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """List groups."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.list_groups(states=states, types=types)
    rows = [(each.group_id, each.type, each.state, each.protocol_type, each.coordinator) for each in found]
    if as_json:
        print_json_rows(("group", "type", "state", "protocol", "coordinator"), rows)
    elif not rows:
        note("no group is like that" if states or types else "there are no groups: a consumer makes its own")
    else:
        print_table(
            ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR"), rows, optional=("PROTOCOL", "COORDINATOR")
        )


@group.command(
    epilog=examples(
        "headrace group describe billing",
        "headrace group describe billing --members",
        "headrace group describe --all-groups --json",
    )
)
@click.argument("names", nargs=-1, metavar="GROUP…", shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Describe all there are.")
@click.option("--members", "shows_members", is_flag=True, help="Who is in the group, and what each reads.")
@click.option("--state", "shows_state", is_flag=True, help="Only the group itself: state, assignor, members.")
@cluster_options
@json_option
def describe(
    names: tuple[str, ...],
    all_groups: bool,
    shows_members: bool,
    shows_state: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Describe groups: how far they are in each partition, and who reads it."""
    if bool(names) == all_groups:
        raise click.UsageError("name the groups to describe, or give --all-groups")
    if shows_members and shows_state:
        raise click.UsageError("give one of --members and --state")
    result = []
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = _describe_all(admin) if all_groups else [_describe(admin, name) for name in names]
        for number, described in enumerate(found):
            rows = [] if shows_members or shows_state else progress(admin, described)
            if as_json:
                result.append(_as_json(described, rows, shows_members, shows_state))
                continue
            if number:
                click.echo()
            _print_group(described)
            if shows_members:
                _print_members(described)
            elif not shows_state:
                _print_progress(described, rows)
    if as_json:
        print_json(result)
    elif not found:
        note("there are no groups: a consumer makes its own")


def _describe(admin: Admin, name: str) -> GroupDescription:
    try:
        return admin.describe_group(name)
    except NoSuchGroupError as error:
        if any(each.group_id == name for each in admin.list_groups(types=SHARE)):
            advice = f"`headrace share-group describe {name}` describes it"
            raise ClientError(f"group {name!r} is a share group: {advice}") from error
        raise


def _describe_all(admin: Admin) -> list[GroupDescription]:
    """All groups there are; one that is deleted meanwhile is not among them."""
    found = []
    for each in admin.list_groups(types=(CLASSIC, CONSUMER, STREAMS)):
        with contextlib.suppress(NoSuchGroupError):
            found.append(admin.describe_group(each.group_id))
    return found


def progress(admin: Admin, described: GroupDescription) -> list[PartitionProgress]:
    """Every partition that the group has committed or that a member reads."""
    committed = admin.group_offsets(described.group_id)
    readers: dict[TopicPartition, MemberDescription] = {
        partition: member for member in described.members for partition in member.assignment
    }
    partitions = sorted(committed.keys() | readers.keys())
    ends = admin.end_offsets(partitions)
    rows = []
    for each in partitions:
        current = committed[each].offset if each in committed else None
        end = ends.get(each)
        # The end may be older than a commit that was made meanwhile.
        lag = None if current is None or end is None else max(0, end - current)
        reader = readers.get(each)
        identity = (None,) * 4 if reader is None else _identity(reader)
        rows.append(PartitionProgress(*each, current, end, lag, *identity))
    return rows


def _identity(member: MemberDescription) -> tuple[str, str | None, str, str]:
    return member.member_id, member.instance_id, member.host, member.client_id


def _print_group(described: GroupDescription) -> None:
    facts: list[tuple[str, object]] = [
        ("group", described.group_id),
        ("type", described.type),
        ("state", described.state),
        ("assignor", described.protocol),
        ("coordinator", described.coordinator),
        ("members", len(described.members)),
    ]
    if described.epoch is not None:
        facts.append(("epoch", described.epoch))
    print_facts(facts)


def _print_progress(described: GroupDescription, rows: list[PartitionProgress]) -> None:
    if not rows:
        note(f"group {described.group_id} has committed nothing, and no member has partitions")
        return
    columns = ("TOPIC", "PARTITION", "CURRENT", "END", "LAG", "MEMBER", "INSTANCE", "HOST", "CLIENT ID")
    optional = ("HOST", "INSTANCE", "MEMBER", "CLIENT ID")
    print_table(columns, rows, absent="-", styles={"LAG": lag_style}, optional=optional)
    idle = sum(1 for each in described.members if not each.assignment)
    if idle:
        note(f"{idle} of {len(described.members)} members have no partition; --members shows them")


def _print_members(described: GroupDescription) -> None:
    if not described.members:
        note(f"group {described.group_id} has no members")
        return
    rows = [(*_identity(each), assignment_text(each.assignment)) for each in described.members]
    print_table(("MEMBER", "INSTANCE", "HOST", "CLIENT ID", "READS"), rows, absent="-")


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """As `orders:0,1 users:4`, which --topic takes too."""
    numbers: dict[str, list[str]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(own)}" for topic, own in numbers.items())


def _as_json(
    described: GroupDescription, rows: list[PartitionProgress], shows_members: bool, shows_state: bool
) -> dict[str, object]:
    entry: dict[str, object] = {
        "group": described.group_id,
        "type": described.type,
        "state": described.state,
        "protocol": described.protocol_type,
        "assignor": described.protocol,
        "coordinator": described.coordinator,
        "epoch": described.epoch,
        "member_count": len(described.members),
    }
    if shows_members:
        entry["members"] = [
            {
                "member": each.member_id,
                "instance": each.instance_id,
                "host": each.host,
                "client_id": each.client_id,
                "epoch": each.epoch,
                "assignment": [partition._asdict() for partition in each.assignment],
            }
            for each in described.members
        ]
    elif not shows_state:
        entry["partitions"] = [each._asdict() for each in rows]
    return entry


@group.command(epilog=examples("headrace group delete billing", "headrace group delete billing audit --yes"))
@click.argument("names", nargs=-1, required=True, metavar="GROUP…", shell_complete=complete_groups)
@yes_option
@cluster_options
@json_option
def delete(names: tuple[str, ...], yes: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Delete groups without members, and all they have committed."""
    confirm(f"Delete {', '.join(names)} and their offsets?", yes)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        delete_each(names, admin.delete_group, as_json=as_json)


def delete_each(names: Iterable[str], delete_one: Callable[[str], None], *, as_json: bool) -> None:
    """Delete groups, and say which; one that cannot be deleted does not keep the others."""
    deleted = []
    failed: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            delete_one(name)
            deleted.append(name)
        except RefusedError as error:
            failed[name] = str(error)
    if as_json:
        print_json({"deleted": deleted, "failed": failed})
    elif deleted:
        click.echo(f"deleted {', '.join(deleted)}")
    for text in failed.values():
        note(f"Error: {text}")
    if failed:
        raise click.exceptions.Exit(1)
