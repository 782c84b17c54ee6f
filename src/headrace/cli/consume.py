"""`headrace consume`: records of a topic, as lines.

Where to begin: the end (to watch what comes), the beginning, an offset or a time. When to stop, whichever
comes first: after so many records, after so long a silence, or, when one began before the end and did not
ask to follow, where the end was at the start.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Final

import click

from headrace.base.ids import TopicPartition
from headrace.cli.connecting import cluster_options, open_consumer
from headrace.cli.options import examples, parse_time, unescaped
from headrace.cli.output import note, print_json_line
from headrace.cli.record_text import record_json
from headrace.clients import ConsumedRecord, Consumer
from headrace.clients.errors import ClientError

_POLL_MS: Final = 500


@click.command(
    epilog=examples(
        "headrace consume orders                              # what comes from now on, until Ctrl-C",
        "headrace consume orders --from-beginning             # all there is",
        "headrace consume orders --from-beginning --follow    # all there is and all that comes",
        "headrace consume orders --partition 0 --offset 1000 --max-messages 10 --format json",
        "headrace consume orders --timestamp 2026-01-31T12:00:00",
    )
)
@click.argument("topic")
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
    "form",
    type=click.Choice(["value", "key", "json"]),
    default="value",
    show_default=True,
    help="What a line is: the value, key and value, or all of it as JSON.",
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
    topic: str,
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
    """Print the records of TOPIC, one a line.

    Without a place to begin, only what comes from now on is shown. With one, the command ends where the topic
    ends, unless it is told to follow.
    """
    if (from_beginning, offset is not None, timestamp is not None).count(True) > 1:
        raise click.UsageError("give one place to begin: --from-beginning, --offset or --timestamp")
    time_ms = None if timestamp is None else parse_time(timestamp)
    separator = unescaped(key_separator).encode()
    printer = record_printer("json" if as_json else form, separator)
    with open_consumer(bootstrap, request_timeout_ms, auto_offset_reset="earliest") as consumer:
        wanted = _partitions(consumer, topic, partitions)
        ends = consumer.end_offsets(wanted)
        starts = _starts(consumer, ends, from_beginning, offset, time_ms)
        waits = follow or max_messages is not None or timeout_ms is not None
        has_place = from_beginning or offset is not None or timestamp is not None
        until = ends if has_place and not waits else None
        consumer.assign(wanted)
        for each, start in starts.items():
            consumer.seek(each, start)
        for record in records(consumer, until=until, max_messages=max_messages, silence_ms=timeout_ms):
            printer(record)


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
        return {each: min(max(offset, beginnings[each]), end) for each, end in ends.items()}
    return {each: max(end + offset, beginnings[each]) for each, end in ends.items()}


def records(
    consumer: Consumer,
    *,
    until: dict[TopicPartition, int] | None,
    max_messages: int | None,
    silence_ms: int | None,
) -> Iterator[ConsumedRecord]:
    """Records until one of the ends is reached: offsets, a number of records, or a silence."""
    count = 0
    told = ""
    while until is None or _is_before(consumer, until):
        found = consumer.poll((_POLL_MS if silence_ms is None else silence_ms) / 1000)
        if consumer.trouble is not None and str(consumer.trouble) != told:
            told = str(consumer.trouble)
            note(f"waiting: {told}")
        if not found and silence_ms is not None:
            return
        for record in found:
            if until is not None and record.offset >= until[TopicPartition(record.topic, record.partition)]:
                continue
            yield record
            count += 1
            if count == max_messages:
                return


def _is_before(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    positions = consumer.positions()
    return any(positions.get(each, 0) < end for each, end in ends.items())


def record_printer(form: str, separator: bytes) -> Callable[[ConsumedRecord], None]:
    """How a record is printed. Text is written as the bytes it is."""
    if form == "json":
        return lambda record: print_json_line(record_json(record))
    out = sys.stdout.buffer

    def print_bytes(record: ConsumedRecord) -> None:
        head = (record.key or b"") + separator if form == "key" else b""
        out.write(head + (record.value or b"") + b"\n")
        # A person, or a program behind a pipe, should see it now.
        out.flush()

    return print_bytes
