"""Direct reading of Apache Kafka's own directory: live, copied, and after a stop or a kill of the broker."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.spark.options import ReadOptions, read_options
from tests.compat import prepare
from tests.compat.brokers import NEVER_FENCED, ApacheKafkaBroker
from tests.compat.clients.face import eventually
from tests.compat.prepare import UnavailableError
from tests.spark.test_segments_live import all_ranges, direct_rows, fetched_rows, options, plan
from tests.spark.whole_topics import await_markers_on

pytestmark = pytest.mark.java

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
# Of a second start, which waits for the end of the session before it.
SOON_FENCED = "broker.session.timeout.ms=1500\nbroker.heartbeat.interval.ms=500\n"
TOPICS = {
    "plain": {"segment.bytes": "1048576"},
    "decided": {"segment.bytes": "1048576"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
    },
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaBroker]:
    try:
        prepare.kafka_libs()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with ApacheKafkaBroker(tmp_path_factory.mktemp("kafka") / "data", SETTINGS | NEVER_FENCED) as broker:
        broker.start()
        fill(broker)
        yield broker


def fill(broker: ApacheKafkaBroker) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(60)
    rng = random.Random(5)
    for codec in CODECS:
        produce(broker, "plain", codec, rng)
    transactions(broker, rng)
    compaction(broker, rng)


def producer(broker: ApacheKafkaBroker, codec: str, **more: object):
    from confluent_kafka import Producer

    settings = {
        "bootstrap.servers": broker.bootstrap,
        "compression.type": codec,
        "log_level": 0,
        "batch.size": 20_000,
    }
    return Producer(settings | {name.replace("_", "."): value for name, value in more.items()})


def produce(broker: ApacheKafkaBroker, topic: str, codec: str, rng: random.Random) -> None:
    writer = producer(broker, codec)
    for number in range(300):
        key = rng.choice([None, b"%d" % number])
        writer.produce(topic, rng.randbytes(2500), key, headers=[("n", b"1")] if number % 3 else None)
    assert writer.flush(60) == 0


def transactions(broker: ApacheKafkaBroker, rng: random.Random) -> None:
    """Of three producers, committed and aborted, over several segments; the last ones stay open."""
    writers = [producer(broker, codec, transactional_id=codec) for codec in CODECS[:3]]
    for writer in writers:
        writer.init_transactions(60)
    for _ in range(12):
        for writer in writers:
            writer.begin_transaction()
        for number in range(60):
            rng.choice(writers).produce("decided", rng.randbytes(1500), b"%d" % number)
        for writer in writers:
            writer.flush(60)
            if rng.random() < 0.5:
                writer.commit_transaction(60)
            else:
                writer.abort_transaction(60)
    writers[0].begin_transaction()
    writers[0].produce("decided", b"undecided")
    writers[0].flush(60)
    KEPT.append(writers[0])  # else its transaction would be aborted with it
    produce(broker, "decided", "none", rng)
    await_markers_on(broker.bootstrap, "decided")


KEPT: list[object] = []


def compaction(broker: ApacheKafkaBroker, rng: random.Random) -> None:
    """The same keys over and over, with aborted transactions in between, until the cleaner is done."""
    writer = producer(broker, "lz4", transactional_id="compacted")
    writer.init_transactions(60)
    for number in range(40):
        writer.begin_transaction()
        for _ in range(50):
            writer.produce("compacted", rng.randbytes(1000), b"%d" % rng.randrange(100))
        if number % 3:
            writer.commit_transaction(60)
        else:
            writer.abort_transaction(60)
    await_markers_on(broker.bootstrap, "compacted")
    eventually(lambda: is_clean(broker.data, "compacted"), "compaction")


def is_clean(data: Path, topic: str) -> bool:
    """Whether the cleaner has been through all but the active segment: then it rests, and so do the files."""
    checkpoint = data / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    cleaned = [int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")]
    active = max(int(path.stem) for path in (data / f"{topic}-0").glob("*.log"))
    return active > 0 and cleaned == [active]


def alone(path: Path, topic: str, isolation: str) -> ReadOptions:
    given = {
        "path": str(path),
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
    }
    return read_options(given, streaming=False)


def expected_rows(broker: ApacheKafkaBroker, topic: str, isolation: str):
    given = options(broker.bootstrap, topic, kafka_isolation_level=isolation)
    ranges = all_ranges(given)
    return given, ranges, fetched_rows(given, ranges)


ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", list(TOPICS))
def test_live(kafka: ApacheKafkaBroker, topic: str, isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, ranges, expected = expected_rows(kafka, topic, isolation)
    assert len(expected) > 100

    def refuse(*_: object) -> None:
        raise AssertionError("records were fetched from the broker")

    monkeypatch.setattr("headrace.spark.segments.direct.read_range", refuse)
    assert direct_rows(given, plan(given, ranges)) == expected
    rng = random.Random(3)
    for _ in range(5):
        start, end = sorted(rng.sample(range(ranges[0].end + 1), 2))
        piece = [type(ranges[0])(topic, 0, start, end)]
        found = direct_rows(given, plan(given, piece))
        assert found == [row for row in expected if start <= row["offset"] < end]


def test_transactions_and_compaction_left_their_traces(kafka: ApacheKafkaBroker) -> None:
    """Else the other tests would show little."""
    counts = {
        (topic, isolation): len(expected_rows(kafka, topic, isolation)[2])
        for topic in TOPICS
        for isolation in ISOLATIONS
    }
    assert counts["plain", "read_uncommitted"] == counts["plain", "read_committed"] == 1500
    assert counts["decided", "read_committed"] < counts["decided", "read_uncommitted"] - 300
    assert counts["compacted", "read_uncommitted"] < 2000
    assert len(list((kafka.data / "decided-0").glob("*.txnindex"))) > 0
    assert len(list((kafka.data / "decided-0").glob("*.log"))) > 1


def test_without_a_broker_after_a_copy_a_stop_and_a_kill(kafka: ApacheKafkaBroker, tmp_path: Path) -> None:
    wanted = {
        (topic, isolation): expected_rows(kafka, topic, isolation)[1:]
        for topic in TOPICS
        for isolation in ISOLATIONS
    }

    def check(path: Path) -> None:
        for (topic, isolation), (ranges, expected) in wanted.items():
            given = alone(path, topic, isolation)
            assert all_ranges(given) == ranges, (topic, isolation)
            assert direct_rows(given, plan(given, ranges)) == expected, (topic, isolation)

    def watermarks_are_written() -> bool:
        return all(all_ranges(alone(kafka.data, *each)) == ranges for each, (ranges, _) in wanted.items())

    eventually(watermarks_are_written, "high watermarks on disk")
    check(kafka.data)
    # Kafka renames its checkpoints' new versions while they are copied; what is half written is nobody's.
    shutil.copytree(kafka.data, tmp_path / "copy", ignore=shutil.ignore_patterns("*.tmp"))
    check(tmp_path / "copy")
    kafka.kill()
    check(kafka.data)
    with kafka.data.with_suffix(".properties").open("a") as properties:
        properties.write(SOON_FENCED)
    kafka.start()
    kafka.stop()
    check(kafka.data)
