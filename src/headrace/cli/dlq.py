"""`headrace dlq`: the dead-letter queues of share groups (KIP-1191): list them, show letters, replay records.

A replay writes the records that letters are about to their topics again. They are read where they were; only
those that are gone from there are taken from the letters, where they were copied. How far a queue is replayed
is kept as a group's offsets, so that the next replay goes on behind it; one that was cut short begins with
its last letters again.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from headrace.base.ids import TopicPartition
from headrace.cli.command_group import CommandGroup
from headrace.cli.completion import complete_topics
from headrace.cli.connecting import cluster_options, open_admin, open_consumer, open_producer
from headrace.cli.options import examples, json_option
from headrace.cli.output import note, print_json, print_json_rows, print_table
from headrace.clients import OffsetAndMetadata, OffsetSpec
from headrace.clients.errors import NoSuchGroupError
from headrace.server.share import dead_letters

if TYPE_CHECKING:
    from headrace.clients import Admin, Consumer, ConsumerRecord

ENABLED: Final = "errors.deadletterqueue.group.enable"
REPLAYED: Final = "headrace-dlq-replay"
"""The group whose offsets say how far queues are replayed."""
POLL_S: Final = 1.0
FLUSH_EVERY: Final = 500

_COLUMNS: Final = ("letter", "topic", "partition", "offset", "group", "deliveries", "reason", "member")
_OURS: Final = ("__dlq.errors.", "headrace.dlq.")


class Letter(NamedTuple):
    """What a dead letter says; None for what it does not."""

    letter: str
    topic: str | None
    partition: int | None
    offset: int | None
    group: str | None
    deliveries: int | None
    reason: str | None
    member: str | None


@click.group(
    "dlq",
    cls=CommandGroup,
    epilog=examples(
        "headrace dlq list",
        "headrace dlq show dlq.tasks",
        "headrace dlq replay dlq.tasks --group jobs --execute",
    ),
)
def dlq() -> None:
    """See what share groups gave up, and have it processed once more.

    A group has a queue by its setting errors.deadletterqueue.topic.name (`headrace config alter group`).
    """


@dlq.command("list", epilog=examples("headrace dlq list", "headrace dlq list --json"))
@cluster_options
@json_option
def list_(bootstrap: str, request_timeout_ms: int, as_json: bool) -> None:
    """List the topics that take dead letters, and how many of them are not replayed."""
    rows = []
    with open_admin(bootstrap, request_timeout_ms) as admin:
        stands = _replayed_to(admin, REPLAYED)
        for topic in admin.list_topics():
            entries = {each.name: each.value for each in admin.describe_configs("topic", topic.name)}
            if entries.get(ENABLED) == "true":
                spans = _spans(admin, topic.name)
                letters = sum(end - start for start, end in spans.values())
                left = sum(end - max(start, stands.get(each, start)) for each, (start, end) in spans.items())
                rows.append((topic.name, len(spans), letters, left))
    if as_json:
        print_json_rows(("topic", "partitions", "letters", "not_replayed"), rows)
    elif not rows:
        note(f"no topic has set {ENABLED}=true")
    else:
        print_table(("TOPIC", "PARTITIONS", "LETTERS", "NOT REPLAYED"), rows)


@dlq.command(
    epilog=examples("headrace dlq show dlq.tasks", "headrace dlq show dlq.tasks --group jobs --json")
)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--group", "-g", "group_id", metavar="GROUP", help="Only what this share group gave up.")
@click.option(
    "--max", "-n", "most", type=click.IntRange(min=1), default=50, show_default=True, help="How many."
)
@cluster_options
@json_option
def show(
    topic: str, group_id: str | None, most: int, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Show the newest letters of a queue: which record, of which group, how often it was had and why."""
    with open_admin(bootstrap, request_timeout_ms) as admin:
        spans = {each: (max(start, end - most), end) for each, (start, end) in _spans(admin, topic).items()}
    with open_consumer(bootstrap, request_timeout_ms, auto_offset_reset="earliest") as consumer:
        found = [(each.timestamp_ms, letter_in(each)) for each in _read(consumer, spans)]
    found = [each for each in found if group_id in (None, each[1].group)]
    rows = [each for _, each in sorted(found, key=lambda each: each[0])[-most:]]
    if as_json:
        print_json([each._asdict() for each in rows])
    elif not rows:
        note(f"there is no letter in {topic}")
    else:
        columns = tuple(name.upper() for name in _COLUMNS)
        print_table(columns, rows, absent="-", optional=("MEMBER", "LETTER"))


