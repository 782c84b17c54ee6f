"""Direct reading beside a node that runs: it writes on, deletes, and is asked for what files lack."""

import os
import random
import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Producer
from headrace.spark.data_loss import LostDataError
from headrace.spark.offsets import partition_offsets
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.ranges import OffsetRange
from headrace.spark.reading import read_range
from headrace.spark.segments import direct
from headrace.spark.segments.direct import DirectReading, read_segments
from headrace.testing import Cluster
from tests.compat.brokers import HeadraceBroker
from tests.compat.clients.face import eventually
from tests.spark.conftest import MakeTopic


def options(bootstrap: str, topic: str, **more: str) -> ReadOptions:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "read.mode": "segments",
        "includeHeaders": "true",
        "kafkaConsumer.pollTimeoutMs": "20000",
    }
    return read_options(
        given | {name.replace("_", "."): text for name, text in more.items()}, streaming=False
    )


def write(bootstrap: str, topic: str, count: int, *, value_bytes: int = 8000, partitions: int = 1) -> None:
    rng = random.Random(count)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings = {"compression.type": codec, "batch.size": "2000"}
        with Producer(settings, bootstrap_servers=bootstrap) as producer:
            for number in range(count):
                value = rng.randbytes(rng.randrange(value_bytes))
                headers = [("n", b"%d" % number)] if number % 3 else []
                producer.send(
                    topic,
                    value=value,
                    key=b"%d" % number,
                    partition=number % partitions,
                    headers=headers,
                )
            producer.flush()


def ends(given: ReadOptions) -> dict[TopicPartition, tuple[int, int]]:
    with closing(partition_offsets(given)) as asked:
        partitions = asked.partitions()
        earliest, latest = asked.earliest(partitions), asked.latest(partitions)
    return {each: (earliest[each], latest[each]) for each in partitions}


def plan(given: ReadOptions, ranges: list[OffsetRange]):
    with closing(partition_offsets(given)) as asked:
        return DirectReading(given).plan(asked, ranges)


def all_ranges(given: ReadOptions) -> list[OffsetRange]:
    return [OffsetRange(*each, start, end) for each, (start, end) in ends(given).items()]


def rows(batches) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def direct_rows(given: ReadOptions, tasks) -> list[dict[str, object]]:
    return [row for wanted, manifest in tasks for row in rows(read_segments(wanted, given, manifest))]


def fetched_rows(given: ReadOptions, ranges: list[OffsetRange]) -> list[dict[str, object]]:
    return [row for wanted in ranges for row in rows(read_range(wanted, given))]


@pytest.fixture
def no_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files have everything, a broker is not asked for a single record."""

    def refuse(*_: object) -> None:
        raise AssertionError("records were fetched from the broker")

    monkeypatch.setattr(direct, "read_range", refuse)


@pytest.mark.usefixtures("no_fetching")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_any_range_is_what_fetching_gives(cluster: Cluster, make_topic: MakeTopic, isolation: str) -> None:
    topic = make_topic(2, {"segment.bytes": "1048576"})
    write(cluster.bootstrap_servers, topic, 300, partitions=2)
    given = options(cluster.bootstrap_servers, topic, kafka_isolation_level=isolation)
    ranges = all_ranges(given)
    fetched = fetched_rows(given, ranges)
    assert len(fetched) == 1500
    assert direct_rows(given, plan(given, ranges)) == fetched
    rng = random.Random(7)
    for _ in range(10):
        start, end = sorted(rng.sample(range(ranges[0].end + 1), 2))
        piece = [OffsetRange(topic, 0, start, end)]
        assert direct_rows(given, plan(given, piece)) == fetched_rows(given, piece)


@pytest.mark.usefixtures("no_fetching")
def test_a_directory_that_grows_while_it_is_read(cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"segment.bytes": "1048576"})
    partition = TopicPartition(topic, 0)
    given = options(cluster.bootstrap_servers, topic)
    stopped = threading.Event()

    def keep_writing() -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            number = 0
            while not stopped.is_set():
                producer.send(topic, value=b"%d" % number + bytes(4000), partition=0).result()
                number += 1

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        end = 0
        while end < 600:
            start, end = end, ends(given)[partition][1]
            found = direct_rows(given, plan(given, [OffsetRange(topic, 0, start, end)]))
            assert [row["offset"] for row in found] == list(range(start, end))
            assert [row["value"] for row in found] == [
                b"%d" % number + bytes(4000) for number in range(start, end)
            ]
    finally:
        stopped.set()
        writer.join()


def make_retained(cluster: Cluster, make_topic: MakeTopic) -> tuple[str, ReadOptions]:
    topic = make_topic(1, {"segment.bytes": "1048576", "file.delete.delay.ms": "0"})
    write(cluster.bootstrap_servers, topic, 200)
    return topic, options(cluster.bootstrap_servers, topic)


def shrink(cluster: Cluster, topic: str, given: ReadOptions) -> int:
    """Let retention take the oldest segments; the log's first offset from then on."""
    from headrace.clients import ResourceKind

    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_configs(ResourceKind.TOPIC, topic, set_to={"retention.bytes": "1500000"})
    partition = TopicPartition(topic, 0)
    eventually(lambda: ends(given)[partition][0] > 0, "segment deleted by retention")
    return ends(given)[partition][0]


