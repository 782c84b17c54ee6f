"""`headrace group reset-offsets` and `delete-offsets`: move what a group has committed, or forget it.

A reset is planned first and shown; it is done with --execute only. Both need a group that nobody is in, since
members go on from where they are and commit that. The plan is also a file: --export prints it and --from-file
takes it, after somebody has looked at it or as a way back.
"""

import csv
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TextIO, TypeVar

import click

from headrace.base.ids import TopicPartition
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import confirm, examples, json_option, parse_time, yes_option
from headrace.cli.output import note, print_json, print_table
from headrace.clients import Admin, OffsetAndMetadata, OffsetSpec
from headrace.clients.errors import ClientError, GroupBusyError, NoSuchGroupError

_UNIT_MS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_SHORT: Final = re.compile(r"(?:\d+[wdhms])+", re.IGNORECASE)
_ISO: Final = re.compile(
    r"P(?!$)(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?!$)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)

F = TypeVar("F", bound=Callable[..., Any])

_TARGETS: Final = (
    click.option("--to-earliest", is_flag=True, help="To the oldest record."),
    click.option("--to-latest", is_flag=True, help="To the end."),
    click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To this offset."),
    click.option(
        "--to-datetime",
        metavar="TIME",
        help="To the first record at or after this time: ISO 8601 (local where no zone is given).",
    ),
    click.option(
        "--by-duration", metavar="DURATION", help="To so long before now: 90m, 2h, 3d or P1DT12H30M."
    ),
    click.option("--shift-by", type=int, metavar="N", help="So many records ahead, or back where below 0."),
    click.option("--to-current", is_flag=True, help="To where it is; to the end where nothing is committed."),
    click.option(
        "--from-file",
        type=click.File("r", encoding="utf-8"),
        metavar="CSV",
        help="To what a file says in lines of topic,partition,offset; - is stdin.",
    ),
)


class OffsetChange(NamedTuple):
    """One partition's part of a reset. `wanted` differs from `to` where it was out of range."""

    partition: TopicPartition
    current: int | None
    to: int
    wanted: int

    @property
    def is_clipped(self) -> bool:
        return self.wanted != self.to


class ResetTarget(NamedTuple):
    """Where to: which of the options was given, and its value as it is used."""

    kind: str
    value: Any


class Scope(NamedTuple):
    """Which partitions, as the options say it: None for all partitions of a topic."""

    topics: dict[str, set[int] | None]
    all_committed: bool


def target_options(command: F) -> F:
    for option in reversed(_TARGETS):
        command = option(command)
    return command


topic_option = click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P…]",
    help="A topic, or some of its partitions; may be repeated.",
)


@click.command(
    "reset-offsets",
    epilog=examples(
        "headrace group reset-offsets --group billing --topic orders --to-earliest   # only shows it",
        "headrace group reset-offsets --group billing --topic orders --to-earliest --execute",
        "headrace group reset-offsets --group billing --topic orders:0,1 --shift-by -100 --execute",
        "headrace group reset-offsets --group billing --all-topics --by-duration 2h --execute",
        "headrace group reset-offsets --group billing --all-topics --to-current --export > offsets.csv",
        "headrace group reset-offsets --group billing --from-file offsets.csv --execute",
    ),
)
@click.option("--group", "-g", "group_id", required=True, metavar="GROUP", help="The group to move.")
@topic_option
@click.option("--all-topics", is_flag=True, help="All partitions that the group has committed.")
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
    """Move what a group has committed: show what would change, or do it with --execute.

    The group must have no members. Targets that a partition does not hold are moved to its nearest end.
    """
    if export and as_json:
        raise click.UsageError("give one of --export and --json")
    target = chosen_target(targets)
    scope = chosen_scope(target, topics, all_topics)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        _require_empty(admin, group_id)
        committed = {each: place.offset for each, place in admin.group_offsets(group_id).items()}
        changes = changes_of(admin, group_id, target, scope, committed)
        if execute:
            offsets = {each.partition: OffsetAndMetadata(each.to) for each in changes}
            admin.alter_group_offsets(group_id, offsets)
    print_plan(group_id, changes, execute=execute, export=export, as_json=as_json)


def chosen_target(given: dict[str, Any]) -> ResetTarget:
    """Where to, as the options say it."""
    chosen = [(kind, value) for kind, value in given.items() if value is not None and value is not False]
    if len(chosen) != 1:
        names = ", ".join(f"--{kind.replace('_', '-')}" for kind in given)
        raise click.UsageError(f"say where to with exactly one of {names}")
    kind, value = chosen[0]
    if kind == "to_datetime":
        return ResetTarget("time", parse_time(value, "--to-datetime"))
    if kind == "by_duration":
        return ResetTarget("time", max(0, int(time.time() * 1000) - parse_duration(value)))
    if kind == "from_file":
        return ResetTarget(kind, read_offsets(value))
    return ResetTarget(kind, value)


