"""`headrace produce`: one record for each line."""

import io
import os
import select
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import click

from headrace.base.ids import TopicPartition
from headrace.cli.connecting import cluster_options, open_producer
from headrace.cli.options import examples, json_option, parse_pairs, unescaped
from headrace.cli.output import note, print_json
from headrace.cli.record_text import BadLineError, Headers, InputRecord, parse_json_record, parse_text_record
from headrace.clients import Delivery, Producer
from headrace.records.codecs import Codec

_ACKS: Final = ["0", "1", "all"]
_CODECS: Final = [codec.name.lower() for codec in Codec]

Parse = Callable[[bytes, int], InputRecord]
_READ_BYTES: Final = 64 * 1024


class ProduceSummary:
    """What was written, for the last word."""

    def __init__(self) -> None:
        self.counts: Counter[TopicPartition] = Counter()
        self.last_offsets: dict[TopicPartition, int] = {}

        self.failure: BaseException | None = None

    def add(self, delivery: Delivery) -> None:
        """A record's fate is known. Called in the producer's thread, in the order of each partition."""
        failure = delivery.exception()
        if failure is not None:
            self.failure = self.failure or failure
            return
        found = delivery.result()
        partition = TopicPartition(found.topic, found.partition)
        self.counts[partition] += 1
        if found.offset >= 0:
            self.last_offsets[partition] = found.offset

    def check(self) -> None:
        """Raise what went wrong first."""
        if self.failure is not None:
            raise self.failure


@click.command(
    epilog=examples(
        "echo hello | headrace produce greetings",
        "headrace produce users --key-separator : --file users.txt      # lines like KEY:VALUE",
        "headrace produce logs --compression zstd --header source=web < access.log",
        "headrace consume a --from-beginning --format json | headrace produce b --format json",
    )
)
@click.argument("topic")
@click.option(
    "--file",
    "-f",
    type=click.File("rb"),
    default="-",
    metavar="FILE",
    help="Where lines come from; stdin otherwise.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What a line is: a value, or a record as `consume --format json` prints it.",
)
@click.option("--key-separator", "-k", metavar="TEXT", help=r"Splits a line into key and value; \t is a tab.")
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record."
)
@click.option(
    "--partition", "-p", type=click.IntRange(0), metavar="N", help="Where to write; by the key otherwise."
)
@click.option("--compression", type=click.Choice(_CODECS), default="none", show_default=True)
@click.option(
    "--acks",
    type=click.Choice(_ACKS),
    default="all",
    show_default=True,
    help="Replicas that must have a record before it counts.",
)
@click.option("--create", is_flag=True, help="Let the brokers create the topic where it is missing.")
@cluster_options
@json_option
def produce(
    topic: str,
    file: BinaryIO,
    form: str,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    create: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Write one record for each line of the input to TOPIC.

    Lines are sent in batches, and at once when the input pauses.
    """
    parse = _parser(form, key_separator)
    common = tuple((name, value.encode()) for name, value in parse_pairs("--header", headers).items())
    written = ProduceSummary()
    settings = {"acks": acks, "compression_type": compression, "allow_auto_create_topics": create}
    with open_producer(bootstrap, request_timeout_ms, **settings) as producer:
        producer.partitions_for(topic)
        try:
            for record in _records(file, parse, producer):
                _send(producer, topic, record, common, partition).add_done_callback(written.add)
                written.check()
        except (BadLineError, KeyboardInterrupt):
            # What came before it was right, and is not lost for this line.
            producer.flush()
            note(f"wrote {_counted(written.counts.total())} before that")
            raise
        producer.flush()
        written.check()
    _report(topic, written, as_json)


def _parser(form: str, key_separator: str | None) -> Parse:
    if form == "json" and key_separator is not None:
        raise click.UsageError('--key-separator is for text: in JSON a record has its "key"')
    if key_separator == "":
        raise click.BadParameter("it must not be empty.", param_hint="'--key-separator'")
    if form == "json":
        return parse_json_record
    separator = None if key_separator is None else unescaped(key_separator).encode()
    return lambda line, number: parse_text_record(line, separator, number)


def _records(file: BinaryIO, parse: Parse, producer: Producer) -> Iterator[InputRecord]:
    """A record for each line; while the input pauses, what is gathered is sent."""
    number = 0
    for line in lines_or_idle(file):
        if line is None:
            producer.flush()
        else:
            number += 1
            yield parse(line, number)


def _send(
    producer: Producer, topic: str, record: InputRecord, headers: Headers, partition: int | None
) -> Delivery:
    return producer.send(
        topic,
        record.value,
        key=record.key,
        headers=record.headers + headers,
        partition=record.partition if partition is None else partition,
        timestamp_ms=record.timestamp_ms,
    )


def _report(topic: str, written: ProduceSummary, as_json: bool) -> None:
    count = written.counts.total()
    if as_json:
        partitions = [
            {"partition": key.partition, "records": records, "last_offset": written.last_offsets.get(key)}
            for key, records in sorted(written.counts.items())
        ]
        print_json({"topic": topic, "records": count, "partitions": partitions})
    else:
        note(f"wrote {_counted(count)} to {topic}")


def _counted(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def lines_or_idle(stream: BinaryIO) -> Iterator[bytes | None]:
    """Each line without its end; None whenever reading on would wait. The last line needs no end.

    A producer gathers lines into batches, but what a person has typed or another program has printed should
    not wait for more to come: None says that the input is idle.
    """
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        yield from (line.rstrip(b"\n").removesuffix(b"\r") for line in stream)
        return
    rest = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        if not poll.poll(0):
            yield None
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in whole)
    if rest:
        yield rest.removesuffix(b"\r")