@dlq.command(
    epilog=examples(
        "headrace dlq replay dlq.tasks                   # only shows what it would write",
        "headrace dlq replay dlq.tasks --execute",
        "headrace dlq replay dlq.tasks --to tasks.again --execute",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--group", "-g", "group_id", metavar="GROUP", help="Only what this share group gave up.")
@click.option("--to", "target", metavar="TOPIC", help="Write there, and not where the records were.")
@click.option("--execute", is_flag=True, help="Do it; without, it is only shown.")
@cluster_options
@json_option
def replay(
    topic: str,
    group_id: str | None,
    target: str | None,
    execute: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Write the records of a queue's letters to their topics again, each letter once.

    All who read such a topic see its records again, not only the group that gave them up: --to keeps them
    apart.
    """
    with open_admin(bootstrap, request_timeout_ms) as admin:
        replayer = _Replayer(admin, bootstrap, request_timeout_ms, topic, group_id, target)
        replayer.run(execute=execute)
    told = {"topic": topic, "replayed": replayer.written, "gone": replayer.gone, "executed": execute}
    if as_json:
        print_json(told)
        return
    verb = "written again" if execute else "would be written again: --execute does it"
    click.echo(f"{replayer.written} records {verb}")
    if replayer.gone:
        note(f"{replayer.gone} records are gone from their topics, and were not copied into their letters")


class _Replayer:
    """One replay under way."""

    def __init__(
        self,
        admin: "Admin",
        bootstrap: str,
        request_timeout_ms: int,
        queue: str,
        group_id: str | None,
        target: str | None,
    ) -> None:
        self._admin = admin
        self._cluster = (bootstrap, request_timeout_ms)
        self._queue = queue
        self._group_id = group_id
        self._target = target
        self._memory = REPLAYED if group_id is None else f"{REPLAYED}-{group_id}"
        self.written = 0
        self.gone = 0

    def run(self, *, execute: bool) -> None:
        spans = _spans(self._admin, self._queue)
        stands = _replayed_to(self._admin, self._memory)
        left = {each: (max(start, stands.get(each, start)), end) for each, (start, end) in spans.items()}
        settings: dict[str, Any] = {"auto_offset_reset": "earliest"}
        with (
            open_consumer(*self._cluster, **settings) as consumer,
            open_consumer(*self._cluster, **settings) as source,
            open_producer(*self._cluster) as producer,
        ):
            done: dict[TopicPartition, int] = {}
            for number, record in enumerate(_read(consumer, left), 1):
                done[TopicPartition(record.topic, record.partition)] = record.offset + 1
                letter = letter_in(record)
                if letter.topic is None or self._group_id not in (None, letter.group):
                    continue
                original = _original(source, record, letter)
                if original is None:
                    self.gone += 1
                    continue
                self.written += 1
                if execute:
                    producer.send(
                        self._target or letter.topic,
                        original.value,
                        key=original.key,
                        partition=None if self._target else letter.partition,
                        headers=[each for each in original.headers if not each[0].startswith(_OURS)],
                    )
                if execute and not number % FLUSH_EVERY:
                    self._note(producer.flush, done)
            if execute:
                self._note(producer.flush, done)

    def _note(self, flush: Callable[[], None], done: dict[TopicPartition, int]) -> None:
        flush()
        if done:
            offsets = {each: OffsetAndMetadata(offset) for each, offset in done.items()}
            self._admin.alter_group_offsets(self._memory, offsets)


def letter_in(record: "ConsumerRecord") -> Letter:
    """What the headers of a letter say; copies may bring older letters' headers, the last ones count."""
    told = {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}

    def number(name: str) -> int | None:
        text = told.get(name, "")
        return int(text) if text.isdecimal() else None

    return Letter(
        f"{record.partition}:{record.offset}",
        told.get(dead_letters.TOPIC),
        number(dead_letters.PARTITION),
        number(dead_letters.OFFSET),
        told.get(dead_letters.GROUP),
        number(dead_letters.DELIVERY_COUNT),
        told.get(dead_letters.MESSAGE),
        told.get(dead_letters.MEMBER),
    )


def _replayed_to(admin: "Admin", memory: str) -> dict[TopicPartition, int]:
    """How far queues are replayed."""
    with contextlib.suppress(NoSuchGroupError):
        return {each: place.offset for each, place in admin.group_offsets(memory).items()}
    return {}


def _spans(admin: "Admin", topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Where each partition of a topic begins and ends."""
    (described,) = admin.describe_topics(topic)
    partitions = [TopicPartition(topic, each.number) for each in described.partitions]
    starts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = admin.end_offsets(partitions)
    return {each: (starts[each].offset, ends[each]) for each in partitions if each in ends}


def _read(consumer: "Consumer", spans: dict[TopicPartition, tuple[int, int]]) -> "Iterator[ConsumerRecord]":
    """All records of these spans."""
    left = {each: end for each, (start, end) in spans.items() if start < end}
    consumer.assign(left)
    for each in left:
        consumer.seek(each, spans[each][0])
    while left:
        for record in consumer.poll(POLL_S):
            if record.offset < left.get(TopicPartition(record.topic, record.partition), 0):
                yield record
        positions = consumer.positions()
        left = {each: end for each, end in left.items() if positions.get(each, 0) < end}


def _original(source: "Consumer", record: "ConsumerRecord", letter: Letter) -> "ConsumerRecord | None":
    """The record that a letter is about; None where nobody has it any more."""
    assert letter.topic is not None
    if letter.partition is not None and letter.offset is not None:
        place = TopicPartition(letter.topic, letter.partition)
        starts, ends = source.beginning_offsets([place]), source.end_offsets([place])
        if starts.get(place, 0) <= letter.offset < ends.get(place, 0):
            for found in _read(source, {place: (letter.offset, letter.offset + 1)}):
                return found
    return record if record.key is not None or record.value is not None else None