def chosen_scope(target: ResetTarget, topics: tuple[str, ...], all_topics: bool) -> Scope:
    """What to move, as the options say it."""
    if target.kind == "from_file":
        if topics or all_topics:
            raise click.UsageError(
                "--from-file names the partitions itself: leave out --topic and --all-topics"
            )
        chosen: dict[str, set[int] | None] = {}
        for topic, number in target.value:
            numbers = chosen.setdefault(topic, set())
            assert numbers is not None, "a file names every partition"
            numbers.add(number)
        return Scope(chosen, all_committed=False)
    if bool(topics) == all_topics:
        raise click.UsageError("say what to move with --topic or with --all-topics")
    return Scope(parse_topics(topics), all_topics)


def _require_empty(admin: Admin, group_id: str) -> None:
    try:
        described = admin.describe_group(group_id)
    except NoSuchGroupError:
        # Offsets may be laid out for a group before its first member comes; a typing error looks the same.
        note(f"there is no group {group_id} yet: writing its offsets makes it")
        return
    if described.members:
        raise GroupBusyError(group_id, "reset offsets of")


def changes_of(
    admin: Admin, group_id: str, target: ResetTarget, scope: Scope, committed: dict[TopicPartition, int]
) -> list[OffsetChange]:
    """What a reset would do to a group that stands at these offsets."""
    partitions = sorted(committed) if scope.all_committed else partitions_of(admin, scope.topics)
    if not partitions:
        raise ClientError(f"group {group_id!r} has committed nothing: name the topics to move with --topic")
    beginnings = _find(admin, partitions, OffsetSpec.EARLIEST)
    ends = _find(admin, partitions, OffsetSpec.LATEST)
    wanted = _wanted(admin, target, partitions, committed, beginnings, ends)
    if not wanted:
        raise ClientError(
            f"group {group_id!r} has committed nothing there that could be shifted: "
            "use --to-earliest, --to-latest or --to-offset"
        )
    return plan(wanted, committed=committed, beginnings=beginnings, ends=ends)


def partitions_of(admin: Admin, chosen: dict[str, set[int] | None]) -> list[TopicPartition]:
    """The partitions that are meant; ClientError for one that is not there."""
    found = []
    for described in admin.describe_topics(list(chosen)):
        known = [each.number for each in described.partitions]
        numbers = chosen[described.name]
        for number in sorted(numbers or ()):
            if number not in known:
                has = f"it has 0 to {len(known) - 1}"
                raise ClientError(f"topic {described.name!r} has no partition {number}: {has}")
        found += [
            TopicPartition(described.name, each) for each in known if numbers is None or each in numbers
        ]
    return found


def _find(admin: Admin, partitions: list[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, time_ms))
    return {each: place.offset for each, place in found.items()}


