"""`headrace elect`: leaders for partitions, as kafka-leader-election does it.

A partition's preferred leader is its first replica. After a restart others lead until the preferred ones are
elected again, by the controller now and then (auto.leader.rebalance.enable) or by this command at once.
"""

from typing import NamedTuple

import click

from headrace.base.error_codes import ErrorCode
from headrace.base.ids import TopicPartition
from headrace.cli.completion import complete_topics
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.group_offsets import parse_topics, partitions_of
from headrace.cli.options import confirm, examples, json_option
from headrace.cli.output import note, print_json, print_table
from headrace.clients import Admin


class ElectedLeader(NamedTuple):
    """Who leads a partition now, and what became of its election."""

    topic: str
    partition: int
    leader: int | str
    result: str


@click.command(
    epilog=examples(
        "headrace elect --all                       # preferred leaders everywhere",
        "headrace elect orders users:0,1",
        "headrace elect orders:3 --unclean          # any replica leads: what it does not have is lost",
    )
)
@click.argument("topics", nargs=-1, metavar="[TOPIC[:P,P…]]…", shell_complete=complete_topics)
@click.option("--all", "everywhere", is_flag=True, help="All partitions of the cluster.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Let any replica lead a partition that has no leader: records that it does not have are lost.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask before an unclean election.")
@cluster_options
@json_option
def elect(
    topics: tuple[str, ...],
    everywhere: bool,
    unclean: bool,
    yes: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Have the first replica of each partition lead it again; or with --unclean any replica at all."""
    if bool(topics) == everywhere:
        raise click.UsageError("name topics, as orders or orders:0,1, or give --all")
    if unclean:
        where = "all partitions without a leader" if everywhere else ", ".join(topics)
        confirm(f"Elect leaders of {where} that may not have all records?", yes)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        names = [each.name for each in admin.list_topics()] if everywhere else topics
        partitions = partitions_of(admin, parse_topics(names)) if names else []
        before = _leaders(admin, partitions)
        refused = admin.elect_leaders(None if everywhere else partitions, unclean=unclean)
        after = _leaders(admin, partitions)
    results = [
        ElectedLeader(*each, after[each], _result(each, before, after, refused)) for each in partitions
    ]
    _tell(results, as_json)
    failed = {each: code for each, code in refused.items() if code is not ErrorCode.ELECTION_NOT_NEEDED}
    if failed:
        each, code = min(failed.items())
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise click.ClickException(f"no leader was elected for {each}: {_reason(code)}{more}")


def _leaders(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    topics = sorted({each.topic for each in partitions})
    return {
        TopicPartition(each.name, one.number): one.leader
        for each in (admin.describe_topics(topics) if topics else ())
        for one in each.partitions
    }


def _result(
    partition: TopicPartition,
    before: dict[TopicPartition, int],
    after: dict[TopicPartition, int],
    refused: dict[TopicPartition, ErrorCode],
) -> str:
    """Asked for all partitions, a cluster names only those where there was something to do."""
    if partition in refused:
        return _reason(refused[partition])
    return "elected" if before[partition] != after[partition] else _reason(ErrorCode.ELECTION_NOT_NEEDED)


def _tell(results: list[ElectedLeader], as_json: bool) -> None:
    if as_json:
        print_json([each._asdict() for each in results])
        return
    news = [each for each in results if each.result != _reason(ErrorCode.ELECTION_NOT_NEEDED)]
    if news:
        rows = [each._replace(leader="none") if each.leader == -1 else each for each in news]
        print_table(("TOPIC", "PARTITION", "LEADER", "RESULT"), rows)
    else:
        note("every one of these partitions has the leader that it should have")


def _reason(code: ErrorCode) -> str:
    return {
        ErrorCode.ELECTION_NOT_NEEDED: "it leads already",
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "its first replica is down or not in sync",
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "none of its replicas is up",
    }.get(code, code.name.replace("_", " ").lower())
