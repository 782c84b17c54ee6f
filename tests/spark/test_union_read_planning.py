"""What is read where, without a session: the reader of a batch plans and reads in this process."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan
from pyspark.sql.streaming.datasource import ReadMaxRows

from headrace.base.ids import TopicPartition
from headrace.cli.main import cli
from headrace.clients import Admin
from headrace.spark.batch_reader import HeadraceBatchReader
from headrace.spark.columns import PLAIN_COLUMNS, spark_schema
from headrace.spark.data_loss import LostDataError
from headrace.spark.history.delta_history import DeltaSnapshot
from headrace.spark.history.held import BatchOffsets, HeldRange, Holdings, followed_by
from headrace.spark.history.snapshot import open_snapshot
from headrace.spark.history.union_offsets import cut
from headrace.spark.history.union_tasks import HistoryPartition
from headrace.spark.loads import compaction
from headrace.spark.loads.delta_table import DeltaLoadTable
from headrace.spark.loads.iceberg_table import IcebergLoadTable
from headrace.spark.loads.staging import data_file
from headrace.spark.loads.tables import LoadBatch, LoadError, open_table
from headrace.spark.option_values import OptionError
from headrace.spark.options import read_options
from headrace.spark.ranges import OffsetRange
from headrace.spark.stream_reader import HeadraceStreamReader
from headrace.spark.tasks import RangePartition
from headrace.testing import Cluster
from tests.spark.histories import HistoryWriter, source_options
from tests.spark.local_folder import LocalFolder
from tests.spark.source_topics import FIRST_MS, delete_records, delete_topic, fill, numbered

MakeTopic = Callable[..., str]
KINDS = ["delta", "iceberg"]
P0 = TopicPartition("a", 0)


class Union:
    """A topic of two partitions with 40 records each, and what a reader of it finds."""

    def __init__(self, bootstrap: str, topic: str, kind: str, path: Path) -> None:
        self.bootstrap, self.topic, self.kind, self.path = bootstrap, topic, kind, path
        self.table = HistoryWriter(bootstrap, topic, kind, path)
        fill(bootstrap, topic, numbered(40))
        fill(bootstrap, topic, numbered(40, 100), partition=1, headers=[("h", b"x")])

    def options(self, *, streaming: bool = False, **more: str) -> Any:
        return read_options(
            source_options(self.bootstrap, self.topic, self.path, **more), streaming=streaming
        )

    def planned(self, *filters: Filter, **more: str) -> tuple[HeadraceBatchReader, list[Any]]:
        options = self.options(**more)
        reader = HeadraceBatchReader(options, spark_schema(options.columns))
        left = list(reader.push(list(filters)))
        assert all(each.attribute == ("timestamp",) for each in left)  # type: ignore[attr-defined]
        return reader, list(reader.partitions())

    def compact(self, *, least: int) -> compaction.Compacted | None:
        return compaction.compact(self.kind, str(self.path), least=least)

    def read(self, *filters: Filter, **more: str) -> list[int]:
        """The numbers of all rows, in order, each as often as it comes."""
        reader, tasks = self.planned(*filters, **more)
        return numbers(reader, tasks)


def numbers(reader: Any, tasks: list[Any]) -> list[int]:
    found = [row["value"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(map(int, found))


def files_of(tasks: list[Any]) -> list[str]:
    """The files that the tasks open, by the ranges that the writer named them after."""
    parts = [part for task in tasks if isinstance(task, HistoryPartition) for part in task.parts]
    return sorted(Path(part.file.location).stem for part in parts)


def log_ranges(tasks: list[Any]) -> list[tuple[int, int, int]]:
    found = [each.wanted for each in tasks if isinstance(each, RangePartition) and each.wanted.size > 0]
    return sorted((each.partition, each.start, each.end) for each in found)


ALL = [*range(40), *range(100, 140)]


@pytest.fixture(params=KINDS)
def one(request: pytest.FixtureRequest, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path) -> Union:
    return Union(cluster.bootstrap_servers, make_topic(2), request.param, tmp_path / "table")


def test_the_log_begins_where_the_table_ends(one: Union) -> None:
    one.table.load((0, 0, 10))
    assert one.read() == ALL
    one.table.load((0, 10, 25), (1, 0, 30))
    reader, tasks = one.planned()
    assert numbers(reader, tasks) == ALL
    assert files_of(tasks) == ["0-0", "0-10", "1-0"]
    assert log_ranges(tasks) == [(0, 25, 40), (1, 30, 40)]
    # A version that was planned stays what it was, whatever is loaded meanwhile.
    one.table.load((0, 25, 40))
    assert numbers(reader, tasks) == ALL


def test_retention_takes_what_is_loaded(one: Union) -> None:
    one.table.load((0, 0, 20), (1, 0, 40))
    delete_records(one.bootstrap, one.topic, 0, 15)
    delete_records(one.bootstrap, one.topic, 1, 40)
    assert one.read() == ALL
    assert one.read(startingOffsets="earliest") == ALL
    delete_records(one.bootstrap, one.topic, 0, 20)
    assert one.read() == ALL


def test_a_gap_is_told(one: Union) -> None:
    one.table.load((0, 0, 20), (1, 0, 10))
    delete_records(one.bootstrap, one.topic, 0, 23)
    with pytest.raises(
        LostDataError, match=r"offsets 20 to 23 of .*-0 are neither in the log, which begins at 23"
    ):
        one.read()
    assert one.read(failOnDataLoss="false") == [each for each in ALL if each not in (20, 21, 22)]


def test_retention_may_come_while_a_task_reads(one: Union) -> None:
    one.table.load((0, 0, 10))
    reader, tasks = one.planned()
    assert log_ranges(tasks) == [(0, 10, 40), (1, 0, 40)]
    one.table.load((0, 10, 30), (1, 0, 40))
    delete_records(one.bootstrap, one.topic, 0, 30)
    delete_records(one.bootstrap, one.topic, 1, 5)
    assert numbers(reader, tasks) == ALL
    # What the table has not got either is lost.
    one.table.load((0, 30, 31))
    delete_records(one.bootstrap, one.topic, 0, 35)
    with pytest.raises(LostDataError, match=r"begins at offset 35 now.* has not all of them"):
        numbers(reader, tasks)
    forgiving = HeadraceBatchReader(one.options(failOnDataLoss="false"), spark_schema(PLAIN_COLUMNS))
    assert numbers(forgiving, tasks) == [each for each in ALL if each not in range(31, 35)]


def test_retention_may_come_while_a_query_is_planned(one: Union, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded and removed between the look at the table and the look at the log."""
    from headrace.spark.history.union_offsets import UnionOffsets

    one.table.load((0, 0, 10), (1, 0, 40))
    partitions = UnionOffsets.partitions

    def overtaken(self: UnionOffsets, **more: bool) -> list[TopicPartition]:
        found = partitions(self, **more)
        monkeypatch.undo()
        one.table.load((0, 10, 30))
        delete_records(one.bootstrap, one.topic, 0, 30)
        return found

    monkeypatch.setattr(UnionOffsets, "partitions", overtaken)
    assert one.read() == ALL