def test_segments_deleted_by_retention_are_missed_aloud() -> None:
    with Cluster(settings={"log.retention.check.interval.ms": "50"}) as cluster:

        def make_topic(partitions: int, configs: dict[str, str]) -> str:
            cluster.create_topic("aging", partitions, configs=configs)
            return "aging"

        topic, given = make_retained(cluster, make_topic)
        ranges = all_ranges(given)
        tasks = plan(given, ranges)
        before = fetched_rows(given, ranges)
        start = shrink(cluster, topic, given)
        with pytest.raises(LostDataError, match="failOnDataLoss"):
            direct_rows(given, tasks)
        relaxed = options(cluster.bootstrap_servers, topic, failOnDataLoss="false")
        assert direct_rows(relaxed, tasks) == before[start:]


def copied(cluster: Cluster, topic: str, target: Path) -> Path:
    """The partition's folder as a copy, which lacks what the log directory remembers."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (log_dir,) = [
            each.path for each in admin.describe_log_dirs(1) if TopicPartition(topic, 0) in each.partitions
        ]
    folder = target / f"{topic}-0"
    shutil.copytree(Path(log_dir) / folder.name, folder)
    return folder


def test_what_files_lack_is_fetched(cluster: Cluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(1, {"segment.bytes": "1048576"})
    write(cluster.bootstrap_servers, topic, 200)
    folder = copied(cluster, topic, tmp_path)
    given = options(cluster.bootstrap_servers, topic, path=str(tmp_path))
    ranges = all_ranges(given)
    expected = fetched_rows(given, ranges)
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 2
    tasks = plan(given, ranges)
    logs[0].rename(logs[0].with_suffix(".log.deleted"))
    assert direct_rows(given, tasks) == expected, "the oldest segment is gone"
    os.truncate(logs[-1], logs[-1].stat().st_size - 10)
    assert direct_rows(given, plan(given, ranges)) == expected, "the last batch is cut off"
    shutil.rmtree(folder)
    assert direct_rows(given, tasks) == expected, "the folder is gone"


def test_records_written_after_the_copy_come_from_the_broker(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    write(cluster.bootstrap_servers, topic, 50)
    copied(cluster, topic, tmp_path)
    write(cluster.bootstrap_servers, topic, 50)
    given = options(cluster.bootstrap_servers, topic, path=str(tmp_path))
    ranges = all_ranges(given)
    assert [each.end for each in ranges] == [500]
    assert direct_rows(given, plan(given, ranges)) == fetched_rows(given, ranges)
    alone = read_options({"path": str(tmp_path), "includeHeaders": "true"}, streaming=False)
    assert ends(alone) == {TopicPartition(topic, 0): (0, 250)}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_directory_whose_broker_is_gone_is_what_was_fetched(tmp_path: Path, end: str) -> None:
    """After a kill the high watermark that was written down may be older than the log, and is the bound."""
    with HeadraceBroker(tmp_path / "data") as broker:
        broker.start()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topic("orders", partitions=3)
        write(broker.bootstrap, "orders", 90, partitions=3)
        given = options(broker.bootstrap, "orders")
        ranges = all_ranges(given)
        expected = {each.partition: fetched_rows(given, [each]) for each in ranges}
        live = read_options({"path": str(broker.data), "subscribe": "orders"}, streaming=False)
        if end == "kill":
            eventually(lambda: all(each.end for each in all_ranges(live)), "written high watermark")
            broker.kill()
        else:
            broker.stop()
    alone = read_options(
        {"path": str(broker.data), "subscribe": "orders", "includeHeaders": "true"}, streaming=False
    )
    found = all_ranges(alone)
    if end == "stop":
        assert found == ranges
    for each in found:
        assert each.size > 0
        assert direct_rows(alone, plan(alone, [each])) == expected[each.partition][: each.end]