def _wanted(
    admin: Admin,
    target: ResetTarget,
    partitions: list[TopicPartition],
    committed: dict[TopicPartition, int],
    beginnings: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The wish for each partition, in range or not."""
    match target.kind:
        case "to_earliest":
            return beginnings
        case "to_latest":
            return ends
        case "to_offset":
            return dict.fromkeys(partitions, target.value)
        case "time":
            # Where all records are older, the next one to come is the first that is not.
            found = _find(admin, partitions, target.value)
            return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}
        case "to_current":
            return {each: committed.get(each, ends[each]) for each in partitions}
        case "shift_by":
            for each in partitions:
                if each not in committed:
                    note(f"{each} stays as it is: nothing is committed there that could be shifted")
            return {each: committed[each] + target.value for each in partitions if each in committed}
    assert target.kind == "from_file", target.kind
    offsets: dict[TopicPartition, int] = target.value
    return offsets


def print_plan(
    group_id: str, changes: list[OffsetChange], *, execute: bool, export: bool, as_json: bool
) -> None:
    """The plan, or what was done."""
    for each in changes:
        if each.is_clipped:
            side = "begins" if each.to > each.wanted else "ends"
            note(f"{each.partition}: {each.wanted} is out of range: goes to {each.to}, where it {side}")
    if as_json:
        entries = [
            {**each.partition._asdict(), "from": each.current, "to": each.to, "wanted": each.wanted}
            for each in changes
        ]
        print_json({"group": group_id, "executed": execute, "changes": entries})
        return
    if export:
        for each in changes:
            click.echo(f"{each.partition.topic},{each.partition.partition},{each.to}")
    else:
        rows = [(*each.partition, each.current, each.to) for each in changes]
        print_table(("TOPIC", "PARTITION", "FROM", "TO"), rows, absent="-")
    note(f"group {group_id} has been moved" if execute else "nothing was changed: --execute does it")


@click.command(
    "delete-offsets",
    epilog=examples(
        "headrace group delete-offsets billing --topic orders",
        "headrace group delete-offsets billing --topic orders:0,1 --topic users --yes",
    ),
)
@click.argument("group_id", metavar="GROUP")
@topic_option
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
    """Forget what a group has committed of topics that none of its members reads now."""
    if not topics:
        raise click.UsageError("say what to forget with --topic")
    chosen = parse_topics(topics)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        doomed = _committed(admin, group_id, chosen)
        confirm(f"Delete the offsets of {', '.join(map(str, doomed))} in group {group_id}?", yes)
        admin.delete_group_offsets(group_id, doomed)
    if as_json:
        print_json({"group": group_id, "deleted": [each._asdict() for each in doomed]})
    else:
        click.echo(f"deleted the offsets of {', '.join(map(str, doomed))} in group {group_id}")


def _committed(admin: Admin, group_id: str, chosen: dict[str, set[int] | None]) -> list[TopicPartition]:
    """What of these topics the group has committed; ClientError where that is not all that was named."""
    committed = admin.group_offsets(group_id)
    if not committed:
        admin.describe_group(group_id)  # a group that is not there is a better answer than what follows
    found = []
    for topic, numbers in chosen.items():
        own = {each.partition for each in committed if each.topic == topic}
        missing = sorted((numbers or set()) - own)
        if missing or not own:
            what = f"partition {missing[0]} of topic {topic!r}" if missing else f"topic {topic!r}"
            advice = f"`headrace group describe {group_id}` shows what it has committed"
            raise ClientError(f"group {group_id!r} has committed nothing of {what}: {advice}")
        found += [TopicPartition(topic, each) for each in sorted(own if numbers is None else numbers)]
    return found


def parse_topics(items: Iterable[str]) -> dict[str, set[int] | None]:
    """TOPIC or TOPIC:0,1,2 items; None stands for all partitions of a topic."""
    chosen: dict[str, set[int] | None] = {}
    for item in items:
        topic, separator, numbers = item.partition(":")
        parts = numbers.split(",") if separator else []
        if not topic or not all(part.strip().isdecimal() for part in parts):
            message = f"{item!r} is neither TOPIC nor TOPIC:PARTITION,PARTITION…"
            raise click.BadParameter(message, param_hint="'--topic'")
        known = chosen.setdefault(topic, set())
        if not separator or known is None:
            chosen[topic] = None
        else:
            known.update(int(part) for part in parts)
    return chosen


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration or of its short form: P1DT12H, 90m, 1h30m."""
    if _SHORT.fullmatch(text):
        pairs = re.findall(r"(\d+)([wdhms])", text.lower())
        return sum(int(count) * _UNIT_MS[unit] for count, unit in pairs)
    found = _ISO.fullmatch(text)
    if found is None:
        message = f"{text!r} is no duration, as 90m, 2h, 3d or, in ISO 8601, P1DT12H30M."
        raise click.BadParameter(message, param_hint="'--by-duration'")
    return sum(round(float(count) * _UNIT_MS[unit]) for unit, count in found.groupdict().items() if count)


def read_offsets(file: TextIO) -> dict[TopicPartition, int]:
    """Lines of topic,partition,offset, as --export prints them."""
    offsets: dict[TopicPartition, int] = {}
    for row in csv.reader(file):
        # What spreadsheets leave behind: spaces, and lines with nothing in them.
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != 3 or not cells[0] or not all(cell.isdecimal() for cell in cells[1:]):
            line = ",".join(row)
            raise ClientError(f"{file.name}: {line!r} is not topic,partition,offset, as --export prints it")
        partition = TopicPartition(cells[0], int(cells[1]))
        if partition in offsets:
            raise ClientError(f"{file.name}: there is more than one line for {partition}; leave one")
        offsets[partition] = int(cells[2])
    if not offsets:
        raise ClientError(f"{file.name}: there are no offsets in it; lines are topic,partition,offset")
    return offsets


def plan(
    wanted: Mapping[TopicPartition, int],
    *,
    committed: Mapping[TopicPartition, int],
    beginnings: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[OffsetChange]:
    """The offsets that are written: never before the oldest record, never behind the end."""
    return [
        OffsetChange(each, committed.get(each), min(max(offset, beginnings[each]), ends[each]), offset)
        for each, offset in sorted(wanted.items())
    ]