def test_predicates_prune_files_and_log(one: Union) -> None:
    for start in range(0, 30, 10):
        one.table.load((0, start, start + 10), (1, start, start + 10))
    _, tasks = one.planned(EqualTo(("partition",), 1), LessThan(("offset",), 12))
    assert (files_of(tasks), log_ranges(tasks)) == (["1-0", "1-10"], [])
    assert one.read(EqualTo(("partition",), 1), LessThan(("offset",), 12)) == list(range(100, 112))
    _, tasks = one.planned(GreaterThanOrEqual(("offset",), 30))
    assert (files_of(tasks), log_ranges(tasks)) == ([], [(0, 30, 40), (1, 30, 40)])

    def second(number: int) -> datetime:
        return datetime.fromtimestamp(FIRST_MS / 1000 + number, UTC)

    early = GreaterThanOrEqual(("timestamp",), second(15)), LessThan(("timestamp",), second(18))
    _, tasks = one.planned(*early)
    assert files_of(tasks) == ["0-10", "1-10"]
    assert one.read(*early) == [15, 16, 17, 115, 116, 117]
    late = GreaterThanOrEqual(("timestamp",), second(33))
    _, tasks = one.planned(late)
    assert (files_of(tasks), log_ranges(tasks)) == ([], [(0, 33, 40), (1, 33, 40)])
    assert one.read(late) == [*range(33, 40), *range(133, 140)]


