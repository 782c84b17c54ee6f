"""Where a topic's partitions begin and end: `headrace topic offsets` and `trim`, and figures for `describe`.

Offsets come from ListOffsets, sizes from DescribeLogDirs of each leader, lag from what groups have committed.
Trimming is Kafka's DeleteRecords: the start of a partition moves forward, and what lies before it is gone.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import click

from headrace.base.ids import TopicPartition
from headrace.cli.completion import complete_topics
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.group_offsets import parse_duration, parse_topics, partitions_of
from headrace.cli.options import confirm, examples, json_option, parse_time, yes_option
from headrace.cli.output import note, print_json_rows, print_table
from headrace.clients import Admin, OffsetSpec, TopicDescription
from headrace.clients.errors import ClientError

GROUPS_MAX: Final = 100
"""To learn what a group has committed takes a request: `describe` asks more of them only where it is told."""


class PartitionFigures(NamedTuple):
    """What a partition holds; None for what nobody could tell."""

    start: int | None
    end: int | None
    size_bytes: int | None


class GroupLag(NamedTuple):
    """How far a group is behind in a topic: over how many partitions that it has committed, and the most."""

    group: str
    partitions: int
    lag: int
    lag_max: int


def figures_of(admin: Admin, described: Iterable[TopicDescription]) -> dict[TopicPartition, PartitionFigures]:
    """Start, end and size of every partition that has a leader."""
    led = {
        TopicPartition(topic.name, each.number): each.leader
        for topic in described
        for each in topic.partitions
        if each.leader >= 0
    }
    starts = _asked(admin, led, OffsetSpec.EARLIEST)
    ends = _asked(admin, led, OffsetSpec.LATEST)
    sizes = local_bytes(admin, led.values())
    return {
        each: PartitionFigures(starts.get(each), ends.get(each), sizes.get((leader, each)))
        for each, leader in led.items()
    }


def _asked(admin: Admin, partitions: Iterable[TopicPartition], place: int) -> dict[TopicPartition, int]:
    """Of what cannot be told now, the rest of the description still can."""
    try:
        return offsets_at(admin, partitions, place)
    except ClientError as error:
        note(f"offsets are not shown: {error}")
        return {}


def offsets_at(admin: Admin, partitions: Iterable[TopicPartition], place: int) -> dict[TopicPartition, int]:
    """The offset at a time or an `OffsetSpec` of each partition; below 0 where there is none."""
    wanted = dict.fromkeys(partitions, place)
    if not wanted:
        return {}
    return {each: found.offset for each, found in admin.list_offsets(wanted).items()}


def local_bytes(admin: Admin, nodes: Iterable[int]) -> dict[tuple[int, TopicPartition], int]:
    """What each partition takes on each of these brokers."""
    found: dict[tuple[int, TopicPartition], int] = {}
    for node in sorted(set(nodes)):
        try:
            log_dirs = admin.describe_log_dirs(node)
        except ClientError as error:
            note(f"sizes on broker {node} are not shown: {error}")
            continue
        for log_dir in log_dirs:
            found |= {(node, partition): size for partition, size in log_dir.partitions.items()}
    return found


def lags_of(
    admin: Admin, figures: Mapping[TopicPartition, PartitionFigures], wanted: bool | None
) -> dict[str, list[GroupLag]]:
    """For each topic, the groups that have committed there. Without a wish, where they are not too many."""
    if wanted is False:
        return {}
    try:
        groups = [each.group_id for each in admin.list_groups()]
        if wanted is None and len(groups) > GROUPS_MAX:
            note(f"the lag of {len(groups)} groups is not shown: --groups asks them all")
            return {}
        return _lags(admin, figures, groups)
    except ClientError as error:
        note(f"the lag of groups is not shown: {error}")
        return {}


def _lags(
    admin: Admin, figures: Mapping[TopicPartition, PartitionFigures], groups: Iterable[str]
) -> dict[str, list[GroupLag]]:
    found: dict[str, list[GroupLag]] = {}
    for group in groups:
        behind: dict[str, list[int]] = {}
        for each, place in admin.group_offsets(group).items():
            end = figures[each].end if each in figures else None
            if end is not None:
                behind.setdefault(each.topic, []).append(max(0, end - place.offset))
        for topic, lags in behind.items():
            found.setdefault(topic, []).append(GroupLag(group, len(lags), sum(lags), max(lags)))
    return found


topics_argument = click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC[:P,P…]…", shell_complete=complete_topics
)


@click.command(
    epilog=examples(
        "headrace topic offsets orders",
        "headrace topic offsets orders:0,1 users --json",
        "headrace topic offsets orders --at 2026-01-31T12:00:00",
    )
)
@topics_argument
@click.option(
    "--at",
    metavar="TIME",
    help="Also the first offset of this time or later: ISO 8601 (local where no zone is given) or ms.",
)
@cluster_options
@json_option
def offsets(
    topics: tuple[str, ...], at: str | None, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Show where partitions begin and end, and where a time is."""
    time_ms = None if at is None else parse_time(at, "--at")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        partitions = partitions_of(admin, parse_topics(topics))
        starts, ends = (
            offsets_at(admin, partitions, place) for place in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        found = {} if time_ms is None else offsets_at(admin, partitions, time_ms)
    # Where all records are older there is none: None says so.
    places = {each: found[each] if found.get(each, -1) >= 0 else None for each in found}
    columns = ("topic", "partition", "start", "end", "offsets")
    rows: list[tuple[object, ...]] = [
        (*each, starts[each], ends[each], ends[each] - starts[each], *([places[each]] if found else ()))
        for each in partitions
    ]
    names = (*columns, "at") if found else columns
    if as_json:
        print_json_rows(names, rows)
    else:
        print_table([each.upper() for each in names], rows, absent="-", optional=("OFFSETS",))


@click.command(
    epilog=examples(
        "headrace topic trim orders --to-offset 1000",
        "headrace topic trim orders:0 --to-latest --yes          # everything that is there now",
        "headrace topic trim orders --by-duration 2d             # all that is older",
    )
)
@topics_argument
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="Records before this offset go.")
@click.option("--to-latest", is_flag=True, help="All records go that are there now.")
@click.option("--to-datetime", metavar="TIME", help="Records before this time go.")
@click.option("--by-duration", metavar="DURATION", help="Records go that are older: 90m, 2h, 3d, P1DT12H.")
@yes_option
@cluster_options
@json_option
def trim(
    topics: tuple[str, ...],
    yes: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
    **targets: Any,
) -> None:
    """Delete the oldest records of partitions: their start moves forward, and never back."""
    given = {name: value for name, value in targets.items() if value is not None and value is not False}
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in targets)
        raise click.UsageError(f"say where to with exactly one of {names}")
    with open_admin(bootstrap, request_timeout_ms) as admin:
        partitions = partitions_of(admin, parse_topics(topics))
        starts, ends = (
            offsets_at(admin, partitions, place) for place in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        wanted = _wanted(admin, partitions, ends, *given.popitem())
        _note_clipped(wanted, ends)
        plan = {
            each: offset for each in partitions if (offset := min(wanted[each], ends[each])) > starts[each]
        }
        count = sum(offset - starts[each] for each, offset in plan.items())
        if plan:
            confirm(f"Delete up to {count} records of {', '.join(map(str, plan))}?", yes)
            admin.delete_records(plan)
    rows = [(*each, starts[each], plan.get(each, starts[each])) for each in partitions]
    if as_json:
        print_json_rows(("topic", "partition", "from", "to"), rows)
    elif plan:
        print_table(("TOPIC", "PARTITION", "FROM", "TO"), rows)
    else:
        note("there is nothing before that place: nothing was deleted")


def _wanted(
    admin: Admin, partitions: list[TopicPartition], ends: dict[TopicPartition, int], kind: str, value: Any
) -> dict[TopicPartition, int]:
    if kind == "to_latest":
        return ends
    if kind == "to_offset":
        return dict.fromkeys(partitions, value)
    if kind == "to_datetime":
        time_ms = parse_time(value, "--to-datetime")
    else:
        time_ms = max(0, int(time.time() * 1000) - parse_duration(value))
    found = offsets_at(admin, partitions, time_ms)
    return {each: offset if offset >= 0 else ends[each] for each, offset in found.items()}


def _note_clipped(wanted: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> None:
    for each, offset in wanted.items():
        if offset > ends[each]:
            note(f"{each}: {offset} is beyond its end: is cut at {ends[each]}, where it ends")
