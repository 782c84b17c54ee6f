"""`headrace perf`: how fast a cluster takes records and gives them back, with percentiles.

The client is one process: a cluster that is faster than it is not measured by it. `produce` counts for every
record how long it took from `send` to its acknowledgement; `consume` for every poll how long it waited.
"""

import contextlib
import os
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from headrace.cli.command_group import CommandGroup
from headrace.cli.completion import complete_topics
from headrace.cli.connecting import cluster_options, open_consumer, open_producer
from headrace.cli.options import examples, json_option, parse_pairs
from headrace.cli.output import note, print_facts, print_json
from headrace.clients import Delivery
from headrace.clients.errors import ClientError

PERCENTS: Final = (50.0, 95.0, 99.0, 99.9)
_TELL_S: Final = 5.0
# Bytes that do not compress to nothing; a record is a slice of them.
_NOISE: Final = 1 << 20


@click.group(
    cls=CommandGroup,
    epilog=examples("headrace perf produce test --records 100000 --size 1000", "headrace perf consume test"),
)
def perf() -> None:
    """Measure how fast records are written and read."""


@perf.command(
    epilog=examples(
        "headrace perf produce test --records 1000000 --size 100",
        "headrace perf produce test --records 60000 --rate 1000      # latency under a steady load",
        "headrace perf produce test --acks 1 --compression zstd --setting linger.ms=5 --json",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--records", "-n", type=click.IntRange(1), default=100_000, show_default=True, metavar="N")
@click.option(
    "--size", type=click.IntRange(1), default=1_000, show_default=True, metavar="BYTES", help="Of each value."
)
@click.option(
    "--rate", type=click.IntRange(1), metavar="N", help="Records a second; as fast as possible otherwise."
)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the producer, as batch.size=65536; may be repeated.",
)
@cluster_options
@json_option
def produce(
    topic: str,
    records: int,
    size: int,
    rate: int | None,
    acks: str,
    compression: str,
    settings: tuple[str, ...],
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Write records to TOPIC, and tell how many a second and how long each took."""
    own = _own(settings)
    noise = os.urandom(_NOISE + size)
    options = {"acks": acks, "compression_type": compression, "allow_auto_create_topics": False}
    latencies = Latencies()
    with open_producer(bootstrap, request_timeout_ms, **{"linger_ms": 0, **options, **own}) as producer:
        producer.partitions_for(topic)
        progress = Progress(note)
        began = time.perf_counter()
        with _until_interrupted() as interruption:
            for number in range(records):
                if rate is not None:
                    _wait_until(began + number / rate)
                at = number * 4099 % _NOISE
                producer.send(topic, noise[at : at + size]).add_done_callback(latencies.timed())
                progress.tell(number + 1)
        producer.flush()
        seconds = time.perf_counter() - began
    if latencies.failure is not None:
        raise latencies.failure
    count = len(latencies.ms)
    _report({"topic": topic, **throughput(count, count * size, seconds)}, latencies.ms, "latency", as_json)
    interruption.end()


@perf.command(
    epilog=examples(
        "headrace perf consume test",
        "headrace perf consume test --records 1000000 --json",
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.option("--records", "-n", type=click.IntRange(1), metavar="N", help="Stop after so many.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the consumer, as fetch.min.bytes=1; may be repeated.",
)
@cluster_options
@json_option
def consume(
    topic: str,
    records: int | None,
    settings: tuple[str, ...],
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Read TOPIC from its beginning to where it ends now, and tell how many records a second."""
    own = _own(settings)
    waits = array("d")
    count = size = 0
    with open_consumer(bootstrap, request_timeout_ms, **{"auto_offset_reset": "earliest", **own}) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        progress = Progress(note)
        began = time.perf_counter()
        with _until_interrupted() as interruption:
            while any(consumer.position(each) < end for each, end in ends.items()):
                asked = time.perf_counter()
                found = consumer.poll(1.0)
                waits.append((time.perf_counter() - asked) * 1000)
                count += len(found)
                size += sum(len(each.value or b"") + len(each.key or b"") for each in found)
                progress.tell(count)
                if records is not None and count >= records:
                    break
        seconds = time.perf_counter() - began
    if not count and not interruption.came:
        raise ClientError(f"topic {topic!r} has no records: `headrace perf produce {topic}` writes some")
    _report({"topic": topic, **throughput(count, size, seconds)}, waits, "poll", as_json)
    interruption.end()


class Latencies:
    """How long each record took, in ms, and what went wrong first."""

    def __init__(self) -> None:
        self.ms = array("d")
        self.failure: BaseException | None = None

    def timed(self) -> Callable[[Delivery], None]:
        """To be called when a record that is sent now is written or has failed."""
        sent = time.perf_counter()

        def done(delivery: Delivery) -> None:
            self.ms.append((time.perf_counter() - sent) * 1000)
            failure = delivery.exception()
            if failure is not None:
                self.failure = self.failure or failure

        return done


class Progress:
    """Tells a person now and then how far it is."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told_at = time.perf_counter()
        self._told = 0

    def tell(self, count: int) -> None:
        now = time.perf_counter()
        if now - self._told_at >= _TELL_S:
            rate = (count - self._told) / (now - self._told_at)
            self._tell(f"{count:,} records, {rate:,.0f} a second")
            self._told_at, self._told = now, count


class _Interruption:
    """Ctrl-C ends a measurement, and what was measured is told."""

    def __init__(self) -> None:
        self.came = False

    def end(self) -> None:
        if self.came:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _until_interrupted() -> Iterator[_Interruption]:
    interruption = _Interruption()
    try:
        yield interruption
    except KeyboardInterrupt:
        interruption.came = True


def _own(settings: tuple[str, ...]) -> dict[str, str]:
    """Settings of the client, as its keyword arguments."""
    return {name.replace(".", "_"): value for name, value in parse_pairs("--setting", settings).items()}


def _wait_until(moment: float) -> None:
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)


def throughput(count: int, size: int, seconds: float) -> dict[str, float]:
    """What was moved, in all and a second."""
    return {
        "records": count,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(count / max(seconds, 1e-9), 1),
        "megabytes_per_second": round(size / 1e6 / max(seconds, 1e-9), 3),
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The mean, the percentiles and the largest; nothing where there are no values."""
    if not values:
        return {}
    ordered = sorted(values)
    found = {"mean": sum(ordered) / len(ordered)}
    for each in PERCENTS:
        # Nearest rank: a value that was really measured.
        rank = max(0, -(-len(ordered) * each // 100) - 1)
        found[f"p{each:g}"] = ordered[int(rank)]
    found["max"] = ordered[-1]
    return {name: round(value, 3) for name, value in found.items()}


def _report(figures: dict[str, object], values: Sequence[float], what: str, as_json: bool) -> None:
    found = percentiles(values)
    if as_json:
        print_json({**figures, f"{what}_ms": found})
        return
    print_facts(
        [
            ("records", f"{figures['records']:,} in {figures['seconds']} s"),
            (
                "throughput",
                f"{figures['records_per_second']:,} records/s, {figures['megabytes_per_second']:,} MB/s",
            ),
            (f"{what} ms", "  ".join(f"{name} {value:g}" for name, value in found.items())),
        ]
    )
