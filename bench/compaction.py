"""python -m bench.compaction [--mb N] [--rounds N] [--latency S]: compaction beside Apache Kafka's.

Both brokers get the same segment files, made once for each shape of record, under topics that only delete.
Most batches of the first shapes hold nothing that lasts, as where everything is told again and again. In
those of "updates" keys come again about five times in any order, so that most batches lose some records and
keep some.

Then a topic's policy becomes compact, and the time runs until the broker's own checkpoint says that the log
is clean. Map memory is the same (the default, 128 MiB), and so are threads (one) and buffers. A first topic
warms each broker up, so that neither compiles its hot paths while it is measured. Shapes that are cleaned
fast have more bytes: what is measured is the cleaner, not how long it waits between two looks. Segments are
in the page cache when it begins.

With --latency also how long acknowledgements and reads take at the tail of another topic, with and without a
compaction beside them.
"""

import argparse
import contextlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, cycle
from pathlib import Path
from statistics import median
from typing import ClassVar

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from bench import loads
from bench.brokers import Broker, Headrace, Kafka, missing
from bench.machine import ready_memory
from bench.report import as_markdown, at_least, at_most
from headrace.base.ids import TopicPartition
from headrace.log.checkpoints import decode_offsets
from headrace.log.log_loader import open_log
from headrace.log.storage import Storage
from headrace.log.system_disk import SystemDisk
from headrace.log.unified_log import UnifiedLog
from headrace.records.batch import Record, build_batch, read_records
from headrace.settings.topic import TopicConfig

SEGMENT_BYTES = 128 << 20
BATCH_BYTES = 16_000
BLOCK_BATCHES = 1_500  # made once and written again and again: Python builds batches slowly
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
}


@dataclass(frozen=True)
class Shape:
    """What the records of a topic look like."""

    name: str
    value_bytes: int
    codec: int = 0
    share: float = 1.0  # of the bytes that are asked for
    repeats: int = 0  # how often a key comes again, about; 0: all keys come again and again in the same order

    @property
    def topic(self) -> str:
        return "bench-" + self.name.replace(" ", "-")


WARM = Shape("warm", 100, share=0.7)
WARM_PACKED = Shape("warm zstd", 100, codec=4, share=0.2)
SHAPES = (
    Shape("100 B", 100, share=2),
    Shape("1 KB", 1000, share=8),
    Shape("100 B zstd", 100, codec=4, share=0.4),
    Shape("100 B updates", 100, repeats=5),
    Shape("1 KB updates", 1000, share=8, repeats=5),
    Shape("100 B zstd updates", 100, codec=4, share=0.2, repeats=5),
)
MEMORY_GB = 1  # more than any of them writes
LATENCY_ROUNDS = 3
BESIDE = [
    [Shape(f"beside {number} {topic}", 1000) for topic in range(8)] for number in range(2 * LATENCY_ROUNDS)
]


class CleaningHeadrace(Headrace):
    settings: ClassVar[dict[str, str]] = {**Headrace.settings, **SETTINGS}


class CleaningKafka(Kafka):
    settings: ClassVar[dict[str, str]] = {**Kafka.settings, **SETTINGS}


# -- the segments --------------------------------------------------------------------------------------------


def make_segments(folder: Path, shape: Shape, bytes_wanted: int) -> None:
    """A log of keys that come again, all of it in closed segments."""
    rng = random.Random(shape.name)
    storage = Storage(SystemDisk())
    partition = TopicPartition(shape.topic, 0)
    now_ms = int(time.time() * 1000)
    config = TopicConfig(segment_bytes=SEGMENT_BYTES)
    log = open_log(storage, str(folder), partition, config, now_ms=now_ms)
    wanted = bytes_wanted * shape.share
    for batch in _batches(rng, shape, now_ms, wanted):
        log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=now_ms)
        if log.size_bytes >= wanted:
            break
    log.roll(now_ms)
    log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=now_ms)
    _close(log)