def test_starts_by_offset_and_time_are_found_in_the_table(one: Union) -> None:
    one.table.load((0, 0, 15), (1, 0, 15))
    one.table.load((0, 15, 30), (1, 15, 40))
    for partition in (0, 1):
        delete_records(one.bootstrap, one.topic, partition, 30)
    fourth = str(FIRST_MS + 4000)
    assert one.read(startingTimestamp=fourth) == [*range(4, 40), *range(104, 140)]
    assert one.read(endingTimestamp=fourth) == [*range(4), *range(100, 104)]
    numbers = f'{{"{one.topic}": {{"0": 28, "1": -2}}}}'
    assert one.read(startingOffsets=numbers) == [*range(28, 40), *range(100, 140)]


def test_a_table_that_begins_late(one: Union) -> None:
    """The log serves what is before it, as long as it has it."""
    one.table.load((0, 20, 30))
    reader, tasks = one.planned()
    assert numbers(reader, tasks) == ALL
    assert log_ranges(tasks) == [(0, 0, 20), (0, 30, 40), (1, 0, 40)]
    delete_records(one.bootstrap, one.topic, 0, 25)
    assert one.read() == ALL[20:]


def test_a_history_with_a_gap(one: Union) -> None:
    one.table.load((0, 0, 10))
    one.table.load((0, 12, 30))
    with pytest.raises(LostDataError, match=r"has not all records of .*-0 before offset 12"):
        one.read()
    assert one.read(startingOffsets=f'{{"{one.topic}": {{"0": 12, "1": 0}}}}') == ALL[12:]
    assert one.read(failOnDataLoss="false") == [each for each in ALL if each not in (10, 11)]


def test_small_files_are_joined(one: Union) -> None:
    for start in range(0, 30, 5):
        one.table.load((0, start, start + 5), (1, start, start + 5))
    reader, tasks = one.planned()
    assert one.compact(least=13) is None
    assert one.compact(least=12) == (12, 1)
    _, after = one.planned()
    assert (len(files_of(after)), log_ranges(after)) == (1, [(0, 30, 40), (1, 30, 40)])
    assert one.read() == ALL
    assert one.read(EqualTo(("partition",), 1), LessThan(("offset",), 12)) == list(range(100, 112))
    with_headers, parts = one.planned(includeHeaders="true")
    rows = [row for task in parts for batch in with_headers.read(task) for row in batch.to_pylist()]
    assert all(
        row["headers"] == ([{"key": "h", "value": b"x"}] if row["partition"] else None) for row in rows
    )
    # Who has opened the table before reads what was there.
    assert numbers(reader, tasks) == ALL
    one.table.load((0, 30, 40))
    assert one.compact(least=2) == (2, 1)
    delete_records(one.bootstrap, one.topic, 0, 40)
    assert one.read() == ALL


