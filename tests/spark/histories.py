"""Topics with a history in a table, for tests: loaded by what the command runs, read back as one."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.columns import ALL_COLUMNS, arrow_schema
from headrace.spark.history.held import BatchOffsets, followed_by
from headrace.spark.loads.batches import Loaded
from headrace.spark.loads.feed_load import FeedLoad, run_load
from headrace.spark.loads.staging import data_file
from headrace.spark.loads.tables import LoadBatch, open_table
from headrace.spark.ranges import OffsetRange
from headrace.spark.reading import read_range
from tests.spark.local_folder import LocalFolder
from tests.spark.source_topics import options_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(
    spark: "SparkSession",
    bootstrap: str,
    topic: str,
    kind: str,
    path: Path,
    **more: Any,
) -> list[Loaded]:
    """Load what there is; the batches that it took, or a test's failure."""
    done: list[Loaded] = []
    plan = FeedLoad(topic, kind, str(path), bootstrap, **more)
    stop = run_load(spark, plan, tell=lambda _: None, loaded=done.append, should_stop=lambda: False)
    assert stop.failure is None, stop.failure
    return done


def source_options(bootstrap: str, topic: str, path: Path, **more: str) -> Mapping[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "history": str(path), **more}


def union(spark: "SparkSession", bootstrap: str, topic: str, path: Path, **more: str) -> "DataFrame":
    """Table and log as one."""
    return spark.read.format("headrace").options(**source_options(bootstrap, topic, path, **more)).load()


class HistoryWriter:
    """Keeps a topic's history as a load does, without a session: Arrow writes the files of its batches."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        kind: str,
        path: Path,
        *,
        first_number: int = 0,
        is_partitioned: bool = False,
    ) -> None:
        """`is_partitioned` by the column `partition`."""
        path.mkdir(exist_ok=True)
        self._options = options_for(bootstrap, topic, includeHeaders="true", failOnDataLoss="false")
        self._topic = topic
        self._folder = LocalFolder(path)
        self._is_partitioned = is_partitioned
        self._table = open_table(kind, self._folder, ("partition",) if is_partitioned else ())
        self._number = first_number

    def load(
        self, *ranges: tuple[int, int, int], topic_id: str | None = None, is_history: bool = True
    ) -> None:
        """A batch of (partition, start, end)."""
        batch = LoadBatch("load", self._number)
        self._number += 1
        wanted = [OffsetRange(self._topic, *each) for each in ranges]
        ids = {} if topic_id is None else {self._topic: topic_id}
        before = self._table.holdings([each.topic_partition for each in wanted])
        held = followed_by(before, BatchOffsets(wanted, ids), "the table") if is_history else None
        place = self._table.staging_path(batch, "one")
        for each in wanted:
            self._write(place, each)
        files = [data_file(self._folder, each) for each in self._folder.files(place, ".parquet")]
        self._table.add(batch, files, arrow_schema(ALL_COLUMNS), held)

    def _write(self, place: str, wanted: OffsetRange) -> None:
        rows = pa.Table.from_batches(read_range(wanted, self._options), arrow_schema(ALL_COLUMNS))
        if not rows.num_rows:
            return
        if self._is_partitioned:
            keeps = self._table.keeps_partition_columns
            place += f"/{'_in_' if keeps else ''}partition={wanted.partition}"
            rows = rows if keeps else rows.drop_columns("partition")
        self._folder.make(place)
        pq.write_table(rows, f"{self._folder.location}/{place}/{wanted.partition}-{wanted.start}.parquet")
