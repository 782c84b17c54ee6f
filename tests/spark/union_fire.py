"""A history under fire: records come, loads end, fail and start again, small files are joined and retention
takes from the log whatever is loaded, all at the same time. Whoever reads table and log as one, at any
moment, finds each record once.

Records of a partition have their offset as value, so what is right is plain: the numbers from 0 on without a
gap, at least to what was acknowledged before the read, at most to what was sent when it ended.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.base.ids import TopicPartition
from headrace.clients import Producer
from headrace.spark.batch_reader import HeadraceBatchReader
from headrace.spark.columns import spark_schema
from headrace.spark.history.snapshot import open_snapshot
from headrace.spark.loads import compaction
from headrace.spark.loads.batches import Loaded
from headrace.spark.loads.feed_load import FeedLoad, run_load
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options
from tests.spark.histories import source_options, union
from tests.spark.source_topics import delete_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = 2
_BATCHES_EACH: Final = 2
_JOIN_S: Final = 100.0
_STREAM_S: Final = 200
# None of it hurries: cores are for the load.
_PACE_S: Final = 0.2
# Who asks the table what it holds opens it anew, and that is most of the work: once a second is often enough.
_LOOK_S: Final = 1.0
# How many records are sent before the table has them: each read reads all, so a producer that runs away from
# the load makes a long fire longer with each of its runs.
_AHEAD_MAX: Final = 3000


class UnionFire:
    """One topic, one table, and all that happens to them."""

    def __init__(self, spark: "SparkSession", bootstrap: str, topic: str, kind: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._topic = topic
        self._kind = kind
        self._path = folder / "table"
        self._streamed: list[tuple[int, int]] = []
        self._stream_checkpoint = str(folder / "stream")
        self._sent = [0] * PARTITIONS
        self._acked = [0] * PARTITIONS
        self._stop = threading.Event()
        self._troubles: list[BaseException] = []
        self.reads = 0
        self.joined = 0
        self.removed = 0
        """Up to which offset retention has taken from the log, in all partitions."""

    def run(self, runs: int) -> None:
        """So many runs of the load, every second of which fails right behind a commit; more where nothing was
        joined or removed beside them, which on a busy machine may come late.
        """
        with self._beside(self._produce), self._beside(self._retain), self._beside(self._join):
            for number in itertools.count():
                if number >= runs and self.joined and self.removed:
                    break
                with self._beside(partial(self._load, fails=number % 2 == 0), ends_itself=True) as loading:
                    while loading.is_alive() and not self._troubles:
                        self.check_here()
                        loading.join(_LOOK_S)
                    self.check_here()
                self._raise_troubles()
                self.check_spark()
            self.stream()
        self._raise_troubles()
        for each in (self.check_here, self.check_spark):
            each(is_quiet=True)
        self.stream()
        expected = [
            (partition, number) for partition in range(PARTITIONS) for number in range(self._acked[partition])
        ]
        assert sorted(self._streamed) == expected, "the stream"

    # What is checked

    def check_here(self, *, is_quiet: bool = False) -> None:
        """By the source's reader in this process, which is quick: many moments."""
        if not self._is_begun():
            return
        acked = list(self._acked)
        given = source_options(self._bootstrap, self._topic, self._path, columns="partition,offset,value")
        options = read_options(given, streaming=False)
        reader = HeadraceBatchReader(options, spark_schema(options.columns))
        rows = [
            row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()
        ]
        for partition in range(PARTITIONS):
            found = sorted(int(row["value"]) for row in rows if row["partition"] == partition)
            self._check(partition, len(found), sum(found), len(set(found)), acked, is_quiet)
        self.reads += 1

    def check_spark(self, *, is_quiet: bool = False) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        acked = list(self._acked)
        rows = union(self._spark, self._bootstrap, self._topic, self._path)
        counts = rows.selectExpr("partition", "CAST(CAST(value AS STRING) AS LONG) AS id")
        found = counts.groupBy("partition").agg(
            F.count("id").alias("count"), F.sum("id").alias("sum"), F.count_distinct("id").alias("distinct")
        )
        by_partition = {row.partition: row for row in found.collect()}
        for partition in range(PARTITIONS):
            row = by_partition[partition]
            self._check(partition, row["count"], row["sum"], row["distinct"], acked, is_quiet)
        self.reads += 1

    def _check(
        self, partition: int, count: int, total: int, distinct: int, acked: list[int], is_quiet: bool
    ) -> None:
        what = f"partition {partition}: {count} rows, {acked[partition]} acknowledged before"
        assert total == count * (count - 1) // 2, what
        assert distinct == count, what
        assert acked[partition] <= count <= self._sent[partition], what
        assert not is_quiet or count == self._acked[partition], what

    def stream(self) -> None:
        """Go on with a stream to what is there now: it begins in the table."""
        given = source_options(self._bootstrap, self._topic, self._path, maxOffsetsPerTrigger="10000")
        query = (
            self._spark.readStream.format("headrace")
            .options(**given)
            .load()
            .writeStream.foreachBatch(self._collect)
            .option("checkpointLocation", self._stream_checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(_STREAM_S), query.status
        finally:
            query.stop()

    def _collect(self, rows: "DataFrame", _: int) -> None:
        self._streamed += [
            (row.partition, int(row.value)) for row in rows.select("partition", "value").collect()
        ]

    # What happens

    def _load(self, *, fails: bool) -> None:
        done: list[Loaded] = []

        def loaded(batch: Loaded) -> None:
            done.append(batch)
            if fails and len(done) == _BATCHES_EACH:
                raise RuntimeError("killed behind the table's commit")

        plan = FeedLoad(
            self._topic,
            self._kind,
            str(self._path),
            self._bootstrap,
            rows_per_batch=400,
            every="0 seconds",
            compact=5,
        )
        stop = run_load(
            self._spark,
            plan,
            tell=lambda _: None,
            loaded=loaded,
            should_stop=lambda: len(done) >= _BATCHES_EACH or bool(self._troubles),
        )
        assert fails == (stop.failure is not None), stop.failure

    def _produce(self) -> None:
        with Producer({"bootstrap.servers": self._bootstrap}) as producer:
            while not self._stop.wait(_PACE_S):
                if sum(self._sent) - self.removed > _AHEAD_MAX:
                    continue
                for partition in range(PARTITIONS):
                    for _ in range(40):
                        number = self._sent[partition]
                        self._sent[partition] += 1
                        producer.send(self._topic, b"%d" % number, partition=partition)
                producer.flush()
                self._acked = list(self._sent)

    def _retain(self) -> None:
        begins = [0] * PARTITIONS
        partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        while not self._stop.wait(_LOOK_S):
            if not self._is_begun():
                continue
            for each, held in open_snapshot(str(self._path)).holdings(partitions).ranges.items():
                if held.end > begins[each.partition]:
                    delete_records(self._bootstrap, self._topic, each.partition, held.end)
                    begins[each.partition] = held.end
            self.removed = sum(begins)

    def _join(self) -> None:
        while not self._stop.wait(_LOOK_S):
            if self._is_begun() and (done := compaction.compact(self._kind, str(self._path), least=3)):
                self.joined += done.files_before

    def _is_begun(self) -> bool:
        """Whether there is a table yet."""
        with contextlib.suppress(OptionError):
            open_snapshot(str(self._path))
            return True
        return False

    @contextlib.contextmanager
    def _beside(self, work: Callable[[], None], *, ends_itself: bool = False) -> Iterator[threading.Thread]:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self._troubles.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            if not ends_itself:
                self._stop.set()
            thread.join(_JOIN_S)
            assert not thread.is_alive(), "it does not end"

    def _raise_troubles(self) -> None:
        for each in self._troubles:
            raise each