def test_a_load_and_a_compaction_at_the_same_time(one: Union, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg refuses the second commit: a load's is made again, a compaction's another time."""
    one.table.load((0, 0, 5), (1, 0, 5))
    evolve, joined = IcebergLoadTable._evolve, compaction._joined

    def compacts(self: IcebergLoadTable, *given: Any) -> None:
        monkeypatch.undo()
        evolve(self, *given)
        assert one.compact(least=2) == (2, 1)

    monkeypatch.setattr(IcebergLoadTable, "_evolve", compacts)
    one.table.load((0, 5, 10))
    assert one.read() == ALL

    def loads(*given: Any) -> str:
        monkeypatch.undo()
        one.table.load((1, 5, 10))
        return joined(*given)

    monkeypatch.setattr(compaction, "_joined", loads)
    one.compact(least=2)
    assert one.read() == ALL
    assert one.read() == ALL


def test_another_run_of_the_load_comes_first(one: Union, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the table and the commit: a batch is in the table once."""
    one.table.load((0, 0, 10))
    other = HistoryWriter(one.bootstrap, one.topic, one.kind, one.path, first_number=1)
    kind = IcebergLoadTable if one.kind == "iceberg" else DeltaLoadTable
    name = "_evolve" if one.kind == "iceberg" else "_evolved"
    evolve = getattr(kind, name)

    def overtaken(self: Any, *given: Any) -> Any:
        monkeypatch.undo()
        found = evolve(self, *given)
        other.load((0, 10, 20))
        return found

    monkeypatch.setattr(kind, name, overtaken)
    with contextlib.suppress(CommitFailedError):  # Delta refuses: Spark runs the batch again
        one.table.load((0, 10, 20))
    assert one.read() == ALL
    _, tasks = one.planned()
    assert len(files_of(tasks)) == 2


def test_a_stream_begins_with_the_table(one: Union) -> None:
    """What is read where follows from the offsets: a repeated batch may come from the other place."""
    one.table.load((0, 0, 30), (1, 0, 30))
    for partition in (0, 1):
        delete_records(one.bootstrap, one.topic, partition, 30)
    options = one.options(streaming=True, maxOffsetsPerTrigger="24")
    reader = HeadraceStreamReader(options, spark_schema(options.columns))
    places, found, start = [], [], reader.initialOffset()
    while (end := reader.latestOffset(start, ReadMaxRows(24))) != start:
        tasks = list(reader.partitions(start, end))
        places.append((bool(files_of(tasks)), bool(log_ranges(tasks))))
        found += numbers(reader, tasks)
        again = HeadraceStreamReader(options, spark_schema(options.columns))
        assert numbers(again, list(again.partitions(start, end))) == numbers(reader, tasks)
        again.stop()
        start = end
    reader.stop()
    assert sorted(found) == ALL
    assert places == [(True, False), (True, False), (True, True), (False, True)]


def test_a_stream_that_fell_behind_retention_is_served_by_the_table(one: Union) -> None:
    one.table.load((0, 0, 10), (1, 0, 10))
    options = one.options(streaming=True)
    reader = HeadraceStreamReader(options, spark_schema(options.columns))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(40))
    assert len(numbers(reader, list(reader.partitions(start, end)))) == 40
    one.table.load((0, 10, 40), (1, 10, 40))
    for partition in (0, 1):
        delete_records(one.bootstrap, one.topic, partition, 40)
    last = reader.latestOffset(end, ReadMaxRows(1000))
    tasks = list(reader.partitions(end, last))
    assert (len(numbers(reader, tasks)), log_ranges(tasks)) == (40, [])
    reader.stop()


def test_files_are_cut_and_put_together_into_tasks(one: Union, monkeypatch: pytest.MonkeyPatch) -> None:
    one.table.load((0, 0, 5), (1, 0, 5))
    one.table.load((0, 5, 40), (1, 5, 40))
    _, tasks = one.planned()
    assert len([each for each in tasks if isinstance(each, HistoryPartition)]) == 1
    reader, tasks = one.planned(minPartitions="3")
    assert len([each for each in tasks if isinstance(each, HistoryPartition)]) >= 3
    assert numbers(reader, tasks) == ALL
    # A file of several groups of rows, by which it is cut, as a compaction may write it.
    monkeypatch.setattr(compaction, "_ROWS_PER_GROUP", 10)
    one.compact(least=2)
    reader, tasks = one.planned(minPartitions="4")
    assert len(tasks) >= 4
    assert numbers(reader, tasks) == ALL


