"""`headrace share-group`: list, describe and delete share groups (KIP-932).

`share_group_offsets.py` moves them.

Where a share group stands in a partition is where its window starts: all before that is done, and the lag is
what behind it is neither done nor given up. Many members may read one partition, so `describe` counts them.
"""

import contextlib
from typing import Final, NamedTuple

import click

from headrace.base.ids import TopicPartition
from headrace.cli.command_group import CommandGroup
from headrace.cli.completion import complete_share_groups
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.group import assignment_text, delete_each
from headrace.cli.options import choices_option, confirm, examples, json_option, yes_option
from headrace.cli.output import lag_style, note, print_facts, print_json, print_json_rows, print_table
from headrace.cli.share_group_offsets import delete_offsets, reset_offsets
from headrace.clients import Admin, ShareGroupDescription
from headrace.clients.errors import NoSuchGroupError
from headrace.clients.internals.admin.groups import SHARE

_STATES: Final = ("Empty", "Stable", "Dead")
_NONE: Final = "there are no share groups: a share consumer (`headrace consume --share GROUP`) makes its own"


class SharePartitionProgress(NamedTuple):
    """Where a group stands in a partition; None for what nobody knows."""

    topic: str
    partition: int
    start: int | None
    end: int | None
    lag: int | None
    members: int


@click.group(
    "share-group",
    cls=CommandGroup,
    epilog=examples(
        "headrace share-group list",
        "headrace share-group describe jobs",
        "headrace share-group reset-offsets --group jobs --topic tasks --to-earliest",
    ),
)
def share_group() -> None:
    """List, describe, move and delete share groups, whose members take records as out of a queue.

    Their settings are changed by `headrace config alter group`, as share.auto.offset.reset, which says where
    a new group begins.
    """


share_group.add_command(reset_offsets)
share_group.add_command(delete_offsets)


@share_group.command(
    "list",
    epilog=examples(
        "headrace share-group list",
        "headrace share-group list --state empty",
        "headrace share-group list --json | jq -r '.[].group'",
    ),
)
@choices_option("--state", _STATES, "Only groups in this state, as Stable or Empty; may be repeated.")
@cluster_options
@json_option
def list_(states: tuple[str, ...], bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """List share groups."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = admin.list_groups(states=states, types=SHARE)
    rows = [(each.group_id, each.state, each.coordinator) for each in found]
    if as_json:
        print_json_rows(("group", "state", "coordinator"), rows)
    elif not rows:
        note("no share group is like that" if states else _NONE)
    else:
        print_table(("GROUP", "STATE", "COORDINATOR"), rows, optional=("COORDINATOR",))


@share_group.command(
    epilog=examples(
        "headrace share-group describe jobs",
        "headrace share-group describe jobs --members",
        "headrace share-group describe --all-groups --json",
    )
)
@click.argument("names", nargs=-1, metavar="GROUP…", shell_complete=complete_share_groups)
@click.option("--all-groups", is_flag=True, help="Describe all share groups there are.")
@click.option("--offsets", "shows", flag_value="offsets", help="Where it stands; so without an option, too.")
@click.option("--members", "shows", flag_value="members", help="Who is in the group, and what each reads.")
@click.option("--state", "shows", flag_value="state", help="Only the group itself: state, assignor, members.")
@cluster_options
@json_option
def describe(
    names: tuple[str, ...],
    all_groups: bool,
    shows: str | None,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Describe share groups: where they stand in each partition, and how many members read it."""
    if bool(names) == all_groups:
        raise click.UsageError("name the share groups to describe, or give --all-groups")
    shows = shows or "offsets"
    result = []
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = _describe_all(admin) if all_groups else admin.describe_share_groups(names)
        for number, described in enumerate(found):
            rows = progress(admin, described) if shows == "offsets" else []
            if as_json:
                result.append(_as_json(described, rows, shows))
                continue
            if number:
                click.echo()
            _print_group(described)
            if shows == "members":
                _print_members(described)
            elif shows == "offsets":
                _print_progress(described, rows)
    if as_json:
        print_json(result)
    elif not found:
        note(_NONE)


def _describe_all(admin: Admin) -> list[ShareGroupDescription]:
    """All share groups there are; one that is deleted meanwhile is not among them."""
    found: list[ShareGroupDescription] = []
    for each in admin.list_groups(types=SHARE):
        with contextlib.suppress(NoSuchGroupError):
            found += admin.describe_share_groups(each.group_id)
    return found


def progress(admin: Admin, described: ShareGroupDescription) -> list[SharePartitionProgress]:
    """Every partition that the group has read or that a member is to read."""
    stands = admin.list_share_group_offsets(described.group_id)
    readers: dict[TopicPartition, int] = {}
    for member in described.members:
        for each in member.assignment:
            readers[each] = readers.get(each, 0) + 1
    partitions = sorted(stands.keys() | readers.keys())
    ends = admin.end_offsets(partitions)
    rows = []
    for each in partitions:
        start, lag = (stands[each].start_offset, stands[each].lag) if each in stands else (None, None)
        rows.append(SharePartitionProgress(*each, start, ends.get(each), lag, readers.get(each, 0)))
    return rows


def _print_group(described: ShareGroupDescription) -> None:
    print_facts(
        [
            ("group", described.group_id),
            ("state", described.state),
            ("assignor", described.assignor),
            ("coordinator", described.coordinator),
            ("members", len(described.members)),
            ("epoch", described.epoch),
        ]
    )


def _print_progress(described: ShareGroupDescription, rows: list[SharePartitionProgress]) -> None:
    if not rows:
        note(f"share group {described.group_id} has read nothing, and no member has partitions")
        return
    columns = ("TOPIC", "PARTITION", "START", "END", "LAG", "MEMBERS")
    print_table(columns, rows, absent="-", styles={"LAG": lag_style}, optional=("MEMBERS",))


def _print_members(described: ShareGroupDescription) -> None:
    if not described.members:
        note(f"share group {described.group_id} has no members")
        return
    rows = [
        (each.member_id, each.host, each.client_id, assignment_text(each.assignment))
        for each in described.members
    ]
    print_table(("MEMBER", "HOST", "CLIENT ID", "READS"), rows, absent="-", optional=("HOST",))


def _as_json(
    described: ShareGroupDescription, rows: list[SharePartitionProgress], shows: str
) -> dict[str, object]:
    entry: dict[str, object] = {
        "group": described.group_id,
        "state": described.state,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "member_count": len(described.members),
    }
    if shows == "members":
        entry["members"] = [
            {
                "member": each.member_id,
                "host": each.host,
                "client_id": each.client_id,
                "rack": each.rack_id,
                "epoch": each.epoch,
                "subscription": each.subscription,
                "assignment": [partition._asdict() for partition in each.assignment],
            }
            for each in described.members
        ]
    elif shows == "offsets":
        entry["partitions"] = [each._asdict() for each in rows]
    return entry


@share_group.command(
    epilog=examples("headrace share-group delete jobs", "headrace share-group delete jobs audit --yes")
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP…", shell_complete=complete_share_groups)
@yes_option
@cluster_options
@json_option
def delete(names: tuple[str, ...], yes: bool, bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """Delete share groups without members, and where they stand."""
    confirm(f"Delete {', '.join(names)} and where they stand?", yes)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        delete_each(names, admin.delete_share_groups, as_json=as_json)
