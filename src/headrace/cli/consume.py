"""`headrace consume`: records of topics, as lines.

Where to begin: the end (to watch what comes), the beginning, an offset or a time. When to stop, whichever
comes first: after so many records, after so long a silence, or, when one began before the end and did not
ask to follow, where the end was at the start.

With a group it is a member: it gets a share of the partitions, begins where the group is, and commits what it
has printed, no more. With a share group it takes records as out of a queue (`consume_share.py`).
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from headrace.base.ids import TopicPartition
from headrace.cli.completion import complete_groups, complete_share_groups, complete_topics
from headrace.cli.connecting import cluster_options, open_admin, open_consumer, open_share_consumer
from headrace.cli.consume_share import ANSWERS, consume_shared, share_settings
from headrace.cli.options import examples, parse_time, unescaped
from headrace.cli.output import note, print_json_line
from headrace.cli.record_text import record_json, record_template
from headrace.clients import Consumer, ConsumerRecord
from headrace.clients.errors import ClientError

if TYPE_CHECKING:
    from headrace.cli.record_text import AnyRecord

_POLL_MS: Final = 500
_POLL_RECORDS: Final = 500
_JOIN_S: Final = 10.0
_SIDES: Final = {"beyond its end": "ends", "gone": "begins"}


@click.command(
    epilog=examples(
        "headrace consume orders                              # what comes from now on, until Ctrl-C",
        "headrace consume orders --from-beginning             # all there is",
        "headrace consume orders --from-beginning --follow    # all there is and all that comes",
        "headrace consume orders --partition 0 --offset 1000 --max-messages 10 --format json",
        "headrace consume orders --timestamp 2026-01-31T12:00:00",
        "headrace consume orders users --from-beginning -f '%t[%p]@%o %k: %s\\n'",
        "headrace consume --pattern 'orders-.*' --group audit -n 100",
        "headrace consume tasks --share jobs                  # as out of a queue: each is accepted",
        "headrace consume tasks --share jobs --ack release -n 5 -f '%D %s\\n'",
    )
)
@click.argument("topics", nargs=-1, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--pattern", metavar="REGEX", help="Topics whose whole name matches, instead of TOPIC….")
@click.option(
    "--group",
    "-g",
    "group_id",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of this group: begin where it is, and commit what is printed.",
)
@click.option(
    "--share",
    metavar="GROUP",
    shell_complete=complete_share_groups,
    help="Take records as a member of this share group: each is held, printed and answered for.",
)
@click.option(
    "--ack",
    type=click.Choice(sorted(ANSWERS)),
    help="With --share, what becomes of a printed record: it is done (accept, the default), is handed out "
    "again up to the group's delivery limit (release), or never again (reject).",
)
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record.")
@click.option(
    "--offset", type=int, metavar="N", help="Begin at this offset; below 0: this many before the end."
)
@click.option(
    "--timestamp",
    metavar="TIME",
    help="Begin at this time: ISO 8601 (local where no zone is given) or milliseconds.",
)
@click.option(
    "--partition",
    "-p",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; may be repeated.",
)
@click.option("--max-messages", "-n", type=click.IntRange(1), metavar="N", help="Stop after so many records.")
@click.option(
    "--timeout-ms", type=click.IntRange(1), metavar="MS", help="Stop when nothing has come for so long."
)
@click.option("--follow", is_flag=True, help="Do not stop at the end.")
@click.option(
    "--format",
    "-f",
    "form",
    default="value",
    show_default=True,
    metavar="value|key|json|TEXT",
    help="What is printed: the value, key and value, all as JSON, or a text with %s and the like, as kcat's.",
)
@click.option(
    "--key-separator",
    "-k",
    default=r"\t",
    show_default=True,
    metavar="TEXT",
    help="Between key and value in the format `key`.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@cluster_options
def consume(
    topics: tuple[str, ...],
    pattern: str | None,
    group_id: str | None,
    share: str | None,
    ack: str | None,
    from_beginning: bool,
    offset: int | None,
    timestamp: str | None,
    partitions: tuple[int, ...],
    max_messages: int | None,
    timeout_ms: int | None,
    follow: bool,
    form: str,
    key_separator: str,
    as_json: bool,
    bootstrap: str,
    request_timeout_ms: int,
) -> None:
    """Print the records of topics, one a line.

    Without a place to begin, only what comes from now on is shown. With one, the command ends where the topic
    ends, unless it is told to follow. In a group it goes on until --max-messages, --timeout-ms or Ctrl-C.

    \b
    In a text of --format these stand for parts of a record:
      %t topic  %p partition  %o offset  %T time in ms  %h headers  %% a percent sign
      %k key    %K its bytes  %s value   %S its bytes (-1 where there is none)  %R the same as 32 bits
      %D how often it has been handed out, with --share
      \\n \\t \\r \\0 \\xNN are characters
    """
    if bool(topics) == (pattern is not None):
        raise click.UsageError("name topics, or give a --pattern for their names")
    has_place = offset is not None or timestamp is not None
    if (from_beginning, offset is not None, timestamp is not None).count(True) > 1:
        raise click.UsageError("give one place to begin: --from-beginning, --offset or --timestamp")
    _check_groups(group_id, share, ack, chooses=bool(partitions) or has_place, from_beginning=from_beginning)
    time_ms = None if timestamp is None else parse_time(timestamp)
    separator = unescaped(key_separator).encode()
    printer = record_printer("json" if as_json else form, separator, is_share=share is not None)
    if share is not None:
        wanted = _names(bootstrap, request_timeout_ms, topics, pattern)
        settings = share_settings(max_messages)
        with open_share_consumer(bootstrap, request_timeout_ms, group_id=share, **settings) as member:
            answer = ANSWERS[ack or "accept"]
            consume_shared(member, wanted, printer, answer, max_messages=max_messages, silence_ms=timeout_ms)
        return
    if group_id is not None:
        reset = "earliest" if from_beginning else "latest"
        settings = {"group_id": group_id, "auto_offset_reset": reset, "enable_auto_commit": False}
        with open_consumer(bootstrap, request_timeout_ms, **settings) as consumer:
            _subscribe(consumer, topics, pattern)
            consume_as_member(consumer, printer, max_messages=max_messages, silence_ms=timeout_ms)
        return
    names = topics if pattern is None else _matching(bootstrap, request_timeout_ms, pattern)
    with open_consumer(bootstrap, request_timeout_ms, auto_offset_reset="earliest") as consumer:
        chosen = [each for name in names for each in _partitions(consumer, name, partitions)]
        ends = consumer.end_offsets(chosen)
        starts = _starts(consumer, ends, from_beginning, offset, time_ms)
        waits = follow or max_messages is not None or timeout_ms is not None
        until = ends if (from_beginning or has_place) and not waits else None
        consumer.assign(chosen)
        for each, start in starts.items():
            consumer.seek(each, start)
        for record in records(consumer, until=until, max_messages=max_messages, silence_ms=timeout_ms):
            printer(record)


def _check_groups(
    group_id: str | None, share: str | None, ack: str | None, *, chooses: bool, from_beginning: bool
) -> None:
    """A wrong use of the command where options say what a group decides; a place or partition `chooses`."""
    if ack is not None and share is None:
        raise click.UsageError("--ack says what becomes of records of a share group: give one with --share")
    if group_id is not None and share is not None:
        raise click.UsageError("give one of --group and --share")
    if share is not None and (chooses or from_beginning):
        raise click.UsageError(
            "a share group hands out records and knows where it is: leave out --partition, --offset, "
            "--timestamp and --from-beginning (`headrace share-group reset-offsets` moves a group, and "
            "`headrace config alter group GROUP --set share.auto.offset.reset=earliest` says where a new one "
            "begins)"
        )
    if group_id is not None and chooses:
        raise click.UsageError(
            "a group shares out partitions and knows where it is: leave out --partition, --offset and "
            "--timestamp (`headrace group reset-offsets` moves a group)"
        )


def _subscribe(consumer: Consumer, topics: Sequence[str], pattern: str | None) -> None:
    if pattern is not None:
        consumer.subscribe(pattern=_compiled(pattern))
        return
    for each in topics:
        consumer.partitions_for(each)  # one that is not there would be waited for
    consumer.subscribe(topics)


def consume_as_member(
    consumer: Consumer,
    printer: Callable[[ConsumerRecord], None],
    *,
    max_messages: int | None,
    silence_ms: int | None,
) -> None:
    """Print what the group gives to this member. However that ends, what was printed is committed."""
    printed: dict[TopicPartition, int] = {}

    def commit() -> None:
        mine = {each: offset for each, offset in printed.items() if each in consumer.assignment}
        if mine:
            consumer.commit(mine)
        printed.clear()

    count = 0
    told = ""
    joined_by = time.monotonic() + _JOIN_S
    try:
        while max_messages is None or count < max_messages:
            left = None if max_messages is None else min(max_messages - count, _POLL_RECORDS)
            found = consumer.poll((_POLL_MS if silence_ms is None else silence_ms) / 1000, max_records=left)
            told = _note_trouble(consumer, told)
            # Before the group has shared out its partitions silence says nothing.
            is_member = bool(consumer.assignment) or time.monotonic() > joined_by
            if not found and silence_ms is not None and is_member:
                return
            for record in found:
                printer(record)
                printed[TopicPartition(record.topic, record.partition)] = record.offset + 1
                count += 1
            commit()
    finally:
        commit()


def _names(bootstrap: str, request_timeout_ms: int, topics: Sequence[str], pattern: str | None) -> list[str]:
    """Topics by their names; NoSuchTopicError for one that is not there, which would be waited for."""
    if pattern is not None:
        return _matching(bootstrap, request_timeout_ms, pattern)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        return [each.name for each in admin.describe_topics(topics)]


def _matching(bootstrap: str, request_timeout_ms: int, pattern: str) -> list[str]:
    wanted = _compiled(pattern)
    with open_admin(bootstrap, request_timeout_ms) as admin:
        found = [
            each.name for each in admin.list_topics() if wanted.fullmatch(each.name) and not each.internal
        ]
    if not found:
        raise ClientError(
            f"no topic's name matches {pattern!r}; see what there is with `headrace topic list`"
        )
    return found


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise click.BadParameter(f"{error}.", param_hint="'--pattern'") from None


def _partitions(consumer: Consumer, topic: str, chosen: tuple[int, ...]) -> list[TopicPartition]:
    known = consumer.partitions_for(topic)
    for number in chosen:
        if number >= len(known):
            raise ClientError(f"topic {topic!r} has no partition {number}: it has 0 to {len(known) - 1}")
    return [each for each in known if not chosen or each.partition in chosen]


def _starts(
    consumer: Consumer,
    ends: dict[TopicPartition, int],
    from_beginning: bool,
    offset: int | None,
    time_ms: int | None,
) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
    if time_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
        return {each: place.offset if (place := found[each]) else end for each, end in ends.items()}
    if not from_beginning and offset is None:
        return ends
    beginnings = consumer.beginning_offsets(ends)
    if offset is None:
        return beginnings
    if offset >= 0:
        # An offset that is gone or not there yet would be an error in the other partitions' way.
        starts = {each: min(max(offset, beginnings[each]), end) for each, end in ends.items()}
        for each, start in starts.items():
            if start != offset:
                side = "beyond its end" if offset > start else "gone"
                note(f"{each}: offset {offset} is {side}: begins at {start}, where it {_SIDES[side]}")
        return starts
    return {each: max(end + offset, beginnings[each]) for each, end in ends.items()}


def records(
    consumer: Consumer,
    *,
    until: dict[TopicPartition, int] | None,
    max_messages: int | None,
    silence_ms: int | None,
) -> Iterator[ConsumerRecord]:
    """Records until one of the ends is reached: offsets, a number of records, or a silence."""
    count = 0
    told = ""
    while until is None or _is_before(consumer, until):
        found = consumer.poll((_POLL_MS if silence_ms is None else silence_ms) / 1000)
        told = _note_trouble(consumer, told)
        if not found and silence_ms is not None:
            return
        for record in found:
            if until is not None and record.offset >= until[TopicPartition(record.topic, record.partition)]:
                continue
            yield record
            count += 1
            if count == max_messages:
                return


def _note_trouble(consumer: Consumer, told: str) -> str:
    """Say why nothing comes, each reason once; returns the last that was said."""
    if consumer.trouble is None or str(consumer.trouble) == told:
        return told
    note(f"waiting: {consumer.trouble}")
    return str(consumer.trouble)


def _is_before(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    positions = consumer.positions()
    return any(positions.get(each, 0) < end for each, end in ends.items())


def record_printer(form: str, separator: bytes, *, is_share: bool = False) -> "Callable[[AnyRecord], None]":
    """How a record is printed. Text is written as the bytes it is."""
    if form == "json":
        return lambda record: print_json_line(record_json(record))
    out = sys.stdout.buffer
    if form not in ("value", "key"):
        render = record_template(form, is_share=is_share)

        def print_text(record: "AnyRecord") -> None:
            out.write(render(record))
            out.flush()

        return print_text

    def print_bytes(record: "AnyRecord") -> None:
        head = (record.key or b"") + separator if form == "key" else b""
        out.write(head + (record.value or b"") + b"\n")
        # A person, or a program behind a pipe, should see it now.
        out.flush()

    return print_bytes