def test_a_table_with_partitions(one: Union, tmp_path: Path) -> None:
    """Delta has such columns in its log and not in the files."""
    path = tmp_path / "partitioned"
    table = HistoryWriter(one.bootstrap, one.topic, one.kind, path, is_partitioned=True)
    table.load((0, 0, 10), (1, 0, 20))
    table.load((0, 10, 20), (1, 20, 40))
    delete_records(one.bootstrap, one.topic, 1, 40)
    assert one.read(history=str(path)) == ALL
    _, tasks = one.planned(EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 20), history=str(path))
    assert (files_of(tasks), log_ranges(tasks)) == (["1-20"], [])
    assert one.read(EqualTo(("partition",), 1), history=str(path)) == ALL[40:]
    assert compaction.compact(one.kind, str(path)) == (4, 2)
    reader, tasks = one.planned(EqualTo(("partition",), 1), history=str(path), columns="value,partition")
    assert {row for task in tasks for rows in reader.read(task) for row in rows.column(1).to_pylist()} == {1}
    assert one.read(history=str(path)) == ALL


def test_files_in_folders_with_any_name_are_found(tmp_path: Path) -> None:
    """Hive escapes what a partition's folder cannot have in its name, Delta's log escapes that once more."""
    folder = LocalFolder(tmp_path)
    table, batch = open_table("delta", folder, ("hour",)), LoadBatch("load", 0)
    place = f"{table.staging_path(batch, 'one')}/hour=2026-11-18 11%3A00%3A00"
    folder.make(place)
    pq.write_table(pa.table({"offset": [1, 2]}), tmp_path / place / "rows.parquet")
    files = [data_file(folder, each) for each in folder.files("", "rows.parquet")]
    table.add(batch, files, pa.schema([("offset", pa.int64()), ("hour", pa.timestamp("us", "UTC"))]))
    [found] = DeltaSnapshot(str(tmp_path)).files()
    assert Path(found.location) == tmp_path / place / "rows.parquet"
    assert found.bounds == {"offset": (1, 2)}
    assert found.constants == {"hour": datetime(2026, 11, 18, 11, tzinfo=UTC)}


def test_offsets_without_records_are_held_too(one: Union) -> None:
    """As those of compaction and of transactions' ends: the next batch begins behind them."""
    one.table.load((0, 0, 10), (1, 0, 10))
    delete_records(one.bootstrap, one.topic, 0, 15)
    one.table.load((0, 10, 15))
    one.table.load((0, 15, 20))
    _, tasks = one.planned()
    assert log_ranges(tasks) == [(0, 20, 40), (1, 10, 40)]
    assert one.read() == [each for each in ALL if each not in range(10, 15)]