def _batches(rng: random.Random, shape: Shape, now_ms: int, bytes_wanted: float) -> Iterator[bytes]:
    words = [rng.randbytes(shape.value_bytes // 4).hex()[: shape.value_bytes].encode() for _ in range(500)]
    count = max(1, BATCH_BYTES // (shape.value_bytes + 20))

    def batch(keys: int) -> bytes:
        rows = [
            Record(0, now_ms, b"key-%012d" % rng.randrange(keys), rng.choice(words).ljust(shape.value_bytes))
            for _ in range(count)
        ]
        return bytes(build_batch(rows, codec=shape.codec))

    if shape.repeats:
        keys = int(bytes_wanted / len(batch(1 << 20)) * count / shape.repeats)
        while True:
            yield batch(keys)
    yield from cycle([batch(BLOCK_BATCHES * count) for _ in range(BLOCK_BATCHES)])


def _close(log: UnifiedLog) -> None:
    flush = log.close()
    if flush is not None:
        flush.sync()


def install(broker: Broker, made: Path, shape: Shape) -> None:
    """Put the files in the place of those of an empty topic; the broker is stopped."""
    target = broker.folder / "data" / f"{shape.topic}-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    active = max(made.glob("*.log")).stem
    for path in made.iterdir():
        if path.suffix in (".log", ".index", ".timeindex") or path.name == "leader-epoch-checkpoint":
            # Closed segments are never written again: one file serves many topics.
            put = os.link if path.suffix == ".log" and path.stem != active else shutil.copy
            put(path, target / path.name)


def closed_bytes(made: Path) -> int:
    """Of the segments that will be cleaned: all but the last."""
    return sum(path.stat().st_size for path in sorted(made.glob("*.log"))[:-1])


def latest_values(folder: Path) -> dict[bytes | None, bytes | None]:
    """What a log says of each key."""
    latest = {}
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            for record in read_records(data, at):
                latest[record.key] = record.value
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return latest


# -- measuring -----------------------------------------------------------------------------------------------


class Side:
    """One broker with the topics installed."""

    def __init__(self, broker: Broker, made: dict[Shape, Path]) -> None:
        self.broker = broker
        self.made = made

    def set_up(self) -> None:
        broker = self.broker
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [
            NewTopic(shape.topic, 1, config={"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES)})
            for shape in self.made
        ]
        for future in admin.create_topics(topics).values():
            future.result(60)
        broker.stop()
        for shape, folder in self.made.items():
            install(broker, folder, shape)
        broker.start()

    def compact(self, *shapes: Shape) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for shape in shapes:
            wish = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in wish.items()
            ]
            resource = ConfigResource(ConfigResource.Type.TOPIC, shape.topic, incremental_configs=entries)
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(60)

    def is_clean(self, shape: Shape) -> bool:
        path = self.broker.folder / "data" / "cleaner-offset-checkpoint"
        try:
            return TopicPartition(shape.topic, 0) in decode_offsets(path.read_bytes())
        except FileNotFoundError:
            return False

    def measure(self, shape: Shape) -> dict[str, float]:
        size = closed_bytes(self.made[shape])
        ready_memory(MEMORY_GB)
        for path in self.made[shape].glob("*.log"):
            path.read_bytes()  # whoever comes first would read it from the disk
        cpu_s, began = self.broker.cpu_s(), time.perf_counter()
        self.compact(shape)
        while not self.is_clean(shape):
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        cpu_s = self.broker.cpu_s() - cpu_s
        return {"mb_s": size / 1e6 / seconds, "cpu_s_per_gb": cpu_s / (size / 1e9)}

    def latencies(self, seconds: float) -> dict[str, dict[str, float]]:
        """At the tail of a topic, alone and beside compactions; and beside them at a broker that compacts
        nothing, which shows the machine's share. In turns, and of each the medians.
        """
        rounds: dict[str, list[dict[str, float]]] = {}
        left = iter(BESIDE)
        with type(self.broker)() as idle:
            for broker in (self.broker, idle):
                loads.create(broker, "tail")
                loads.latency(broker, "tail", rate=500, seconds=2)
            for _ in range(LATENCY_ROUNDS):
                alone = loads.latency(self.broker, "tail", rate=500, seconds=seconds)
                rounds.setdefault("latency alone", []).append(alone)
                for step, broker in (
                    ("latency beside compaction", self.broker),
                    ("latency beside compaction, at an idle broker", idle),
                ):
                    found = self._latency_beside(next(left), broker, seconds)
                    rounds.setdefault(step, []).append(found)
        return {
            step: {name: median(each[name] for each in found) for name in found[0]}
            for step, found in rounds.items()
        }

    def _latency_beside(self, shapes: list[Shape], broker: Broker, seconds: float) -> dict[str, float]:
        self.compact(*shapes)
        found = loads.latency(broker, "tail", rate=500, seconds=seconds)
        over = sum(map(self.is_clean, shapes))
        print(f"  {self.broker.name}: {over} of {len(shapes)} compactions were over when the load was")
        while not all(map(self.is_clean, shapes)):
            time.sleep(0.01)
        return found


def make_all(root: Path, mb: int) -> dict[Shape, Path]:
    """The segments of each shape, those that are there already as they are."""
    made = {shape: root / f"{shape.topic}-{mb}" for shape in (WARM, WARM_PACKED, *SHAPES)}
    for shape, folder in made.items():
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make_segments(unfinished, shape, mb * 1_000_000)
            unfinished.rename(folder)
    return made


def run(
    sides: list[type[Broker]], made: dict[Shape, Path], *, rounds: int, latency_s: float
) -> dict[str, dict[str, float]]:
    medians: dict[str, dict[str, float]] = {}
    values: dict[str, list[dict[bytes | None, bytes | None]]] = {}
    copies = {
        shape: [replace(shape, name=f"{shape.name} {number}") for number in range(rounds)] for shape in SHAPES
    }
    installed = made | {copy: made[shape] for shape in SHAPES for copy in copies[shape]}
    if latency_s:
        installed |= dict.fromkeys(chain(*BESIDE), made[SHAPES[1]])
    for kind in sides:
        with Installed(kind, installed) as side:
            for warm in (WARM, WARM_PACKED):
                side.measure(warm)
            for shape in SHAPES:
                found_figures = [side.measure(copy) for copy in copies[shape]]
                for name in found_figures[0]:
                    each = [figures[name] for figures in found_figures]
                    print(f"  {kind.name:9} {shape.name:18} {name:12}", *(f"{value:.2f}" for value in each))
                    medians.setdefault(f"compact {shape.name} | {name}", {})[kind.name] = median(each)
            for step, found in side.latencies(latency_s).items() if latency_s else ():
                for name, value in found.items():
                    medians.setdefault(f"{step} | {name}", {})[kind.name] = value
            side.broker.stop()
            for shape in SHAPES:
                folder = side.broker.folder / "data" / f"{copies[shape][0].topic}-0"
                values.setdefault(shape.name, []).append(latest_values(folder))
    for name, found_values in values.items():
        if any(each != found_values[0] for each in found_values):
            raise RuntimeError(f"{name}: the two brokers kept different values")
    return medians


class Installed:
    """A broker with its topics, stopped and removed at the end."""

    def __init__(self, kind: type[Broker], made: dict[Shape, Path]) -> None:
        self.side = Side(kind(), made)

    def __enter__(self) -> Side:
        self.side.set_up()
        return self.side

    def __exit__(self, *_: object) -> None:
        self.side.broker.stop()
        shutil.rmtree(self.side.broker.folder, ignore_errors=True)


GOALS = {
    f"compact {shape.name} | {unit}": goal
    for shape in SHAPES
    for unit, goal in (("mb_s", at_least(2)), ("cpu_s_per_gb", at_most(1 / 2)))
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=300, help="megabytes of segments, more or less by shape")
    parser.add_argument(
        "--only", choices=["kafka", "headrace", "none"], help="measure one of them, or just make segments"
    )
    parser.add_argument("--rounds", type=int, default=3, help="topics of each shape: the median is told")
    parser.add_argument(
        "--latency", type=float, default=0, metavar="SECONDS", help="measure latency for so long"
    )
    parser.add_argument(
        "--segments", metavar="FOLDER", help="make the segments there and leave them for the next time"
    )
    arguments = parser.parse_args()
    lacking = missing()
    if lacking and arguments.only not in ("headrace", "none"):
        raise SystemExit("missing: " + ", ".join(lacking))
    both: list[type[Broker]] = [CleaningKafka, CleaningHeadrace]
    sides = [kind for kind in both if arguments.only in (None, kind.name)]
    with contextlib.ExitStack() as stack:
        root = arguments.segments
        if root is None:
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-segments-"))
        made = make_all(Path(root), arguments.mb)
        medians = run(sides, made, rounds=arguments.rounds, latency_s=arguments.latency) if sides else {}
    print("\n" + as_markdown(medians, GOALS))


if __name__ == "__main__":
    main()
