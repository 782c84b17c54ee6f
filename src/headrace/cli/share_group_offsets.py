"""`headrace share-group reset-offsets` and `delete-offsets`: set where a share group goes on, or forget it.

Both need a group that nobody is in. A reset is planned as `headrace group reset-offsets` plans it
(`group_offsets.py`), shown, and done with --execute only. What was done behind the new start is forgotten:
records there are handed out again, whoever accepted them.
"""

from typing import Any

import click

from headrace.cli.completion import complete_share_groups
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.group_offsets import (
    changes_of,
    chosen_scope,
    chosen_target,
    print_plan,
    target_options,
    topic_option,
)
from headrace.cli.options import confirm, examples, json_option, yes_option
from headrace.cli.output import note, print_json
from headrace.clients import Admin
from headrace.clients.errors import ClientError, GroupBusyError, NoSuchGroupError


@click.command(
    "reset-offsets",
    epilog=examples(
        "headrace share-group reset-offsets --group jobs --topic tasks --to-earliest   # only shows it",
        "headrace share-group reset-offsets --group jobs --topic tasks --to-earliest --execute",
        "headrace share-group reset-offsets --group jobs --topic tasks:0,1 --to-offset 100 --execute",
        "headrace share-group reset-offsets --group jobs --all-topics --to-datetime 2026-01-31T12:00:00",
        "headrace share-group reset-offsets --group jobs --all-topics --by-duration 2h --execute",
        "headrace share-group reset-offsets --group jobs --from-file offsets.csv --execute",
    ),
)
@click.option(
    "--group",
    "-g",
    "group_id",
    required=True,
    metavar="GROUP",
    shell_complete=complete_share_groups,
    help="The share group to move.",
)
@topic_option
@click.option("--all-topics", is_flag=True, help="All partitions that the group has read.")
@target_options
@click.option("--execute", is_flag=True, help="Do it; without, it is only shown.")
@click.option("--export", is_flag=True, help="Print the plan as CSV that --from-file takes.")
@cluster_options
@json_option
def reset_offsets(
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    export: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
    **targets: Any,
) -> None:
    """Set where a share group goes on: show what would change, or do it with --execute.

    The group must have no members. All from there on is handed out again, what was accepted before, too.
    Targets that a partition does not hold are moved to its nearest end.
    """
    if export and as_json:
        raise click.UsageError("give one of --export and --json")
    target = chosen_target(targets)
    scope = chosen_scope(target, topics, all_topics)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        _require_empty(admin, group_id)
        stands = {
            each: place.start_offset for each, place in admin.list_share_group_offsets(group_id).items()
        }
        changes = changes_of(admin, group_id, target, scope, stands)
        if execute:
            admin.alter_share_group_offsets(group_id, {each.partition: each.to for each in changes})
    print_plan(group_id, changes, execute=execute, export=export, as_json=as_json)


def _require_empty(admin: Admin, group_id: str) -> None:
    try:
        (described,) = admin.describe_share_groups(group_id)
    except NoSuchGroupError:
        if any(each.group_id == group_id for each in admin.list_groups()):
            raise
        # A start may be laid out for a group before its first member comes; a typing error looks the same.
        note(f"there is no share group {group_id} yet: setting where it stands makes it")
        return
    if described.members:
        raise GroupBusyError(group_id, "reset offsets of", is_share=True)


@click.command(
    "delete-offsets",
    epilog=examples(
        "headrace share-group delete-offsets jobs --topic tasks",
        "headrace share-group delete-offsets jobs --topic tasks --topic mails --yes",
    ),
)
@click.argument("group_id", metavar="GROUP", shell_complete=complete_share_groups)
@click.option("--topic", "-t", "topics", multiple=True, metavar="TOPIC", help="A topic; may be repeated.")
@yes_option
@cluster_options
@json_option
def delete_offsets(
    group_id: str,
    topics: tuple[str, ...],
    yes: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Forget where a share group without members stands in whole topics.

    A member that comes begins there anew, where the group's share.auto.offset.reset says.
    """
    if not topics:
        raise click.UsageError("say what to forget with --topic")
    doomed = sorted(set(topics))
    with open_admin(bootstrap, request_timeout_ms) as admin:
        _require_read(admin, group_id, doomed)
        confirm(f"Delete where share group {group_id} stands in {', '.join(doomed)}?", yes)
        admin.delete_share_group_offsets(group_id, doomed)
    if as_json:
        print_json({"group": group_id, "deleted": [{"topic": each} for each in doomed]})
    else:
        click.echo(f"deleted where share group {group_id} stood in {', '.join(doomed)}")


def _require_read(admin: Admin, group_id: str, topics: list[str]) -> None:
    """ClientError for a topic that there is nothing to forget of: a typing error looks like that."""
    admin.describe_share_groups(group_id)
    known = {each.topic for each in admin.list_share_group_offsets(group_id)}
    for topic in topics:
        if topic not in known:
            advice = f"`headrace share-group describe {group_id}` shows what it has read"
            raise ClientError(f"share group {group_id!r} has read nothing of topic {topic!r}: {advice}")