def test_offsets_outlive_the_log_of_a_delta_table(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    one = Union(cluster.bootstrap_servers, make_topic(2), "delta", tmp_path / "table")
    one.table.load((0, 3, 10))
    one.table.load((0, 12, 20), (1, 0, 40))
    DeltaTable(str(one.path)).create_checkpoint()
    for commit in (one.path / "_delta_log").glob("*.json"):
        commit.unlink()
    reader, tasks = one.planned(failOnDataLoss="false")
    assert log_ranges(tasks) == [(0, 0, 3), (0, 20, 40)]
    assert numbers(reader, tasks) == [each for each in ALL if each not in (10, 11)]


def test_the_tail_may_come_from_segment_files(one: Union) -> None:
    one.table.load((0, 0, 10), (1, 0, 40))
    delete_records(one.bootstrap, one.topic, 1, 40)
    assert one.read(**{"read.mode": "segments"}) == ALL


def test_a_table_that_does_not_say_what_it_holds(one: Union) -> None:
    one.table.load((0, 0, 10), is_history=False)
    with pytest.raises(OptionError, match=r"is not a history of .* its commits do not say which offsets"):
        one.read()


def test_who_reads_does_not_make_a_catalogue(tmp_path: Path) -> None:
    """SQLite has made the file, and a load is about to make the catalogue in it: it would find it made."""
    (tmp_path / "catalog.db").touch()
    with pytest.raises(OptionError, match=r"has no table headrace\.data"):
        open_snapshot(str(tmp_path))
    assert compaction.compact("iceberg", str(tmp_path)) is None
    assert (tmp_path / "catalog.db").stat().st_size == 0


def test_what_is_no_history(one: Union, cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no table of Delta or Iceberg"):
        one.read(history=str(tmp_path / "nowhere"))
    with pytest.raises(OptionError, match=r"needs kafka\.bootstrap\.servers"):
        read_options({"history": "x", "path": str(tmp_path)}, streaming=False)
    one.table.load((0, 0, 10), topic_id=topic_id(one))
    with pytest.raises(OptionError, match="was loaded with isolation level read_uncommitted"):
        one.read(**{"kafka.isolation.level": "read_committed"})
    assert one.read() == ALL
    delete_topic(one.bootstrap, one.topic)
    cluster.create_topic(one.topic, 2)
    with pytest.raises(OptionError, match="has the history of another topic"):
        one.read()


def topic_id(one: Union) -> str:
    with Admin(bootstrap_servers=one.bootstrap) as admin:
        return admin.describe_topics([one.topic])[0].topic_id


# Without a cluster


def test_files_of_parquet_are_not_joined() -> None:
    done = CliRunner().invoke(cli, ["load", "orders", "/data/orders", "--to", "parquet", "--compact", "5"])
    assert done.exit_code == 2
    assert "--compact is for Delta and Iceberg" in done.stderr


def test_ranges_are_cut_where_the_table_begins_and_ends() -> None:
    held = HeldRange(10, 20, 10)

    def parts(start: int, end: int) -> list[list[tuple[int, int]]]:
        found = cut(OffsetRange(*P0, start, end), held)
        return [[(each.start, each.end) for each in side] for side in found]

    assert parts(0, 30) == [[(10, 20)], [(0, 10), (20, 30)]]
    assert parts(12, 15) == [[(12, 15)], []]
    assert parts(0, 5) == [[], [(0, 5)]]
    assert parts(20, 25) == [[], [(20, 25)]]
    assert parts(15, 25) == [[(15, 20)], [(20, 25)]]


def test_batches_follow_one_another() -> None:
    def after(before: Holdings, start: int, end: int, **more: Any) -> Holdings:
        return followed_by(before, BatchOffsets([OffsetRange(*P0, start, end)], **more), "the table t")

    first = after(Holdings(), 5, 10)
    assert first.ranges == {P0: HeldRange(5, 10, 5)}
    assert after(first, 10, 20).ranges == {P0: HeldRange(5, 20, 5)}
    assert after(first, 12, 20).ranges == {P0: HeldRange(5, 20, 12)}
    with pytest.raises(LoadError, match="holds offsets 5 to 10 of a-0 already, and this load begins at 9"):
        after(first, 9, 20)
    with pytest.raises(LoadError, match="isolation level read_uncommitted"):
        after(first, 10, 20, is_committed=True)
    known = after(Holdings(), 0, 10, ids={"a": "MkU3OEVBNTcwNTJENDM2Qg"})
    with pytest.raises(LoadError, match="another topic 'a'"):
        after(known, 10, 20, ids={"a": "MkU3OEVBNTcwNTJENjM2Qg"})
